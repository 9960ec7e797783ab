// A TCP proxy in front of a server that can delay everything that clients send.
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** A proxy on the loopback. */
export interface SlowProxy {
  /** The server's URL, through the proxy. */
  url: string
  /** Milliseconds by which each chunk from a client is delayed from now on. */
  delayMs: number
  close(): Promise<void>
}

/** Starts a proxy in front of the server of `url`, on a free port or the given one. It does not delay anything yet. */
export async function startSlowProxy(url: string, port = 0): Promise<SlowProxy> {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    const end = (): void => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', end)
      socket.on('close', () => {
        sockets.delete(socket)
        end()
      })
    }
    // One after another: timers of different lengths may not fire in the order in which they end.
    let sent = Promise.resolve()
    client.on('data', (chunk) => {
      const dueAt = Date.now() + proxy.delayMs
      sent = sent.then(async () => {
        const waits = dueAt - Date.now()
        if (waits > 0) await sleep(waits)
        if (!upstream.destroyed) upstream.write(chunk)
      })
    })
    upstream.pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const proxied = new URL(url)
  proxied.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const proxy: SlowProxy = {
    url: proxied.href,
    delayMs: 0,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return proxy
}
