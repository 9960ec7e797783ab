// How a page that follows takes over the newest messages, and when it looks for changes.
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { ChatError } from '../../../src/ui/errors.ts'
import { followChat, type ChatFollowing, merged } from '../../../src/ui/following.ts'
import { ownChats } from '../../../src/ui/own-streams.ts'
import { until } from '../../support/until.ts'

interface Message {
  id: string
  parts: { text?: string; toolCallId?: string; state?: string; approval?: object; providerExecuted?: boolean }[]
}

const said = (id: string, text = id): Message => ({ id, parts: [{ text }] })
const ids = (messages: readonly Message[]): string[] => messages.map(({ id }) => id)

describe('the newest messages', () => {
  it('the newest messages replace those that a page shows, and earlier ones that it has loaded stay in front', () => {
    const shown = ['a', 'b', 'c', 'd'].map((id) => said(id))
    const newest = [said('c', 'other'), said('e')]
    expect(merged(shown, { messages: newest, cursor: '7' })).toEqual([said('a'), said('b'), said('c', 'other'), said('e')])
    expect(merged(shown, { messages: newest })).toEqual(newest)
    expect(ids(merged(shown, { messages: [said('x')], cursor: '7' }))).toEqual(['x'])
    expect(merged(shown, { messages: [] })).toEqual([])
  })

  it('the newest messages keep decisions and results that the page has not sent, as long as they are still requested', () => {
    const asked = { toolCallId: 't_1', state: 'approval-requested', approval: { id: 't_1:x' } }
    const mine = { ...asked, state: 'approval-responded', approval: { id: 't_1:x', approved: true } }
    const client = { toolCallId: 't_2', state: 'input-available' }
    const result = { ...client, state: 'output-available' }
    const shown: Message[] = [{ id: 'a', parts: [mine, result] }]
    expect(merged(shown, { messages: [{ id: 'a', parts: [asked, client] }] })).toEqual(shown)
    const decided = [
      { ...mine, state: 'output-denied' },
      { ...result, state: 'output-error' },
    ]
    expect(merged(shown, { messages: [{ id: 'a', parts: decided }] })).toEqual([{ id: 'a', parts: decided }])
    const renewed = { ...asked, approval: { id: 't_1:y' } }
    expect(merged(shown, { messages: [{ id: 'a', parts: [renewed, client] }] })).toEqual([{ id: 'a', parts: [renewed, result] }])
  })
})

describe('what the server does not have', () => {
  const asked = { toolCallId: 't_1', state: 'approval-requested', approval: { id: 't_1:x' } }
  const decision = { ...asked, state: 'approval-responded', approval: { id: 't_1:x', approved: true } }
  const client = { toolCallId: 't_2', state: 'input-available' }
  const result = { ...client, state: 'output-available' }

  it('a page does not keep what the server refused', () => {
    const shown: Message[] = [{ id: 'a', parts: [decision, result] }]
    const messages: Message[] = [{ id: 'a', parts: [asked, client] }]
    expect(merged(shown, { messages }, { refused: new Set(['t_1', 't_2']) })).toEqual(messages)
    expect(merged(shown, { messages }, { refused: new Set(['t_1']) })).toEqual([{ id: 'a', parts: [asked, result] }])
    expect(merged(shown, { messages }, { refused: new Set() })).toEqual(shown)
  })

  it('a message that may not have arrived remains below the newest messages', () => {
    const shown = [said('a'), said('b'), said('lost'), said('c')]
    const unsent = 'lost'
    expect(ids(merged(shown, { messages: [said('a'), said('d')] }, { unsent }))).toEqual(['a', 'd', 'lost'])
    expect(ids(merged(shown, { messages: [said('b'), said('d')], cursor: '7' }, { unsent }))).toEqual(['a', 'b', 'd', 'lost'])
    expect(ids(merged(shown, { messages: [said('lost'), said('d')] }, { unsent }))).toEqual(['lost', 'd'])
    expect(ids(merged(shown, { messages: [said('a')] }))).toEqual(['a'])
  })
})

/** A page that follows a server of this test, which tells it of each change that `change` is called for. */
function followed(more: Partial<ChatFollowing> = {}) {
  const own = ownChats()('chat')
  own.seq = 1
  const stop = new AbortController()
  const seen = { opened: [] as number[], loads: 0, resumed: 0, set: 0 }
  let send: ((text: string) => void) | undefined
  const ended = followChat({
    own,
    signal: stop.signal,
    page: {
      setMessages: () => void (seen.set += 1),
      resumeStream: async () => void (seen.resumed += 1),
    },
    look: () => undefined,
    isAnswering: async () => false,
    async load() {
      seen.loads += 1
      return { messages: [], seq: 9 }
    },
    async open(seq, signal) {
      seen.opened.push(seq)
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          send = (text) => controller.enqueue(new TextEncoder().encode(text))
          signal.addEventListener('abort', () => controller.error(signal.reason), { once: true })
        },
      })
      return new Response(body)
    },
    ...more,
  })
  onTestFinished(async () => {
    stop.abort()
    await ended
  })
  const tell = (event: string, data: object): void => send?.(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  return { own, seen, ended, tell }
}

