// Why a model stopped, and what follows: one row for each stop reason and content, from the API's events to the next request.
import { randomUUID } from 'node:crypto'
import { defineAgent, defineTool } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { anthropic } from 'pawl/models'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import type { MessagesClient } from '../../src/models/anthropic-options.ts'

type Body = Parameters<MessagesClient['messages']['create']>[0]
type WireMessage = Body['messages'][number]
type Block = Exclude<WireMessage['content'], string>[number]

/** An answer as the API streams it: text, thinking, and calls with arguments that may be cut off. */
interface Answer {
  stop: string
  blocks: { text?: string; thinking?: string; call?: string }[]
}

function eventsOf({ stop, blocks }: Answer) {
  return [
    { type: 'message_start', message: { model: 'claude-x', usage: { input_tokens: 3, output_tokens: 1 } } },
    ...blocks.flatMap(({ text, thinking, call }, index) => {
      const begin = (content_block: object) => ({ type: 'content_block_start', index, content_block })
      const piece = (delta: object) => ({ type: 'content_block_delta', index, delta })
      if (text !== undefined) return [begin({ type: 'text', text: '' }), piece({ type: 'text_delta', text })]
      if (thinking !== undefined)
        return [begin({ type: 'thinking', thinking, signature: '' }), piece({ type: 'signature_delta', signature: 's' })]
      return [
        begin({ type: 'tool_use', id: `toolu_${index}`, name: 'look', input: {} }),
        piece({ type: 'input_json_delta', partial_json: call }),
      ]
    }),
    { type: 'message_delta', delta: { stop_reason: stop }, usage: { output_tokens: 9 } },
    { type: 'message_stop' },
  ]
}

/** The answers that the API returns and the requests that it received, by the first message of a session. */
const sessions = new Map<string, { answers: Answer[]; requests: WireMessage[][]; looked: string[] }>()

const client = {
  messages: {
    async create({ messages }: Body) {
      const played = sessions.get(blocksOf(messages[0]!).flatMap((block) => (block.type === 'text' ? [block.text] : []))[0] ?? '')
      played?.requests.push(structuredClone(messages))
      const answer = played?.answers.shift() ?? { stop: 'end_turn', blocks: [{ text: 'Fine.' }] }
      return (async function* () {
        yield* eventsOf(answer)
      })()
    },
  },
} as unknown as MessagesClient

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({ what: z.string() }),
  effect: 'read',
  execute: ({ what }, ctx) => {
    sessions.get(ctx.sessionId)?.looked.push(what)
    return `saw ${what}`
  },
})

let here: Deployment
beforeAll(async () => {
  here = await deploy()
  const model = anthropic('claude-x', { client })
  await here.startWorker({
    agents: [
      defineAgent({ name: 'stopping', instructions: '', model, tools: [look], limits: { maxTurns: 4 }, recovery: { automatic: [] } }),
    ],
  })
})
afterAll(() => here?.stop())

async function play(answers: Answer[]) {
  const id = `s-${randomUUID()}`
  const played = { answers: [...answers], requests: [] as WireMessage[][], looked: [] as string[] }
  sessions.set(id, played)
  const session = here.pawl.session(id, { agent: 'stopping' }) as SessionHandle
  const settled = await (await session.send(id)).settled({ timeout: 30_000 })
  return { ...played, session, settled }
}

const text = { text: 'So far.' }
const thinking = { thinking: 'Hm.' }
const call = (what: string) => ({ call: JSON.stringify({ what }) })
const CUT = { call: '{"what": "B' }
const ended = (stopReason: string, said: string) => ({ status: 'completed', stopReason, text: said })

/** `looked`: calls that ran. `told`: error results for the model. */
type Row = [stop: string, what: string, blocks: Answer['blocks'], outcome: object, more?: { looked?: string[]; told?: RegExp }]

