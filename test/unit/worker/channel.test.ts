// Messages between an orchestrator and its executors are whole and in order, however their bytes arrive; none follows invalid bytes.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, connect, Socket } from 'node:net'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serialize } from 'node:v8'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { loopback, socketChannel } from '../../../src/worker/channel.ts'

/** The bytes of a message: its length and its structured clone. */
function frameOf(message: unknown): Buffer {
  const body = serialize(message)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(body.length)
  return Buffer.concat([length, body])
}

/** A channel on which a test decides when which bytes arrive. */
function receiving() {
  const socket = new Socket()
  const channel = socketChannel<unknown, unknown>(socket)
  const received: unknown[] = []
  channel.onMessage((message) => received.push(message))
  const closed = new Promise<Error | undefined>((resolve) => channel.onClose(resolve))
  return { received, closed, arrive: (bytes: Buffer) => void socket.emit('data', bytes), channel, socket }
}

/** Sends its first message, and the others once it has been answered. Then it is killed. */
const DOOMED = `const [path, first, ...others] = process.argv.slice(1)
  const socket = require('node:net').connect(path)
  const write = (frames, then) => socket.write(Buffer.concat(frames.map((frame) => Buffer.from(frame, 'base64'))), then)
  write([first])
  socket.once('data', () => write(others, () => process.kill(process.pid, 'SIGKILL')))`

const MESSAGES = [{ type: 'alive' }, new Map([['a', new Uint8Array([1, 2, 3])]]), 'x'.repeat(100), null]

describe('messages over a socket', () => {
  it('messages over a socket are received whole, wherever their bytes are cut', () => {
    const bytes = Buffer.concat(MESSAGES.map(frameOf))
    const cuts = fc.uniqueArray(fc.integer({ min: 1, max: bytes.length - 1 }), { maxLength: 40 })
    fc.assert(
      fc.property(cuts, (places) => {
        const { received, arrive } = receiving()
        const ends = [...places.toSorted((a, b) => a - b), bytes.length]
        ends.forEach((end, index) => arrive(bytes.subarray(ends[index - 1] ?? 0, end)))
        expect(received).toEqual(MESSAGES)
      }),
    )
  })

  it('messages over a socket are received one after the other, whether they come in one chunk or byte by byte', () => {
    const bytes = Buffer.concat(MESSAGES.map(frameOf))
    const atOnce = receiving()
    atOnce.arrive(bytes)
    expect(atOnce.received).toEqual(MESSAGES)
    const byByte = receiving()
    for (let at = 0; at < bytes.length; at++) byByte.arrive(bytes.subarray(at, at + 1))
    expect(byByte.received).toEqual(MESSAGES)
  })

  it.each([
    ['bytes that are not a structured clone', Buffer.from([0, 0, 0, 3, 1, 2, 3])],
    ['an impossible length', Buffer.from([255, 255, 255, 255, 0])],
  ])('messages over a socket end with %s: nothing after them is received, and the close says why', async (_, junk) => {
    const { received, closed, arrive } = receiving()
    arrive(Buffer.concat([frameOf('before'), junk, frameOf('in the same chunk')]))
    arrive(frameOf('later'))
    expect(await closed).toBeInstanceOf(Error)
    expect(received).toEqual(['before'])
  })

  it('messages over a socket that a process sent before it was killed are received, even if others are sent to it before they are read', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'pawl-channel-'))
    const server = createServer()
    try {
      server.listen(join(folder, 's'))
      await once(server, 'listening')
      const connected = once(server, 'connection') as Promise<[Socket]>
      const frames = ['hello', 'accepted', 'x'.repeat(50_000), 'done'].map((message) => frameOf(message).toString('base64'))
      const doomed = spawn(process.execPath, ['-e', DOOMED, join(folder, 's'), ...frames])
      const channel = socketChannel<unknown, unknown>((await connected)[0])
      const story: unknown[] = []
      channel.onMessage((message) => {
        story.push(typeof message === 'string' ? message.slice(0, 10) : message)
        if (message !== 'hello') return
        channel.send('go')
        // This process reads nothing until the other one is dead.
        while (
          !execFileSync('ps', ['-o', 'stat=', '-p', `${doomed.pid}`])
            .toString()
            .startsWith('Z')
        );
        channel.send('a job')
        channel.send('another job')
      })
      await new Promise((resolve) => channel.onClose(resolve))
      expect(story).toEqual(['hello', 'accepted', 'xxxxxxxxxx', 'done'])
    } finally {
      server.close()
      await rm(folder, { recursive: true })
    }
  })

  it('messages over a socket that were sent before the connection ended are received before its close', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'pawl-channel-'))
    const server = createServer()
    try {
      server.listen(join(folder, 's'))
      await once(server, 'listening')
      const accepted = once(server, 'connection') as Promise<[Socket]>
      const socket = connect(join(folder, 's'))
      const near = socketChannel<unknown, unknown>(socket)
      const far = socketChannel<unknown, unknown>((await accepted)[0])
      const story: unknown[] = []
      far.onMessage((message) => story.push(message instanceof Uint8Array ? message.length : message))
      const closed = new Promise<void>((resolve) => far.onClose((broken) => resolve(void story.push(['closed', broken]))))
      near.send(new Uint8Array(3_000_000))
      near.send('last')
      socket.end()
      // Messages to a line that was ended are dropped.
      near.send('too late')
      await closed
      expect(story).toEqual([3_000_000, 'last', ['closed', undefined]])
    } finally {
      server.close()
      await rm(folder, { recursive: true, force: true })
    }
  })
})

describe('messages within one process', () => {
  /** Both ends, and what each has received. */
  function ends() {
    const [a, b] = loopback<unknown, unknown>()
    const story: unknown[] = []
    a.onMessage((message) => story.push(['a', message]))
    b.onMessage((message) => story.push(['b', message]))
    return { a, b, story }
  }

  it('messages within one process arrive in order, and never within the call that sends them', async () => {
    const { a, b, story } = ends()
    a.send(1)
    a.send(2)
    b.send(3)
    expect(story).toEqual([])
    await Promise.resolve()
    expect(story).toEqual([
      ['b', 1],
      ['b', 2],
      ['a', 3],
    ])
  })
})
