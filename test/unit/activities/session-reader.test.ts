// Where a session's events are read from, in which order, and which ones are rejected.
import type { Client } from '@temporalio/client'
import { describe, expect, it } from 'vitest'
import type { EventLog } from '../../../src/activities/needs.ts'
import { sessionReader } from '../../../src/activities/session-reader.ts'
import { nextDigest } from '../../../src/session/digest.ts'
import type { LogEntry, SessionEvent, Watermark } from '../../../src/session/events.ts'
import type { EventsPage } from '../../../src/session/protocol/protocol.ts'
import type { Store } from '../../../src/store/store.ts'

const START: Watermark = { seq: 0, digest: '' }
const PAGE = 400

/** Events as an execution makes them, after others. `word` distinguishes the events of a rejected task from the true ones. */
function eventsAfter({ seq, digest }: Watermark, count: number, word = 'true'): LogEntry[] {
  let prev = digest
  return Array.from({ length: count }, (_, index) => {
    const json = JSON.stringify({ v: 1, seq: seq + index + 1, at: 1, type: 'message_rejected', code: word, reason: 'x'.repeat(100) })
    const entry = { seq: seq + index + 1, prev, digest: nextDigest(prev, json), json }
    prev = entry.digest
    return entry
  })
}

const watermarkOf = (entries: readonly LogEntry[]): Watermark => {
  const { seq, digest } = entries.at(-1) ?? START
  return { seq, digest }
}

/** A chain of executions with their events that answer queries, oldest first; `asked` has their ids in the order of the queries. */
function chainOf(...executions: LogEntry[][]) {
  const asked: string[] = []
  const answer = (id: number, after: number): EventsPage => {
    const own = executions[id] ?? []
    const base = watermarkOf(executions.slice(0, id).flat())
    const start = Math.max(0, after - base.seq)
    const events = own.slice(start, start + PAGE)
    return {
      epoch: 'e',
      executionId: `x${id}`,
      base,
      events: events.map(({ json }) => JSON.parse(json) as SessionEvent),
      from: start === 0 ? base : watermarkOf(own.slice(0, start)),
      to: events.length === 0 ? watermarkOf(own) : watermarkOf(events),
      more: start + PAGE < own.length,
      ...(id > 0 && { previous: `x${id - 1}` }),
    }
  }
  const getHandle = (_workflow: string, executionId: string) => ({
    query: (_name: string, { after }: { after: number }) => {
      asked.push(executionId)
      return Promise.resolve(answer(Number(executionId.slice(1)), after))
    },
  })
  const client = { workflow: { getHandle }, withDeadline: (_at: number, work: () => unknown) => work() } as unknown as Client
  const target = (watermark: Watermark) => ({ sessionId: 's', epoch: 'e', executionId: `x${executions.length - 1}`, watermark })
  return { client, asked, target }
}

/** An empty log that remembers what is appended to it. */
function emptyLog(): EventLog & { given: LogEntry[] } {
  const given: LogEntry[] = []
  return { given, append: (_key, entries) => void given.push(...entries), read: () => undefined }
}

/** A store that has these entries. Without `entries`, it is away. */
function storeOf(entries?: readonly LogEntry[]): Store {
  return {
    entries: (_session: string, { after = 0, limit = PAGE }: { after?: number; limit?: number } = {}) =>
      entries ? Promise.resolve(entries.filter(({ seq }) => seq > after).slice(0, limit)) : Promise.reject(new Error('the store is away')),
  } as unknown as Store
}

async function collect(parts: AsyncIterable<LogEntry[]>): Promise<LogEntry[][]> {
  const all: LogEntry[][] = []
  for await (const part of parts) all.push(part)
  return all
}

const reading = (store = storeOf(), log = emptyLog()) => sessionReader(log, store)

const OLD = eventsAfter(START, 2_500)
const MIDDLE = eventsAfter(watermarkOf(OLD), 1_200)
const NEW = eventsAfter(watermarkOf(MIDDLE), 900)
const ALL = [...OLD, ...MIDDLE, ...NEW]

