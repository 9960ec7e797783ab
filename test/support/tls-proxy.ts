// A server that speaks TLS with clients that have a certificate of the tests' own CA, and forwards what they send.
import { readFile } from 'node:fs/promises'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { createServer } from 'node:tls'

const pem = (name: string): Promise<Buffer> => readFile(new URL(`./tls/${name}.pem`, import.meta.url))

/** What a client needs: `ca` to trust the server, the others to be trusted by it. */
export const clientPems = async (): Promise<{ ca: Buffer; crt: Buffer; key: Buffer }> => ({
  ca: await pem('ca'),
  crt: await pem('client'),
  key: await pem('client.key'),
})

/** A proxy on the loopback. */
export interface TlsProxy {
  /** `localhost:<port>` */
  address: string
  close(): Promise<void>
}

/** Starts a proxy in front of the gRPC server at `address`; refuses clients without a certificate. */
export async function startTlsProxy(address: string): Promise<TlsProxy> {
  const { hostname, port } = new URL(`tcp://${address}`)
  const sockets = new Set<Socket>()
  const own = { ca: await pem('ca'), cert: await pem('server'), key: await pem('server.key') }
  const server = createServer({ ...own, requestCert: true, rejectUnauthorized: true, ALPNProtocols: ['h2'] }, (client) => {
    const upstream = connect(Number(port), hostname)
    const end = (): void => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', end)
      socket.on('close', () => {
        sockets.delete(socket)
        end()
      })
    }
    client.pipe(upstream).pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    address: `localhost:${(server.address() as AddressInfo).port}`,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
