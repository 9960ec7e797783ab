// The pause before a process is restarted.
import { expect, it } from 'vitest'
import { startBackoff } from '../../../src/worker/parent/backoff.ts'

it('the delay doubles with each process in a row that died before it served, up to five seconds, and resets once one served', () => {
  const backoff = startBackoff(150)
  expect(Array.from({ length: 8 }, () => backoff.next())).toEqual([150, 300, 600, 1_200, 2_400, 4_800, 5_000, 5_000])
  backoff.served()
  expect(backoff.next()).toBe(150)
})
