// Talks to the web handler as a client does: requests with credentials, and streams of server-sent events.
import type { Handler } from 'pawl/service'
import { defined } from '../../src/session/defined.ts'

/** The answer to a request. */
export interface Answered<T = Record<string, unknown>> {
  status: number
  body: T
  headers: Headers
}

/** Sends requests as the holder of a key. */
export interface WebClient {
  get<T = Record<string, unknown>>(path: string, headers?: Record<string, string>): Promise<Answered<T>>
  post<T = Record<string, unknown>>(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answered<T>>
  /** The events of a stream as they arrive. */
  watch(path: string, options?: { lastEventId?: string; signal?: AbortSignal }): Promise<AsyncGenerator<ServerSent>>
}

/** One server-sent event. */
export interface ServerSent {
  id?: string
  event: string
  // oxlint-disable-next-line typescript/no-explicit-any -- whatever was sent
  data: any
}

/** A client of anything that answers requests. */
export function webClient(ask: Handler | typeof fetch, key: string, origin = 'http://service.test'): WebClient {
  const credentials = { authorization: `Bearer ${key}` }

  async function answered<T>(request: Request): Promise<Answered<T>> {
    const response = await ask(request)
    const text = await response.text()
    return { status: response.status, body: (text === '' ? undefined : JSON.parse(text)) as T, headers: response.headers }
  }

  return {
    get: (path, headers) => answered(new Request(`${origin}${path}`, { headers: { ...credentials, ...headers } })),
    post: (path, body, headers) =>
      answered(
        new Request(`${origin}${path}`, {
          method: 'POST',
          headers: { ...credentials, ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
          ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        }),
      ),
    async watch(path, { lastEventId, signal } = {}) {
      const headers = { ...credentials, ...(lastEventId !== undefined && { 'last-event-id': lastEventId }) }
      const response = await ask(new Request(`${origin}${path}`, { headers, ...(signal && { signal }) }))
      if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
      return eventsOf(response)
    },
  }
}

/** The server-sent events of a response; comments are left out. */
async function* eventsOf(response: Response): AsyncGenerator<ServerSent> {
  let text = ''
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    text += new TextDecoder().decode(chunk)
    const blocks = text.split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const field = (name: string): string | undefined => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1]
      const [id, event, data] = [field('id'), field('event'), field('data')]
      if (event !== undefined && data !== undefined) yield { ...defined({ id }), event, data: JSON.parse(data) }
    }
  }
}

/** The events up to and including the first one for which `isLast` returns true. */
export async function eventsUntil(events: AsyncGenerator<ServerSent>, isLast: (sent: ServerSent) => boolean): Promise<ServerSent[]> {
  const seen: ServerSent[] = []
  for await (const sent of events) {
    seen.push(sent)
    if (isLast(sent)) break
  }
  return seen
}
