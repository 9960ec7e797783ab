// A scripted Claude behind Anthropic's own SDK: it keeps what pawl sends, and streams each answer in the API's format.
import Anthropic from '@anthropic-ai/sdk'
import type { cacheUses } from '../../test/support/prompt-cache.ts'

/** A request as it was sent. */
export type ClaudeRequest = Parameters<typeof cacheUses>[0][number]

export interface ScriptedClaude {
  client: Anthropic
  /** The requests since `begin`. */
  readonly sent: readonly ClaudeRequest[]
  /** Begins a conversation: the next request is its first one. */
  begin(): void
}

type Call = [tool: string, input: object]

/**
 * Looks at one thing per turn, and summarises if a request has no tools. Every fifth turn it writes down what it has seen, if it has a
 * memory, and ticks off a step, if it can plan.
 */
export function scriptedClaude(turns: number): ScriptedClaude {
  let sent: ClaudeRequest[] = []
  let turn = 0
  const client = new Anthropic({
    apiKey: 'none',
    maxRetries: 0,
    fetch: (_url, init) => {
      const request = JSON.parse(init?.body as string) as ClaudeRequest
      const tools = new Set(((request.tools ?? []) as { name: string }[]).map(({ name }) => name))
      const isSummary = tools.size === 0
      sent.push(request)
      turn += isSummary ? 0 : 1
      return Promise.resolve(answerOf(isSummary || turn > turns ? [] : callsOf(turn, turns, tools)))
    },
  })
  return {
    client,
    get sent() {
      return sent
    },
    begin() {
      sent = []
      turn = 0
    },
  }
}

function callsOf(turn: number, turns: number, tools: ReadonlySet<string>): Call[] {
  const steps = Array.from({ length: Math.ceil(turns / 5) }, (_, index) => ({
    id: `s${index + 1}`,
    title: `Look at the ${index + 1}. five`,
  }))
  const calls: Call[] = [['look', { turn }]]
  if (turn === 1) calls.push(['plan_setup', { objective: 'To look at all of them', steps }])
  else if (turn % 5 === 0) {
    calls.push(['plan_update_step', { id: `s${turn / 5}`, status: 'done', evidence: `I looked at number ${turn}.` }])
    calls.push(['memory_append', { block: 'notes', content: `Number ${turn} was as expected.` }])
  }
  return calls.filter(([tool]) => tools.has(tool))
}

function answerOf(calls: readonly Call[]): Response {
  // Without usage, pawl measures requests by their bytes.
  const usage = { input_tokens: 0, output_tokens: 1 }
  const message = { id: 'msg', type: 'message', role: 'assistant', model: 'claude-sonnet-5-5', content: [], stop_reason: null, usage }
  const blocks = calls.map(([name, input], index) => [
    { type: 'content_block_start', index, content_block: { type: 'tool_use', id: `toolu_${index}`, name, input: {} } },
    { type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json: JSON.stringify(input) } },
    { type: 'content_block_stop', index },
  ])
  const text = [
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'I have seen them all.' } },
    { type: 'content_block_stop', index: 0 },
  ]
  const events = [
    { type: 'message_start', message },
    ...(calls.length > 0 ? blocks.flat() : text),
    { type: 'message_delta', delta: { stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn' }, usage },
    { type: 'message_stop' },
  ]
  const body = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}
