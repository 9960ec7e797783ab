// A TCP proxy that can stand for a network partition: what either side says is lost, or waits, and neither side is told.
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A proxy on the loopback. */
export interface Partition {
  /** The server's `host:port`, by way of the proxy. */
  address: string
  /** From now on nothing passes. */
  begin(): void
  /** The connections of before are broken, new ones pass. */
  end(): void
  /** From now on what either side says waits. */
  hold(): void
  /** What waited arrives, in order. */
  release(): void
  close(): Promise<void>
}

/** Starts a proxy before the server at `address`, through which everything passes until the partition begins. */
export async function startPartition(address: string): Promise<Partition> {
  const [host = '', port] = address.split(':')
  const sockets = new Set<Socket>()
  let isOpen = true
  let isHeld = false
  const server = createServer((client) => {
    const upstream = connect(Number(port), host)
    relay(client, upstream)
    relay(upstream, client)
  })

  function relay(from: Socket, to: Socket): void {
    sockets.add(from)
    from.setNoDelay(true)
    from.on('data', (chunk) => {
      if (isOpen) to.write(chunk)
    })
    if (isHeld) from.pause()
    from.on('error', () => to.destroy())
    from.on('close', () => {
      sockets.delete(from)
      to.destroy()
    })
  }

  function breakAll(): void {
    for (const socket of sockets) socket.destroy()
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    begin() {
      isOpen = false
    },
    end() {
      isOpen = true
      breakAll()
    },
    hold() {
      isHeld = true
      for (const socket of sockets) socket.pause()
    },
    release() {
      isHeld = false
      for (const socket of sockets) socket.resume()
    },
    async close() {
      breakAll()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
