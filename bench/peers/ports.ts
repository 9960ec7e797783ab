// Free ports for programs that cannot choose their own.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** Finds this many free ports of the loopback interface. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer())
  const ports: number[] = []
  for (const server of servers) {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    ports.push((server.address() as AddressInfo).port)
  }
  await Promise.all(servers.map((server) => new Promise((resolve) => void server.close(resolve))))
  return ports
}
