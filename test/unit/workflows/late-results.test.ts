// Results that arrive late for calls that the session does not know yet: only the execution that received them has them.
import { expect, it, vi } from 'vitest'
import type { Journal } from '../../../src/workflows/journal.ts'
import { startLateResults } from '../../../src/workflows/calls/late-results.ts'

vi.mock('@temporalio/workflow', () => ({ patched: () => true, condition: async () => undefined }))

it('results of calls that the session does not know yet are kept until it has caught up or a call takes them', async () => {
  let isBehind = true
  const late = startLateResults(() => !isBehind, { isLost: () => false, complete: () => undefined })
  const journal = { state: { unknown: {} } } as unknown as Journal
  const receive = (callId: string) => late.receive({ callId, attempt: 1, startedAt: 1, worker: 'w', value: 'done' }, journal)
  expect(late.areKept()).toBe(false)
  receive('t_1_1_0')
  expect(late.areKept()).toBe(true)
  expect(await late.of('t_1_1_0', 0)).toMatchObject({ value: 'done' })
  expect(late.areKept()).toBe(false)
  receive('t_1_2_0')
  isBehind = false
  expect(late.areKept()).toBe(false)
})
