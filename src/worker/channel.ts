// Messages over a stream: each frame holds the length of the message and its structured clone. Buffers are passed on unparsed.
import { AsyncResource } from 'node:async_hooks'
import type { Socket } from 'node:net'
import { deserialize, serialize } from 'node:v8'

export interface Channel<In, Out> {
  /** Messages to a closed end are dropped. */
  send(message: Out): void
  onMessage(listener: (message: In) => void): void
  /** Called once, after the last message; with the error if one could not be decoded. */
  onClose(listener: (broken?: Error) => void): void
}

const HEADER_BYTES = 4
/** No valid frame is larger. */
const MAX_FRAME_BYTES = 1_000_000_000

export function socketChannel<In, Out>(socket: Socket): Channel<In, Out> {
  let listener: (message: In) => void = () => undefined
  let closed: (broken?: Error) => void = () => undefined
  let broken: Error | undefined
  const received = frames((frame) => {
    // The rest of the chunk cannot be trusted either.
    if (broken) return
    try {
      listener(deserialize(frame) as In)
    } catch (error) {
      fail(error)
    }
  })
  const fail = (error: unknown): void => {
    broken ??= error instanceof Error ? error : new Error(String(error))
    socket.destroy()
  }
  readToTheEnd(socket)
  socket.on('data', (chunk: Buffer) => {
    try {
      if (!broken) received(chunk)
    } catch (error) {
      fail(error)
    }
  })
  // 'close' follows.
  socket.on('error', () => undefined)
  socket.once('close', () => closed(broken))
  return {
    send(message) {
      if (socket.writable) socket.write(frameOf(message))
    },
    onMessage: (given) => {
      listener = given
    },
    onClose: (given) => {
      closed = given
    },
  }
}

/** The other end is gone, or no longer reads. What it sent before can still be read, up to its end. */
const GONE = ['EPIPE', 'ECONNRESET']

/**
 * Keeps reading when a write fails because the other end is gone. Node would destroy the socket, and drop the last messages of a process that
 * was killed: what it has accepted, and what it has done.
 */
function readToTheEnd(socket: Socket): void {
  const { _write: write, _writev: writev } = socket
  const whole = (done: (error?: Error | null) => void) => (error?: NodeJS.ErrnoException | null) =>
    done(GONE.includes(error?.code ?? '') ? null : error)
  socket._write = (chunk, encoding, done) => write.call(socket, chunk, encoding, whole(done))
  if (writev) socket._writev = (chunks, done) => writev.call(socket, chunks, whole(done))
}

function frameOf(message: unknown): Buffer {
  const body = serialize(message)
  const frame = Buffer.allocUnsafe(HEADER_BYTES + body.length)
  frame.writeUInt32BE(body.length)
  body.copy(frame, HEADER_BYTES)
  return frame
}

/** Splits a stream of chunks into frames. @throws RangeError for an invalid length. */
function frames(onFrame: (frame: Buffer) => void): (chunk: Buffer) => void {
  let chunks: Buffer[] = []
  let held = 0
  let needed = HEADER_BYTES

  /** The pending bytes as one buffer, joined only once a frame is complete. */
  const joined = (): Buffer => {
    const [only] = chunks
    const all = chunks.length === 1 && only ? only : Buffer.concat(chunks, held)
    chunks = [all]
    return all
  }

  return (chunk) => {
    chunks.push(chunk)
    held += chunk.length
    while (held >= needed) {
      const all = joined()
      const length = all.readUInt32BE()
      if (length > MAX_FRAME_BYTES) throw new RangeError(`a frame of ${length} bytes`)
      needed = HEADER_BYTES + length
      if (held < needed) return
      const frame = all.subarray(HEADER_BYTES, needed)
      chunks = [all.subarray(needed)]
      held -= needed
      needed = HEADER_BYTES
      onFrame(frame)
    }
  }
}

/** Two channel ends in one process, which never close. Messages are passed on unchanged, but never within the call that sends them. */
export function loopback<A, B>(): [Channel<A, B>, Channel<B, A>] {
  type End<In> = { listener(message: In): void }
  const ends: [End<A>, End<B>] = [{ listener: () => undefined }, { listener: () => undefined }]
  const endOf = <In, Out>(own: End<In>, other: End<Out>): Channel<In, Out> => ({
    send: (message) => queueMicrotask(() => other.listener(message)),
    // Runs in its own async context, like a message of another process, because the sender's context must not leak.
    onMessage: (listener) => {
      own.listener = AsyncResource.bind(listener)
    },
    onClose: () => undefined,
  })
  return [endOf(ends[0], ends[1]), endOf(ends[1], ends[0])]
}