const ROWS: Row[] = [
  ['end_turn', 'text', [thinking, text], ended('end_turn', 'So far.')],
  ['end_turn', 'nothing', [], ended('end_turn', '')],
  ['stop_sequence', 'text', [text], ended('stop_sequence', 'So far.')],
  ['tool_use', 'a call', [thinking, call('A')], ended('end_turn', 'Fine.'), { looked: ['A'] }],
  ['tool_use', 'no call', [text], ended('end_turn', 'Fine.')],
  ['max_tokens', 'text', [text], ended('max_tokens', 'So far.')],
  ['max_tokens', 'thinking alone', [thinking], ended('max_tokens', '')],
  ['max_tokens', 'nothing', [], ended('max_tokens', '')],
  ['max_tokens', 'a call that was cut', [text, CUT], ended('end_turn', 'Fine.'), { told: /cut off/ }],
  ['max_tokens', 'a call at its end that looks complete', [call('A')], ended('end_turn', 'Fine.'), { told: /cut off/ }],
  ['max_tokens', 'a call before the one that was cut', [call('A'), CUT], ended('end_turn', 'Fine.'), { looked: ['A'], told: /cut off/ }],
  ['model_context_window_exceeded', 'text', [text], ended('model_context_window_exceeded', 'So far.')],
  ['model_context_window_exceeded', 'a call that was cut', [CUT], ended('end_turn', 'Fine.'), { told: /cut off/ }],
  ['model_context_window_exceeded', 'thinking alone', [thinking], { status: 'failed', code: 'context_overflow', strategy: 'abandon' }],
  ['refusal', 'nothing', [], ended('refusal', '')],
  ['refusal', 'text', [text], ended('refusal', 'So far.')],
  ['refusal', 'thinking alone', [thinking], ended('refusal', '')],
  ['refusal', 'a call', [text, call('A')], ended('refusal', 'So far.')],
  ['pause_turn', 'text', [text], ended('end_turn', 'Fine.')],
  ['pause_turn', 'nothing', [], ended('end_turn', 'Fine.')],
  ['pause_turn', 'a call', [call('A')], ended('end_turn', 'Fine.'), { looked: ['A'] }],
  ['something_new', 'text', [text], ended('end_turn', 'So far.')],
  ['something_new', 'a call', [call('A')], ended('end_turn', 'Fine.'), { looked: ['A'] }],
]

describe.each(ROWS)('%s with %s', (stop, _, blocks, outcome, { looked = [], told } = {}) => {
  it('a stop reason leads to its outcome, and the session continues with a request that the API accepts', async () => {
    const played = await play([{ stop, blocks }])
    expect(played.settled).toMatchObject(outcome)
    expect(played.looked).toEqual(looked)
    const results = blocksOf(played.requests[1]?.at(-1)).filter((block) => block.type === 'tool_result')
    const errors = results.filter(({ is_error }) => is_error).map(({ content }) => String(content))
    expect(errors).toEqual(told ? [expect.stringMatching(told)] : [])
    const next = await played.session.send('And now?')
    expect(await next.result({ timeout: 30_000 })).toMatchObject({ text: 'Fine.' })
    for (const request of played.requests.slice(0, -1)) expectAccepted(request)
    const last = played.requests.at(-1) ?? []
    expectAccepted(last)
    expect(JSON.stringify(last).includes('So far.')).toBe(blocks.includes(text) && stop !== 'refusal' && stop !== 'tool_use')
  })
})

it('an agent whose model pauses again and again stops at its turn limit', async () => {
  const { settled, requests } = await play(Array.from({ length: 9 }, () => ({ stop: 'pause_turn', blocks: [text] })))
  expect(settled).toMatchObject({ status: 'failed', code: 'max_turns' })
  expect(requests).toHaveLength(4)
})

function blocksOf(message: WireMessage | undefined): Block[] {
  return typeof message?.content === 'string' ? [{ type: 'text', text: message.content }] : (message?.content ?? [])
}

/** The rules of the Messages API for a transcript. */
function expectAccepted(messages: readonly WireMessage[]): void {
  expect(messages.map(({ role }) => role)).toEqual(messages.map((_, index) => (index % 2 === 0 ? 'user' : 'assistant')))
  expect(messages.at(-1)?.role).toBe('user')
  const ids = messages.flatMap((message) => blocksOf(message).flatMap((block) => (block.type === 'tool_use' ? [block.id] : [])))
  expect(new Set(ids).size).toBe(ids.length)
  for (const [index, message] of messages.entries()) {
    const blocks = blocksOf(message)
    expect(blocks).not.toEqual([])
    for (const block of blocks) if (block.type === 'text') expect(block.text.trim()).not.toBe('')
    if (message.role === 'assistant') expect(blocks.at(-1)?.type).not.toMatch(/thinking/)
    const called = blocks.flatMap((block) => (block.type === 'tool_use' ? [block.id] : []))
    const answered = blocksOf(messages[index + 1]).slice(0, called.length)
    expect(answered.map((block) => block.type === 'tool_result' && block.tool_use_id)).toEqual(called)
    for (const block of blocks) if (block.type === 'tool_use') expect(block.input).toBeTypeOf('object')
  }
}
