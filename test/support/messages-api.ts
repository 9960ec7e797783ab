// A fake of Anthropic's Messages API with the tools that run there. It streams the answers that a test chooses, and refuses a request as
// the API would: for what the documentation says, and for anything that it sent and that comes back changed. It shares no code with pawl.
import type { ServerResponse } from 'node:http'
import { anthropicProblems } from './provider-rules.ts'
import { jsonServer } from './wire-server.ts'

type Block = Record<string, unknown> & { type: string }

/** One answer of the API. */
export interface ApiAnswer {
  blocks: Block[]
  /** Default `end_turn`. */
  stop?: string
  searches?: number
  /** Input tokens. Default 10. */
  input?: number
  container?: string
  /** Runs before each block, with its index; the stream waits for it. */
  before?(index: number, res: ServerResponse): unknown
}

/** A request that it accepted or refused. */
export interface ApiRequest {
  body: Record<string, unknown>
  messages: { role: string; content: Block[] }[]
  problems: string[]
  /** The path before the API's own. */
  prefix: string
}

/** Starts it. Answers are given in order; without one, it says "Fine.". */
export async function messagesApi() {
  const requests: ApiRequest[] = []
  const answers: ApiAnswer[] = []
  const containers = new Set<unknown>()
  /** What it has sent, as JSON texts: a request must return it byte for byte. */
  const sent = new Set<string>()

  function changed({ messages, container }: Record<string, unknown>): string[] {
    const problems: string[] = []
    for (const { role, content } of messages as ApiRequest['messages']) {
      if (role !== 'assistant') continue
      for (const given of content) {
        const block = Object.fromEntries(Object.entries(given).filter(([name]) => name !== 'cache_control'))
        if (!/server_tool_use|[a-z]_tool_result/.test(String(block.type))) continue
        if (!sent.has(JSON.stringify(block))) problems.push(`invalid encrypted_content: ${String(block.type)} is not as it was sent`)
      }
      for (const { citations = [] } of content) {
        for (const one of citations as Block[]) {
          if (!sent.has(JSON.stringify(one))) problems.push('invalid encrypted_index in citation')
        }
      }
    }
    const id = typeof container === 'object' ? (container as { id?: unknown } | null)?.id : container
    if (id !== undefined && !containers.has(id)) problems.push(`container ${String(id)} not found`)
    return problems
  }

  async function answer(
    res: ServerResponse,
    { blocks, stop = 'end_turn', searches, input = 10, container, before }: ApiAnswer,
    model: unknown,
  ) {
    const event = (data: { type: string } & Record<string, unknown>) => res.write(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`)
    const shown = container === undefined ? null : { id: container, expires_at: '2027-01-01T00:00:00Z', skills: null }
    if (container !== undefined) containers.add(container)
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    event({ type: 'message_start', message: { model, content: [], container: null, usage: { input_tokens: input, output_tokens: 1 } } })
    for (const [index, block] of blocks.entries()) {
      await before?.(index, res)
      if (res.destroyed) return
      const { citations = [], ...rest } = block as Block & { citations?: Block[] }
      for (const one of citations) sent.add(JSON.stringify(one))
      if (/server_tool_use|[a-z]_tool_result/.test(block.type)) sent.add(JSON.stringify(block))
      const begin = (content_block: object) => event({ type: 'content_block_start', index, content_block })
      const piece = (delta: object) => event({ type: 'content_block_delta', index, delta })
      if (block.type === 'text') {
        begin({ type: 'text', text: '', citations: null })
        for (const citation of citations) piece({ type: 'citations_delta', citation })
        piece({ type: 'text_delta', text: block.text })
      } else if (block.type === 'thinking') {
        begin({ type: 'thinking', thinking: '', signature: '' })
        piece({ type: 'thinking_delta', thinking: block.thinking })
        piece({ type: 'signature_delta', signature: block.signature })
      } else if ('input' in block) {
        begin({ ...rest, input: {} })
        const json = JSON.stringify(block.input)
        piece({ type: 'input_json_delta', partial_json: json.slice(0, 5) })
        piece({ type: 'input_json_delta', partial_json: json.slice(5) })
      } else begin(rest)
      event({ type: 'content_block_stop', index })
    }
    await before?.(blocks.length, res)
    if (res.destroyed) return
    const usage = {
      output_tokens: 20,
      ...(searches !== undefined && { server_tool_use: { web_search_requests: searches, web_fetch_requests: 0 } }),
    }
    event({ type: 'message_delta', delta: { stop_reason: stop, stop_sequence: null, container: shown }, usage })
    event({ type: 'message_stop' })
    res.end()
  }

  const server = await jsonServer((body, req, res) => {
    const problems = [...anthropicProblems(body), ...changed(body)]
    const messages = body.messages as ApiRequest['messages']
    requests.push({ body, messages, problems, prefix: (req.url ?? '').replace('/v1/messages', '').slice(1) })
    if (problems.length > 0) {
      res.writeHead(400, { 'content-type': 'application/json' })
      res.end(JSON.stringify({ type: 'error', error: { type: 'invalid_request_error', message: problems.join('; ') } }))
      return
    }
    return answer(res, answers.shift() ?? { blocks: [{ type: 'text', text: 'Fine.' }] }, body.model)
  })
  return {
    ...server,
    requests,
    /** Forgets a container, as the API does when it expires. */
    expire: (container: string) => containers.delete(container),
    answer: (...given: ApiAnswer[]) => void answers.push(...given),
    reset() {
      requests.length = 0
      answers.length = 0
    },
  }
}

/** A running fake. */
export type MessagesApi = Awaited<ReturnType<typeof messagesApi>>
