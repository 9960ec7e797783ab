// A small collector: receives OTLP over HTTP as JSON, and keeps every span as received.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { until } from './until.ts'

interface OtlpAttribute {
  key: string
  value: Record<string, unknown>
}

/** A span on the wire. */
export interface OtlpSpan {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  startTimeUnixNano: string
  endTimeUnixNano: string
  status: { code: number; message?: string }
  attributes: OtlpAttribute[]
  events: { name: string; attributes: OtlpAttribute[] }[]
  links: { traceId: string; spanId: string }[]
}

/** A request as received. */
export interface OtlpRequest {
  path: string
  type: string
  body: Buffer
}

/** A collector. */
export interface OtlpReceiver {
  url: string
  requests: OtlpRequest[]
  /** Sets the status of the next answers; with 0 it sends no answers and cuts the connection. */
  answer(status: number): void
  /** How many requests were not answered with 200. */
  refused(): number
  /** All spans of a session as received, including repeats: their JSON text by trace and span. */
  textsOf(sessionId: string): Map<string, string[]>
  /** The spans of a session, each once. */
  spansOf(sessionId: string): OtlpSpan[]
  /** Waits until a span of the session with this name has arrived. */
  came(sessionId: string, name: string, count?: number): Promise<OtlpSpan[]>
  close(): Promise<void>
}

/** The value of an attribute of a span or of one of its events. */
export function attribute(of: { attributes: OtlpAttribute[] } | undefined, key: string): unknown {
  const value = of?.attributes.find((one) => one.key === key)?.value
  return value && Object.values(value)[0]
}

/** Starts a collector. */
export async function otlpReceiver(): Promise<OtlpReceiver> {
  const requests: OtlpRequest[] = []
  let status = 200
  let refused = 0
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    if (status !== 200) refused += 1
    if (status === 0) return void request.socket.destroy()
    if (status === 200) requests.push({ path: request.url ?? '', type: request.headers['content-type'] ?? '', body: Buffer.concat(chunks) })
    response.writeHead(status, { 'content-type': request.headers['content-type'] ?? 'application/json' })
    response.end(status === 200 && request.headers['content-type'] === 'application/json' ? '{}' : '')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  function textsOf(sessionId: string): Map<string, string[]> {
    const texts = new Map<string, string[]>()
    for (const { type, body } of requests) {
      if (type !== 'application/json') continue
      const { resourceSpans = [] } = JSON.parse(body.toString()) as { resourceSpans?: { scopeSpans: { spans: OtlpSpan[] }[] }[] }
      for (const span of resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))) {
        if (attribute(span, 'session.id') !== sessionId) continue
        const id = `${span.traceId} ${span.spanId}`
        texts.set(id, [...(texts.get(id) ?? []), JSON.stringify(span)])
      }
    }
    return texts
  }
  const spansOf = (sessionId: string): OtlpSpan[] => [...textsOf(sessionId).values()].map(([text = '']) => JSON.parse(text) as OtlpSpan)

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    answer: (next) => {
      status = next
    },
    refused: () => refused,
    textsOf,
    spansOf,
    came: (sessionId, name, count = 1) =>
      until(`${count} spans "${name}" have come`, () => {
        const found = spansOf(sessionId).filter((span) => span.name === name)
        return found.length >= count && found
      }),
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
