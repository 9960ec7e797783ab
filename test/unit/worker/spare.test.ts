// When a worker has a spare process.
import type { ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { keepSpare } from '../../../src/worker/parent/spare.ts'

const AFTER_MS = 10_000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function forks() {
  const started: ChildProcess[] = []
  const fork = (): ChildProcess => {
    const child = new EventEmitter() as ChildProcess
    started.push(child)
    return child
  }
  return { started, fork }
}

it('a spare is started a while after an orchestrator serves, and only one', () => {
  const { started, fork } = forks()
  const spare = keepSpare(fork, true, AFTER_MS)
  expect(spare.take()).toBeUndefined()
  spare.prepare()
  vi.advanceTimersByTime(AFTER_MS - 1)
  spare.prepare()
  expect(started).toHaveLength(0)
  vi.advanceTimersByTime(1)
  spare.prepare()
  vi.advanceTimersByTime(2 * AFTER_MS)
  expect(started).toHaveLength(1)
  expect(spare.take()).toBe(started[0])
  expect(spare.take()).toBeUndefined()
})

it('a spare that ends is replaced, and one that became the orchestrator is not', () => {
  const { started, fork } = forks()
  const spare = keepSpare(fork, true, AFTER_MS)
  spare.prepare()
  vi.advanceTimersByTime(AFTER_MS)
  started[0]?.emit('exit', null, 'SIGKILL')
  expect(spare.take()).toBeUndefined()
  spare.prepare()
  vi.advanceTimersByTime(AFTER_MS)
  expect(started).toHaveLength(2)
  spare.take()
  started[1]?.emit('exit', null, 'SIGKILL')
  vi.advanceTimersByTime(2 * AFTER_MS)
  expect(started).toHaveLength(2)
})

it('a spare that the system refuses to start is started later', () => {
  const { started, fork } = forks()
  let isRefused = true
  const spare = keepSpare(
    () => {
      if (isRefused) throw new Error('spawn ENOMEM')
      return fork()
    },
    true,
    AFTER_MS,
  )
  spare.prepare()
  vi.advanceTimersByTime(AFTER_MS)
  isRefused = false
  vi.advanceTimersByTime(AFTER_MS)
  expect(started).toHaveLength(1)
  expect(spare.take()).toBe(started[0])
})

it('a spare that is not wanted, or whose worker ends, is not started', () => {
  const { started, fork } = forks()
  const unwanted = keepSpare(fork, false, AFTER_MS)
  unwanted.prepare()
  const ending = keepSpare(fork, true, AFTER_MS)
  ending.prepare()
  ending.end()
  ending.prepare()
  vi.advanceTimersByTime(2 * AFTER_MS)
  expect(started).toHaveLength(0)
})
