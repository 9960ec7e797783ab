// How long the answer of an attempt is offered to the server.
import { ActivityNotFoundError, type Client, WorkflowNotFoundError } from '@temporalio/client'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { signalLateResult } from '../../../src/worker/orchestrator/heartbeats/late-results.ts'
import { offer } from '../../../src/worker/orchestrator/heartbeats/offering.ts'

const MINUTE = 60_000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A server that can or cannot be reached. */
function serverThat(isReached: () => boolean, signal: () => Promise<void> = async () => undefined): Client {
  return {
    withDeadline: (_at: number, ask: () => Promise<unknown>) => ask(),
    workflowService: {
      async getSystemInfo() {
        if (!isReached()) throw new Error('no connection')
      },
    },
    workflow: { getHandle: () => ({ signal }) },
  } as unknown as Client
}

it('an answer is offered until the server can be reached, however long that takes, and is dropped if the server has given up', async () => {
  let isReached = false
  const server = serverThat(() => isReached)
  const answerTo = (whenReached: () => void) => async (): Promise<void> => {
    if (!isReached) throw new Error('no connection')
    whenReached()
  }
  const [taken, dropped] = [
    offer(
      server,
      answerTo(() => undefined),
    ),
    offer(
      server,
      answerTo(() => {
        throw new ActivityNotFoundError('it has timed out')
      }),
    ),
  ]
  await vi.advanceTimersByTimeAsync(60 * MINUTE)
  isReached = true
  await vi.advanceTimersByTimeAsync(1_000)
  expect([await taken, await dropped]).toEqual(['taken', 'given_up'])
})

it('an answer that a server refuses while it can be reached is offered for two minutes', async () => {
  const refused = offer(
    serverThat(() => true),
    () => Promise.reject(new Error('the key is missing')),
  ).catch((error: unknown) => error)
  await vi.advanceTimersByTimeAsync(2 * MINUTE)
  expect(await refused).toMatchObject({ message: 'the key is missing' })
})

it('the late result of an effect is signalled again if the server is lost again, and not to a session that has ended', async () => {
  const resolution = { index: 0, tool: 'pay', effect: 'external', schemaDigest: '' }
  const givenUp = {
    activity: 'executeTool',
    workflowId: 'pawl:s',
    input: { run: 1, turn: 1, resolution },
    result: { kind: 'completed', attempt: 1, startedAt: 1, worker: 'w', value: 'paid' },
  }
  const warned: unknown[] = []
  const log = { debug() {}, info() {}, warn: (...line: unknown[]) => void warned.push(line), error() {} }
  let isReached = false
  const arrived: number[] = []
  const signal = async (): Promise<void> => {
    if (!isReached) throw new Error('no connection')
    arrived.push(1)
  }
  const sent = signalLateResult(
    serverThat(() => isReached, signal),
    givenUp,
    log,
  )
  await vi.advanceTimersByTimeAsync(10 * MINUTE)
  isReached = true
  await vi.advanceTimersByTimeAsync(1_000)
  await sent
  expect([arrived, warned]).toEqual([[1], []])
  await signalLateResult(
    serverThat(
      () => true,
      () => Promise.reject(new WorkflowNotFoundError('it has ended', 'pawl:s', undefined)),
    ),
    givenUp,
    log,
  )
  expect(warned).toHaveLength(1)
})
