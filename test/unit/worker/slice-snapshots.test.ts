// Snapshots of slices on their way to the store: they wait for their events, and are requested if no job would bring them.
import { LRUCache } from 'lru-cache'
import { describe, expect, it } from 'vitest'
import type { LogEntry, Watermark } from '../../../src/session/events.ts'
import type { SliceSnapshot } from '../../../src/session/slices/slices.ts'
import { StoreError } from '../../../src/store/errors.ts'
import type { Executor } from '../../../src/worker/orchestrator/executors/executor-state.ts'
import { snapshotsInto } from '../../../src/worker/orchestrator/slice-snapshots.ts'

const target = { sessionId: 's', epoch: 'e', executionId: 'x', watermark: { seq: 9, digest: 'd9' } }

const ignore = (): void => undefined
const quiet = { debug: ignore, info: ignore, warn: ignore, error: ignore }

function snapshot(seq: number): SliceSnapshot {
  return { slice: 'done', version: 1, checkpoint: seq, seq, digest: `d${seq}`, at: 0, json: '{}' }
}

/** A store that has the events up to `head`. */
function storing(executors: Executor[] = []) {
  const world = { head: 0, isAway: false, saved: [] as number[] }
  const snapshots = snapshotsInto(
    {
      async saveSnapshots(_, some) {
        if (world.isAway) throw new StoreError('store_unavailable', 'away')
        world.saved.push(...some.flatMap(({ seq }) => (seq <= world.head ? [seq] : [])))
        return world.head
      },
    },
    () => executors,
    quiet,
  )
  return { ...snapshots, world }
}

function executor(hasSlices: boolean, folded: string[]) {
  const sent: unknown[] = []
  const views = new LRUCache<string, Watermark>({ max: 10 })
  for (const key of folded) views.set(key, { seq: 1, digest: '' })
  return { sent, executor: { hasSlices, views, channel: { send: (message: unknown) => sent.push(message) } } as unknown as Executor }
}

const entry = (seq: number, type: string): LogEntry => ({ seq, prev: '', digest: `d${seq}`, json: JSON.stringify({ v: 1, seq, type }) })

describe('snapshots', () => {
  it('snapshots wait until their events are stored, and are stored once', async () => {
    const { arrived, stored, world } = storing()
    world.head = 5
    arrived('s', [snapshot(5), snapshot(7)])
    await expect.poll(() => world.saved).toEqual([5])
    world.head = 7
    stored(target, [entry(7, 'run_completed')])
    await expect.poll(() => world.saved).toEqual([5, 7])
    stored(target, [entry(8, 'run_completed')])
    await new Promise((resolve) => setImmediate(resolve))
    expect(world.saved).toEqual([5, 7])
  })

  it('snapshots outlast an outage of the store', async () => {
    const { arrived, stored, world } = storing()
    Object.assign(world, { head: 5, isAway: true })
    arrived('s', [snapshot(4)])
    await new Promise((resolve) => setImmediate(resolve))
    world.isAway = false
    arrived('s', [snapshot(5)])
    await expect.poll(() => world.saved).toEqual([4, 5])
    stored(target, [])
    expect(world.saved).toEqual([4, 5])
  })
})

describe('a stored checkpoint', () => {
  it('a stored checkpoint is folded by the executor that has the session in its cache, if that has slices', () => {
    const others = [executor(false, ['s\ne']), executor(true, ['other\ne'])]
    const its = executor(true, ['s\ne'])
    const { stored } = storing([...others, its].map((one) => one.executor))
    stored(target, [entry(6, 'checkpoint_made'), entry(7, 'checkpoint_made'), entry(8, 'run_completed')])
    expect(others.flatMap(({ sent }) => sent)).toEqual([])
    expect(its.sent).toEqual([{ type: 'checkpoint', target: { ...target, watermark: { seq: 7, digest: 'd7' } } }])
  })

  it('a stored checkpoint is recognised only by its type, not by a text that names it', () => {
    const its = executor(true, ['s\ne'])
    const { stored } = storing([its.executor])
    stored(target, [{ ...entry(6, 'emitted'), json: JSON.stringify({ type: 'emitted', name: 'checkpoint_made' }) }])
    expect(its.sent).toEqual([])
  })
})
