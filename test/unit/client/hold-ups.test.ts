// Why a session cannot be read, in the moments after its first message and later.
import { defaultDataConverter } from '@temporalio/common'
import type { Client } from '@temporalio/client'
import { describe, expect, it } from 'vitest'
import { whyUnavailable } from '../../../src/client/session/hold-ups.ts'

const SCHEDULED = 1
const ago = (ms: number): { seconds: number; nanos: number } => {
  const at = Date.now() - ms
  return { seconds: Math.floor(at / 1_000), nanos: (at % 1_000) * 1_000_000 }
}

/** A Temporal server that describes the session's workflow in this way. */
function serverWith(raw: object): { client: Client; sessionId: string } {
  const describe = async () => ({ status: { name: 'RUNNING' }, taskQueue: 'shop', raw })
  const client = {
    withDeadline: (_: number, calls: () => unknown) => calls(),
    workflow: { getHandle: () => ({ describe }) },
    options: { loadedDataConverter: { ...defaultDataConverter, payloadCodecs: [] } },
  }
  return { client: client as unknown as Client, sessionId: 's' }
}

const firstTask = (ms: number) => ({ pendingWorkflowTask: { state: SCHEDULED, attempt: 1, originalScheduledTime: ago(ms) } })
const loading = (ms: number) => ({ pendingActivities: [{ activityType: { name: 'loadSession' }, scheduledTime: ago(ms) }] })
const TIMED_OUT = new Error('deadline exceeded')

describe('a session that was just opened', () => {
  it.each<[string, object, unknown]>([
    ['its first step waits for less than a moment', firstTask(300), TIMED_OUT],
    ['its past begins to be loaded', loading(300), TIMED_OUT],
    ['a worker says that its past is to be loaded', loading(60_000), undefined],
    ['a worker says that it is not open yet', firstTask(5_000), undefined],
    ['a worker has its next step', {}, undefined],
  ])('a session that was just opened is being opened, and nobody is told to start a worker: %s', async (_, raw, failed) => {
    const error = await whyUnavailable(serverWith(raw), { failed })
    expect(error).toMatchObject({ name: 'SessionUnavailableError', isOpening: true, waitsFor: undefined })
    expect(error.message).toBe('Session "s" is being opened. Ask again.')
  })

  it('a session whose past a worker is reading is being opened, and says what it waits for', async () => {
    const [activity] = loading(5_000).pendingActivities
    const error = await whyUnavailable(serverWith({ pendingActivities: [{ ...activity, lastStartedTime: ago(4_000) }] }), {})
    expect(error).toMatchObject({ name: 'SessionUnavailableError', isOpening: true, waitsFor: 'Postgres, which holds its past' })
  })

  it.each<[string, object]>([
    ['its first step waits', firstTask(5_000)],
    ['its past waits to be loaded', loading(5_000)],
    ['it has no next step', {}],
  ])('a session that was just opened waits for a worker if none has answered for longer: %s', async (_, raw) => {
    const error = await whyUnavailable(serverWith(raw), { failed: TIMED_OUT })
    expect(error).toMatchObject({ isOpening: false, waitsFor: 'a worker on task queue "shop"' })
    expect(error.message).toContain('Start one')
  })
})
