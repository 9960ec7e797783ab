// What happens to the log lines of Temporal's SDK.
import type { LogEntry } from '@temporalio/worker'
import { describe, expect, it } from 'vitest'
import { StoreError } from '../../../src/store/errors.ts'
import { sdkLine } from '../../../src/worker/orchestrator/temporal/sdk-lines.ts'
import { asFailure } from '../../../src/worker/orchestrator/temporal/thrown-errors.ts'

const entry = (level: LogEntry['level'], message: string, meta: object = {}): LogEntry => ({
  level,
  message,
  meta: meta as Record<string, string>,
  timestampNanos: 0n,
})
const noSession = () => undefined

describe("a line of Temporal's SDK", () => {
  it('the SDK’s line about a failed workflow task becomes an error with its reason and session', () => {
    const failure =
      'Failure { failure: Some(Failure { message: "[TMPRL1100] Nondeterminism error: \\"x\\"", source: "", stack_trace: "" }), force_cause: NonDeterministicError }'
    const meta = { sdkComponent: 'core', target: 'temporalio_sdk_core::worker::workflow', runId: 'e1', failure }
    expect(sdkLine(entry('WARN', 'Failing workflow task', meta), (execution) => (execution === 'e1' ? 's1' : undefined))).toEqual({
      level: 'error',
      message: 'a workflow task failed: Temporal retries it',
      fields: { session: 's1', execution: 'e1', reason: '[TMPRL1100] Nondeterminism error: "x"', sdk: 'core' },
      mayBeOutage: false,
    })
  })

  it("a line of Temporal's SDK that names a workflow names its session", () => {
    const meta = { sdkComponent: 'worker', workflowId: 'pawl:s2', runId: 'e2', taskQueue: 'pawl', error: new Error('broken') }
    expect(sdkLine(entry('ERROR', 'External sink function threw an error', meta), noSession)).toMatchObject({
      level: 'error',
      fields: { session: 's2', execution: 'e2', taskQueue: 'pawl', err: { message: 'broken' } },
    })
  })

  it.each([
    ['gRPC call poll_workflow_task_queue retried 6 times', { error: 'Status { code: Unavailable, message: "tcp connect error" }' }],
    ['Error when recording heartbeat: Status { code: Unavailable, message: "tcp connect error" }', {}],
    ['Network error while responding', { error: 'Status { code: Unavailable }' }],
  ])("a line of Temporal's SDK about a call that failed may mean that the server is away: %s", (message, meta) => {
    expect(sdkLine(entry('WARN', message, meta), noSession)).toMatchObject({ level: 'warn', mayBeOutage: true })
  })

  it("a line of Temporal's SDK that repeats what pawl says itself is for debugging, or left out", () => {
    const failed = (activityType: string, error: Error) =>
      sdkLine(entry('WARN', 'Activity failed', { workflowId: 'pawl:s1', activityType, error }), noSession)
    expect(failed('callModel', new Error('busy'))).toMatchObject({ level: 'debug', fields: { session: 's1', activityType: 'callModel' } })
    expect(failed('flush', new StoreError('store_unavailable', 'away'))).toMatchObject({ level: 'debug' })
    expect(failed('flush', new TypeError('a bug'))).toMatchObject({ level: 'warn' })
    const away = new StoreError('store_unavailable', 'away')
    expect(failed('flush', asFailure(away)), 'sent in the details of a failure').toMatchObject({ level: 'debug', fields: { err: away } })
    expect(failed('findKept', new TypeError('a bug'))).toMatchObject({ level: 'warn' })
    expect(sdkLine(entry('WARN', 'No workflows registered, not polling for workflow tasks'), noSession)).toBeUndefined()
  })
})
