// How many workflow tasks a worker takes at a time.
import type { SlotPermit } from '@temporalio/worker'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { workflowSlots } from '../../../src/worker/orchestrator/temporal/workflow-slots.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** The slots, as the SDK uses them. */
function worker() {
  const slots = workflowSlots()
  const context = (isSticky: boolean) =>
    ({ slotType: 'workflow', taskQueue: 'q', workerIdentity: 'w', workerBuildId: '', isSticky }) as const
  const slotInfo = (isSticky: boolean) => ({ type: 'workflow', workflowType: 'pawlSession', isSticky }) as const

  /** Reserves slots until none is free; returns those that were. */
  async function reserveAll(isSticky: boolean): Promise<SlotPermit[]> {
    const permits: SlotPermit[] = []
    for (;;) {
      const stop = new AbortController()
      const asked = slots.reserveSlot(context(isSticky), stop.signal)
      const permit = await Promise.race([asked, vi.advanceTimersByTimeAsync(1).then(() => undefined)])
      if (permit === undefined || permits.length > 100) {
        stop.abort(new Error('not needed'))
        await expect(asked).rejects.toThrow('not needed')
        return permits
      }
      permits.push(permit as SlotPermit)
    }
  }

  return {
    reserveAll,
    reserve: (isSticky: boolean) => slots.reserveSlot(context(isSticky), new AbortController().signal),
    release: (permit: SlotPermit) => slots.releaseSlot({ permit }),
    use: (permit: SlotPermit, isSticky = false) => slots.markSlotUsed({ permit, slotInfo: slotInfo(isSticky) }),
    /** A task of the common queue comes, and takes `ms`. */
    async task(ms: number): Promise<void> {
      const permit = await slots.reserveSlot(context(false), new AbortController().signal)
      slots.markSlotUsed({ permit, slotInfo: slotInfo(false) })
      await vi.advanceTimersByTimeAsync(ms)
      slots.releaseSlot({ permit, slotInfo: slotInfo(false) })
    },
    eager: (isSticky: boolean) => slots.tryReserveSlot(context(isSticky)),
  }
}

it('a worker that has just started takes two tasks of the common queue at a time', async () => {
  const { reserveAll, eager } = worker()
  expect(await reserveAll(false)).toHaveLength(2)
  expect(eager(false)).toBeNull()
})

it('tasks of cached sessions have all other slots', async () => {
  const { reserveAll, eager } = worker()
  await reserveAll(false)
  expect(await reserveAll(true)).toHaveLength(38)
  expect(eager(true)).toBeNull()
})

it('each quick task raises the limit by one', async () => {
  const { task, reserveAll } = worker()
  for (let n = 0; n < 3; n++) await task(400)
  const permits = await reserveAll(false)
  expect(permits).toHaveLength(5)
})

it('a worker never takes more than ten uncached tasks at a time, however quick they are', async () => {
  const { task, reserveAll } = worker()
  for (let n = 0; n < 50; n++) await task(1)
  expect(await reserveAll(false)).toHaveLength(10)
})

it('a task that takes longer than a second reduces the limit to two', async () => {
  const { task, reserveAll } = worker()
  for (let n = 0; n < 8; n++) await task(1)
  await task(1_100)
  expect(await reserveAll(false)).toHaveLength(2)
})

it('polls without a task do not count as quick tasks', async () => {
  const { reserve, release, reserveAll } = worker()
  const permit = await reserve(false)
  await vi.advanceTimersByTimeAsync(60_000)
  release(permit)
  const quick = await reserve(false)
  release(quick)
  expect(await reserveAll(false)).toHaveLength(2)
})

it('a slot that is released goes to the longest wait that may have it', async () => {
  const { reserveAll, reserve, release } = worker()
  const cold = await reserveAll(false)
  const sticky = await reserveAll(true)
  const got: string[] = []
  for (const [name, isSticky] of [
    ['common 1', false],
    ['cached', true],
    ['common 2', false],
  ] as const) {
    void reserve(isSticky).then(() => got.push(name))
  }
  release(sticky[0] ?? {})
  await vi.advanceTimersByTimeAsync(1)
  expect(got).toEqual(['cached'])
  release(cold[0] ?? {})
  await vi.advanceTimersByTimeAsync(1)
  expect(got).toEqual(['cached', 'common 1'])
})
