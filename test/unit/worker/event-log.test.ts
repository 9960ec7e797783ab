// The event log in memory: a cache that returns what was appended, or nothing.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { continues, nextDigest } from '../../../src/session/digest.ts'
import type { LogEntry, Watermark } from '../../../src/session/events.ts'
import { memoryLog } from '../../../src/worker/orchestrator/event-log.ts'

const KEY = { sessionId: 's', epoch: 'e' }
const START: Watermark = { seq: 0, digest: '' }

/** Entries with the given texts, continuing from `after`. */
function entries(texts: readonly string[], after: Watermark = START): LogEntry[] {
  let { seq, digest: prev } = after
  return texts.map((text) => {
    seq += 1
    const json = JSON.stringify({ seq, text })
    const entry = { seq, prev, digest: nextDigest(prev, json), json }
    prev = entry.digest
    return entry
  })
}

function at(list: readonly LogEntry[], index: number): LogEntry {
  const entry = list.at(index)
  if (!entry) throw new Error('no such entry')
  return entry
}

const markOf = ({ seq, digest }: Watermark): Watermark => ({ seq, digest })

describe('the event log', () => {
  const abc = entries(['a', 'b', 'c'])

  it('the event log returns the events between two watermarks that it knows', () => {
    const log = memoryLog()
    log.append(KEY, abc)
    expect(log.read(KEY, START, at(abc, -1))).toEqual(abc)
    expect(log.read(KEY, at(abc, 0), at(abc, 1))).toEqual([at(abc, 1)])
  })

  it('the event log returns nothing for another session or chain of executions, or for events that it lacks', () => {
    const log = memoryLog()
    log.append(KEY, abc.slice(0, 2))
    expect(log.read({ ...KEY, sessionId: 't' }, START, at(abc, 1))).toBeUndefined()
    expect(log.read({ ...KEY, epoch: 'f' }, START, at(abc, 1))).toBeUndefined()
    expect(log.read(KEY, START, at(abc, 2))).toBeUndefined()
    expect(log.read(KEY, START, { seq: 2, digest: 'other' })).toBeUndefined()
    expect(log.read(KEY, { seq: 1, digest: 'other' }, at(abc, 1))).toBeUndefined()
  })

  it('the event log does not change when the same events are appended again', () => {
    const log = memoryLog()
    log.append(KEY, abc)
    log.append(KEY, abc.slice(0, 2))
    expect(log.read(KEY, START, at(abc, -1))).toEqual(abc)
  })

  it('the event log drops a phantom and everything after it when the true event arrives', () => {
    const log = memoryLog()
    log.append(KEY, abc)
    const truth = entries(['x', 'y'], markOf(at(abc, 0)))
    log.append(KEY, truth)
    expect(log.read(KEY, START, at(truth, -1))).toEqual([at(abc, 0), ...truth])
    expect(log.read(KEY, START, at(abc, -1))).toBeUndefined()
  })

  it('the event log starts over after a gap, and accepts the older events again when they are read from elsewhere', () => {
    const log = memoryLog()
    log.append(KEY, abc.slice(0, 1))
    log.append(KEY, abc.slice(2))
    expect(log.read(KEY, at(abc, 1), at(abc, 2))).toEqual([at(abc, 2)])
    expect(log.read(KEY, START, at(abc, 0))).toBeUndefined()
    log.append(KEY, abc)
    expect(log.read(KEY, START, at(abc, -1))).toEqual(abc)
  })

  it('the event log never returns events that do not connect the two watermarks, for any order of appends', () => {
    const branch = (after: readonly LogEntry[], name: string) => [
      ...after,
      ...entries([`${name}1`, `${name}2`, `${name}3`], after.at(-1) ?? START),
    ]
    const main = entries(['a', 'b', 'c', 'd', 'e'])
    const chains = [main, branch(main.slice(0, 1), 'x'), branch(main.slice(0, 3), 'y'), branch([], 'z')]
    const marks = [START, ...chains.flat().map(markOf)]
    const appends = fc.array(fc.tuple(fc.nat(3), fc.nat(5), fc.nat(5)), { maxLength: 8 })
    fc.assert(
      fc.property(appends, fc.integer({ min: 150, max: 4_000 }), (all, maxBytes) => {
        const log = memoryLog(maxBytes)
        for (const [chain, from, length] of all) log.append(KEY, (chains[chain] ?? main).slice(from, from + length))
        for (const from of marks) {
          for (const to of marks) {
            if (to.seq <= from.seq) continue
            const given = log.read(KEY, from, to)
            if (given === undefined) continue
            expect(continues(from, given)).toBe(true)
            expect(given.at(-1)?.digest).toBe(to.digest)
          }
        }
      }),
    )
  })

  /** The events of a task at a time, continuing from `after`. */
  function taskAt(time: number, texts: readonly string[], after: Watermark = START): LogEntry[] {
    let { seq, digest: prev } = after
    return texts.map((text) => {
      seq += 1
      const json = JSON.stringify({ v: 1, seq, at: time, type: 'session_paused', reason: text })
      const entry = { seq, prev, digest: nextDigest(prev, json), json }
      prev = entry.digest
      return entry
    })
  }
  const named = (entry: LogEntry): Watermark => ({ ...markOf(entry), at: (JSON.parse(entry.json) as { at: number }).at })

  it('the event log has the time of an accepted task, not that of a rejected one with the same events', () => {
    const log = memoryLog()
    const [rejected, accepted] = [1_000, 4_000].map((time) => taskAt(time, ['a', 'b']))
    log.append(KEY, rejected!, 'in_task')
    expect(log.read(KEY, START, named(at(accepted!, 1)))).toBeUndefined()
    log.append(KEY, rejected!, 'in_task')
    log.append(KEY, accepted!, 'in_task')
    expect(log.read(KEY, START, named(at(accepted!, 1)))).toEqual(accepted)
    log.append(KEY, accepted!)
    expect(log.read(KEY, START, named(at(accepted!, 1)))).toEqual(accepted)
  })

  it('the event log never returns an event with the time of a rejected task', () => {
    /** What becomes of a task, seen from this worker. */
    const fate = fc.constantFrom('made here', 'made elsewhere', 'rejected here, made here', 'rejected here, made elsewhere')
    const reading = fc.record({ from: fc.nat(20), isRefilled: fc.boolean() })
    const task = fc.record({ fate, events: fc.integer({ min: 1, max: 3 }), reads: fc.array(reading, { maxLength: 2 }) })
    fc.assert(
      fc.property(fc.array(task, { minLength: 1, maxLength: 6 }), (tasks) => {
        const log = memoryLog()
        const history: LogEntry[] = []
        let time = 1_000
        /** Whether this worker has the execution in its cache. */
        let isCached = true
        for (const { fate: how, events, reads } of tasks) {
          const texts = Array.from({ length: events }, (_, n) => `${history.length + n}`)
          const begin = (): void => {
            if (!isCached) log.append(KEY, history)
            isCached = true
          }
          const run = (): LogEntry[] => {
            begin()
            const made = taskAt((time += 1_000), texts, history.at(-1) ? markOf(history.at(-1)!) : START)
            for (const one of made) log.append(KEY, [one], 'in_task')
            return made
          }
          if (how.startsWith('rejected')) {
            run()
            isCached = false
          }
          if (how.endsWith('made here')) history.push(...run())
          else {
            isCached = false
            history.push(...taskAt((time += 1_000), texts, history.at(-1) ? markOf(history.at(-1)!) : START))
          }
          for (const { from, isRefilled } of reads) {
            const start = from % history.length
            const truth = history.slice(start)
            const given = log.read(KEY, start === 0 ? START : markOf(at(history, start - 1)), named(at(history, -1)))
            if (given) expect(given).toEqual(truth)
            else if (isRefilled) log.append(KEY, truth)
          }
        }
      }),
      { numRuns: 2_000 },
    )
  })

  it('the event log forgets the least recently used sessions when it is full', () => {
    const ofSession = (n: number) => ({ sessionId: `s${n}`, epoch: 'e' })
    const hundred = entries(Array.from({ length: 10 }, () => 'x'.repeat(80)))
    const bytes = hundred.reduce((sum, entry) => sum + entry.json.length, 0)
    const log = memoryLog(3 * (bytes + 10))
    const holds = (n: number) => log.read(ofSession(n), START, at(hundred, -1)) !== undefined
    for (const n of [1, 2, 3]) log.append(ofSession(n), hundred)
    expect([1, 2, 3].map(holds)).toEqual([true, true, true])
    expect(holds(1)).toBe(true)
    log.append(ofSession(4), hundred)
    expect([1, 2, 3, 4].filter(holds)).toHaveLength(3)
    expect(holds(4)).toBe(true)
  })

  it('the event log holds no more than its limit in bytes, even if sessions grow by one event at a time', () => {
    const ofSession = (n: number) => ({ sessionId: `s${n}`, epoch: 'e' })
    const long = entries(Array.from({ length: 50 }, () => 'x'.repeat(100)))
    const bytes = long.reduce((sum, entry) => sum + entry.json.length, 0)
    const log = memoryLog(3 * (bytes + 10))
    for (const entry of long) for (const n of [1, 2, 3, 4, 5, 6]) log.append(ofSession(n), [entry])
    const held = [1, 2, 3, 4, 5, 6].map((n) => {
      const first = long.findIndex(
        (entry) => log.read(ofSession(n), { seq: entry.seq - 1, digest: entry.prev }, at(long, -1)) !== undefined,
      )
      return first === -1 ? 0 : long.slice(first).reduce((sum, entry) => sum + entry.json.length, 0)
    })
    expect(held.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(3 * (bytes + 10))
  })
})
