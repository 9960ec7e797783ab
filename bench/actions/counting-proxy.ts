// A proxy in front of Temporal that counts the requests it forwards, by the name of the method.
import { once } from 'node:events'
import { type ClientHttp2Session, connect, createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'

export interface CountingProxy {
  address: string
  /** The requests so far, by method. */
  counts(): Map<string, number>
  stop(): Promise<void>
}

/** Starts one on a free port. `target`: host and port. */
export async function startCountingProxy(target: string): Promise<CountingProxy> {
  const counts = new Map<string, number>()
  const sessions = new Set<{ destroy(): void }>()
  const server = createServer()
  server.on('session', (session) => {
    let upstream: ClientHttp2Session | undefined
    /** The server ends a connection after some minutes, and the streams of the client continue on another one. */
    const open = (): ClientHttp2Session => {
      const mine = connect(`http://${target}`)
      const left = (): void => {
        if (upstream === mine) upstream = undefined
      }
      mine.on('goaway', left)
      mine.on('close', left)
      // Its requests fail, each for its client.
      mine.on('error', left)
      sessions.add(mine)
      return mine
    }
    session.on('error', () => upstream?.destroy())
    session.on('close', () => upstream?.close())
    session.on('stream', (stream, headers) => {
      const method = String(headers[':path']).split('/').at(-1) ?? ''
      counts.set(method, (counts.get(method) ?? 0) + 1)
      upstream ??= open()
      forward(upstream, stream, headers)
    })
    sessions.add(session)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts: () => new Map(counts),
    async stop() {
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()))
      for (const session of sessions) session.destroy()
      await closed
    },
  }
}

function forward(upstream: ClientHttp2Session, stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
  const request = upstream.request(headers)
  let trailers: IncomingHttpHeaders = {}
  request.on('response', ({ ...answer }) => {
    if (stream.destroyed) return
    stream.respond(answer, { waitForTrailers: true })
    request.pipe(stream)
  })
  request.on('trailers', (some) => {
    trailers = some
  })
  stream.on('wantTrailers', () => stream.sendTrailers(trailers))
  stream.pipe(request)
  // Either side may give the request up: a client at its deadline, or the server that stops.
  stream.on('error', () => request.close())
  stream.on('close', () => request.close())
  request.on('error', () => stream.close())
}
