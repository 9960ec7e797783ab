// A line between two processes of which one can die.
import { type Channel, loopback } from '../../../../src/worker/channel.ts'

/** Two ends, and what ends the line: both are notified once, after what was sent before. */
export function mortalLine<A, B>(): { near: Channel<A, B>; far: Channel<B, A>; end(): void } {
  const [near, far] = loopback<A, B>()
  const told: (() => void)[] = []
  let isOpen = true
  const mortal = <In, Out>(channel: Channel<In, Out>): Channel<In, Out> => ({
    onMessage: (listener) => channel.onMessage(listener),
    send(message) {
      if (isOpen) channel.send(message)
    },
    onClose: (listener) => void told.push(listener),
  })
  return {
    near: mortal(near),
    far: mortal(far),
    end() {
      if (!isOpen) return
      isOpen = false
      for (const tell of told) queueMicrotask(() => tell())
    },
  }
}
