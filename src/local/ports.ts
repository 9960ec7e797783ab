// Free TCP ports on loopback for servers that are started, stopped and started again on the same port.
import { randomInt } from 'node:crypto'
import { connect, createServer } from 'node:net'

// Below the range from which systems assign ports to outgoing connections (from 32768 on Linux, 49152 elsewhere): another connection
// could take a port from that range while its server is down.
const LOWEST = 20_000
const HIGHEST = 32_000

/** The first free port of `preferred`, else a random free port. */
export async function freePort(preferred: readonly number[] = []): Promise<number> {
  for (const port of preferred) if (await isFree(port)) return port
  for (;;) {
    const port = randomInt(LOWEST, HIGHEST)
    if (await isFree(port)) return port
  }
}

/** Whether something listens on the port. */
export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)))
  })
}