describe('a page that follows', () => {
  it('a page that follows waits for a change after what it shows, loads the newest messages, and resumes', async () => {
    const { seen, tell, own } = followed()
    await until('it waits', () => seen.opened.length === 1)
    expect(seen.loads).toBe(0)
    tell('change', { seq: 2 })
    await until('it waits again', () => seen.opened.length === 2)
    expect(seen).toMatchObject({ opened: [1, 9], loads: 1, set: 1, resumed: 1 })
    expect(own.isFresh).toBe(true)
  })

  it('a page that does not know what it shows, or may lack something, loads first', async () => {
    const own = ownChats()('chat')
    const { seen } = followed({ own })
    await until('it waits', () => seen.opened.length === 1)
    expect(seen).toMatchObject({ opened: [9], loads: 1 })
    own.isStale = true
    own.begin()()
    await until('it has loaded again', () => seen.loads === 2)
  })

  it('a page that follows resumes after a refusal only if an answer is in progress: its error would disappear', async () => {
    let isAnswering = false
    const { seen, own } = followed({ isAnswering: async () => isAnswering })
    await until('it waits', () => seen.opened.length === 1)
    const refuse = (): void => {
      const end = own.begin()
      Object.assign(own, { isStale: true, refused: new Set(['t_1']) })
      end()
    }
    refuse()
    await until('it waits again', () => seen.opened.length === 2)
    expect(seen).toMatchObject({ loads: 1, set: 1, resumed: 0 })
    expect(own).toMatchObject({ isStale: false, isFresh: false, refused: undefined })
    isAnswering = true
    refuse()
    await until('it waits again', () => seen.opened.length === 3)
    expect(seen).toMatchObject({ loads: 2, set: 2, resumed: 1 })
  })

  it('a page that follows holds no connection while it does something itself, and changes nothing', async () => {
    const { seen, own } = followed()
    await until('it waits', () => seen.opened.length === 1)
    const end = own.begin()
    await sleep(50)
    expect(seen).toMatchObject({ opened: [1], loads: 0, set: 0 })
    own.seq = 5
    end()
    await until('it waits for later changes', () => seen.opened.length === 2)
    expect(seen).toMatchObject({ opened: [1, 5], loads: 0 })
  })

  it('a page that follows holds no connection while it is hidden', async () => {
    const listeners = new Set<() => void>()
    const document = {
      visibilityState: 'hidden',
      addEventListener: (_: string, listener: () => void) => void listeners.add(listener),
      removeEventListener: (_: string, listener: () => void) => void listeners.delete(listener),
    }
    vi.stubGlobal('document', document)
    onTestFinished(() => void vi.unstubAllGlobals())
    const turn = (visibilityState: string): void => {
      Object.assign(document, { visibilityState })
      for (const listener of listeners) listener()
    }
    const signals: AbortSignal[] = []
    const { seen } = followed({
      async open(_, signal) {
        signals.push(signal)
        return new Response(new ReadableStream({ start: (to) => signal.addEventListener('abort', () => to.error(signal.reason)) }))
      },
    })
    await sleep(20)
    expect(signals).toHaveLength(0)
    turn('visible')
    await until('it waits', () => signals.length === 1)
    turn('hidden')
    await until('it has let go', () => signals[0]?.aborted)
    turn('visible')
    await until('it waits again', () => signals.length === 2)
    expect(seen.loads).toBe(0)
  })

  it.each([401, 403, 404, 410])('a page that follows ends when the server refuses with %i', async (status) => {
    const { ended } = followed({ open: () => Promise.reject(new ChatError('no', 'No.', status, 'No.')) })
    await ended
  })

  it('a page that follows ends when its stream says that the caller may no longer read', async () => {
    const { seen, tell, ended } = followed()
    await until('it waits', () => seen.opened.length === 1)
    tell('end', { code: 'unauthorized', status: 401 })
    await ended
  })

  it('a page that follows tries again after anything else', async () => {
    let times = 0
    const { seen } = followed({
      load: async () => {
        times += 1
        if (times === 1) throw new TypeError('fetch failed')
        return { messages: [], seq: 3 }
      },
      own: ownChats()('chat'),
    })
    await until('it waits', () => seen.opened.length === 1)
    expect(times).toBe(2)
  })
})