describe('the parts to flush', () => {
  it('the parts to flush come from the executions, oldest first, each small enough for a transaction', async () => {
    const { client, target } = chainOf(OLD, MIDDLE, NEW)
    const parts = await collect(reading().parts(target(watermarkOf(NEW)), START, client))
    expect(parts.flat()).toEqual(ALL)
    expect(Math.max(...parts.map((part) => part.length))).toBe(1_000)
    expect(parts.length).toBeLessThan(10)
  })

  it('the parts to flush come from the earlier executions if the newest has made no event yet', async () => {
    const { client, target } = chainOf(OLD, MIDDLE, [])
    expect((await collect(reading().parts(target(watermarkOf(MIDDLE)), START, client))).flat()).toEqual([...OLD, ...MIDDLE])
  })

  it('the parts to flush are also bounded in bytes', async () => {
    const large = eventsAfter(START, 30).map((entry) => ({ ...entry, json: entry.json.padEnd(500_000) }))
    const log = { ...emptyLog(), read: () => large }
    const parts = await collect(reading(storeOf(), log).parts(chainOf(NEW).target(watermarkOf(large)), START, {} as Client))
    expect(parts.flat()).toEqual(large)
    expect(Math.max(...parts.map((part) => part.length))).toBe(4)
  })

  it('the parts to flush are taken from the log if it has them', async () => {
    const { client, asked, target } = chainOf(OLD, MIDDLE, NEW)
    const log = { ...emptyLog(), read: () => ALL }
    expect((await collect(reading(storeOf(), log).parts(target(watermarkOf(NEW)), START, client))).flat()).toEqual(ALL)
    expect(asked).toEqual([])
  })

  it('the parts to flush begin where the store ends, without asking earlier executions', async () => {
    const { client, asked, target } = chainOf(OLD, MIDDLE, NEW)
    const log = emptyLog()
    const from = watermarkOf(ALL.slice(0, 4_000))
    const parts = await collect(reading(storeOf(), log).parts(target(watermarkOf(NEW)), from, client))
    expect(parts.flat()).toEqual(ALL.slice(4_000))
    expect(asked.every((id) => id === 'x2')).toBe(true)
    expect(log.given).toEqual(ALL.slice(4_000))
  })

  it('the parts of an execution are returned for a flush only once its last digest is known to be correct', async () => {
    // The worker that answers the query holds events of a task that was rejected.
    const phantom = eventsAfter(watermarkOf(MIDDLE), 900, 'phantom')
    const { client, target } = chainOf(OLD, MIDDLE, phantom)
    const given: LogEntry[] = []
    const read = async () => {
      for await (const part of reading().parts(target(watermarkOf(NEW)), START, client)) given.push(...part)
    }
    await expect(read()).rejects.toMatchObject({ name: 'StaleWatermark' })
    expect(given).toEqual([...OLD, ...MIDDLE])
  })

  it('the parts to flush end with an error if an execution has different events from those that its successor started with', async () => {
    const other = eventsAfter(START, OLD.length, 'other')
    const { client, target } = chainOf(other, MIDDLE, NEW)
    await expect(collect(reading().parts(target(watermarkOf(NEW)), START, client))).rejects.toMatchObject({ name: 'StaleWatermark' })
  })
})

describe('all entries', () => {
  it('all entries come from the store if an execution does not reach back far enough', async () => {
    const { client, asked, target } = chainOf(OLD, MIDDLE, NEW)
    const log = emptyLog()
    const entries = await reading(storeOf(ALL.slice(0, 3_700)), log).entries(target(watermarkOf(NEW)), START, client)
    expect(entries).toEqual(ALL)
    expect(log.given).toEqual(ALL)
    expect(new Set(asked)).toEqual(new Set(['x2']))
  })

  it('all entries come from the store even if the events before its first one exist nowhere', async () => {
    const origin = watermarkOf(OLD)
    const stored = MIDDLE.map((entry, index) => (index === 0 ? { ...entry, prev: '' } : entry))
    const { client, target } = chainOf(OLD, MIDDLE, NEW)
    expect(await reading(storeOf(stored)).entries(target(watermarkOf(NEW)), origin, client)).toEqual([...MIDDLE, ...NEW])
  })

  it('all entries come from earlier executions while the store is unavailable', async () => {
    const { client, target } = chainOf(OLD, MIDDLE, NEW)
    expect(await reading().entries(target(watermarkOf(NEW)), START, client)).toEqual(ALL)
  })

  it('entries cannot be read up to a watermark that no execution knows', async () => {
    const { client, target } = chainOf(OLD, MIDDLE, NEW)
    const beyond = { seq: watermarkOf(NEW).seq + 1, digest: 'd' }
    await expect(reading().entries(target(beyond), START, client)).rejects.toMatchObject({ name: 'StaleWatermark' })
  })
})
