// A TCP proxy before a server, which can be told to let each thing that a client says wait.
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** A proxy on the loopback. */
export interface SlowProxy {
  /** The server's URL, by way of the proxy. */
  url: string
  /** Milliseconds that each chunk from a client waits from now on. */
  delayMs: number
  close(): Promise<void>
}

/** Starts a proxy before the server of `url`, at a free port or the one that is given. It does not delay anything yet. */
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
    // One after another: timers of different lengths may fire in another order than they end.
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
