// A TCP proxy that can simulate a network partition: what either side sends is lost or held back, and neither side is notified.
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A proxy on the loopback. */
export interface Partition {
  /** The server's `host:port`, through the proxy. */
  address: string
  /** From now on, nothing passes. */
  begin(): void
  /** Breaks the existing connections; new ones pass. */
  end(): void
  /** From now on, what either side sends is held back. */
  hold(): void
  /** Passes on what was held back, in order. */
  release(): void
  close(): Promise<void>
}

/** Starts a proxy in front of the server at `address`. Everything passes until the partition begins. */
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
