// API keys that rotate: how a new key is reported, and which key a later connection uses.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { startApiKeys } from '../../../src/worker/api-keys.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it('a function that returns an API key is called every minute, and each new key is reported once', () => {
  let key = 'a'
  const told: string[] = []
  const keys = startApiKeys(
    () => key,
    (newest) => told.push(newest),
  )
  expect(keys.newest()).toEqual({ apiKey: 'a' })
  vi.advanceTimersByTime(60_000)
  key = 'b'
  vi.advanceTimersByTime(120_000)
  expect(told).toEqual(['b'])
  // An orchestrator that is started now connects with the new key.
  expect(keys.newest()).toEqual({ apiKey: 'b' })
  keys.end()
  key = 'c'
  vi.advanceTimersByTime(60_000)
  expect(told).toEqual(['b'])
})

it('a plain API key, or none, stays what it is', () => {
  const unchanging = (): never => expect.fail('told')
  expect(startApiKeys('a', unchanging).newest()).toEqual({ apiKey: 'a' })
  expect(startApiKeys(undefined, unchanging).newest()).toEqual({})
  expect(vi.getTimerCount()).toBe(0)
})
