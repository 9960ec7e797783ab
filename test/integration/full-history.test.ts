// A history that fills up while Postgres is down: the session waits at a safe bound, says why, and resumes by itself afterwards.
import { createHash } from 'node:crypto'
import { type Agent, defineAgent, defineTool, type ModelRequest } from 'pawl'
import { scripted, startStack, type Stack } from 'pawl/testing'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { z } from 'zod'
import type { SharedStack } from '../setup/stack.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { pendingOf } from '../support/approvals.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn, resultsIn, saidIn } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { until } from '../support/until.ts'

/** The size of the largest result that history may hold, and enough turns to fill it: the server's limit is 50 MB. */
const BYTES = 900_000
const TURNS = size(14, 60)
const MB = 1_000_000
/** The history at which sessions continue as new, and the one at which they wait for the store. */
const DUE = size({ events: 120, bytes: MB }, { events: 1_000, bytes: 4 * MB })
const BOUND = 10 * DUE.bytes
/** The number of small turns that make a history more than twice as long. */
const COUNTED = Math.ceil((2.2 * DUE.events) / 12)

let stack: Stack
let shared: SharedStack
let here: Deployment
const requests: { turn: number; said: string[]; newest: string; answers: number }[] = []

beforeAll(async () => {
  // These tests stop and start Postgres, so they have their own.
  stack = await startStack({ temporal: ['address'], postgres: ['embedded'] })
  shared = { ...inject('stack'), databaseUrl: stack.databaseUrl }
  here = await deploy({ stack: shared, history: DUE })
  await here.startWorker({ agents: [agent(), counter(), approved()] })
})
afterAll(async () => {
  await here?.stop()
  await stack?.stop()
})

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const page = (n: number): string => `${n} `.repeat(Math.ceil(BYTES / `${n} `.length)).slice(0, BYTES)

const fetchPage = defineTool({
  name: 'fetch',
  description: 'Gives a large page.',
  input: z.object({ n: z.number() }),
  effect: 'read',
  execute: ({ n }) => page(n),
})

function agent(): Agent {
  return defineAgent({
    name: 'fetcher',
    instructions: 'Fetch.',
    limits: { maxTurns: TURNS + 1 },
    model: scripted((request: ModelRequest) => {
      const answers = answersIn(request)
      const [newest] = resultsIn(request)
      requests.push({ turn: request.turn, said: saidIn(request), newest: sha256(String(newest?.content ?? '')), answers })
      return answers < TURNS ? [{ type: 'tool_use', id: 'toolu_fetch', name: 'fetch', input: { n: answers } }] : 'done'
    }),
    tools: [fetchPage],
  }) as Agent
}

/** Asks for an approval, and then fetches pages until it is full. */
function approved(): Agent {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({}),
    effect: 'external',
    approval: true,
    execute: () => 'paid',
  })
  return defineAgent({
    name: 'approved',
    instructions: 'Pay, then fetch.',
    limits: { maxTurns: TURNS + 2 },
    model: scripted((request: ModelRequest) => {
      const n = answersIn(request)
      if (n > TURNS) return 'done'
      return [{ type: 'tool_use', id: `toolu_${n}`, name: n === 0 ? 'pay' : 'fetch', input: n === 0 ? {} : { n } }]
    }),
    tools: [pay, fetchPage],
  }) as Agent
}

/** An agent that makes many small turns. */
function counter(): Agent {
  const count = defineTool({
    name: 'count',
    description: 'Counts.',
    input: z.object({ n: z.number() }),
    effect: 'read',
    execute: ({ n }) => n,
  })
  return defineAgent({
    name: 'counter',
    instructions: 'Count.',
    limits: { maxTurns: 1_000 },
    model: scripted((request: ModelRequest) => {
      const n = answersIn(request)
      return n < COUNTED ? [{ type: 'tool_use', id: 'toolu_count', name: 'count', input: { n } }] : 'counted'
    }),
    tools: [count],
  }) as Agent
}

it('while the store is away, a history that is due for continue-as-new delays only one turn', {
  timeout: 120_000,
}, async () => {
  await stack.postgres.stop()
  const session = here.pawl.session('many-turns', { agent: 'counter' })
  const run = await session.send('count', { isNew: true })
  expect(await run.result({ timeout: 60_000 })).toMatchObject({ text: 'counted' })
  const { events } = await here.temporal.workflow.getHandle('pawl:many-turns').fetchHistory()
  expect(events?.length).toBeGreaterThan(2 * DUE.events)
  const waits = events?.filter(({ timerStartedEventAttributes: timer }) => timer && Number(timer.startToFireTimeout?.seconds) === 2)
  expect(waits).toHaveLength(1)
  await stack.postgres.start()
  await rowsMatchEvents(shared, 'many-turns', { timeoutMs: 60_000 })
})

it('a session with a full history waits in error: archive_unavailable, and resumes by itself when Postgres is back', {
  timeout: 400_000,
}, async () => {
  await stack.postgres.stop()
  const session = here.pawl.session('full', { agent: 'fetcher' })
  const handle = here.temporal.workflow.getHandle('pawl:full')
  const run = await session.send('fetch all', { isNew: true })
  const waiting = await until(
    'the session waits',
    async () => {
      const state = await session.state()
      return state.status === 'error' && state
    },
    240_000,
  )
  expect(waiting.error).toMatchObject({ code: 'archive_unavailable', strategy: 'automatic', run: 1 })
  const { historySize = 0, status, runId } = await handle.describe()
  expect(status.name).toBe('RUNNING')
  expect(historySize).toBeGreaterThan(BOUND)
  expect(historySize).toBeLessThan(BOUND + 5 * MB)

  // It waits: the model is no longer called. Messages sent meanwhile are durable.
  const asked = requests.length
  expect(asked).toBeLessThan(TURNS)
  await session.send('meanwhile', { messageId: 'meanwhile' })
  await until('the message is in', async () => (await session.state()).queued === 1)
  expect((await session.state()).status).toBe('error')
  expect(requests).toHaveLength(asked)

  await stack.postgres.start()
  expect(await run.result({ timeout: 240_000 })).toMatchObject({ run: 1, text: 'done' })
  expect((await handle.describe()).runId).not.toBe(runId)

  // Nothing was lost on the way: each page came once, in order, and the first turn after the wait saw the message.
  expect(requests.map(({ answers }) => answers)).toEqual(Array.from({ length: TURNS + 1 }, (_, turn) => turn))
  expect(requests.slice(1).map(({ newest }) => newest)).toEqual(Array.from({ length: TURNS }, (_, n) => sha256(page(n))))
  expect(requests.findIndex(({ said }) => said.includes('meanwhile'))).toBe(asked)

  const { seq } = await session.state()
  const { rows } = await rowsMatchEvents(shared, 'full', { after: seq - 5, timeoutMs: 60_000 })
  expect(rows.errors.filter(({ context }) => context === 'run')).toMatchObject([{ code: 'archive_unavailable', run: 1, attempt: null }])
  expect(rows.recoveries).toMatchObject([{ kind: 'recovery_ended', strategy: 'automatic' }])
  expect(rows.tool_calls).toHaveLength(TURNS)
  expect(await session.state()).toMatchObject({ status: 'idle', error: null })
})

it('a session whose standing approval is not stored yet waits with a full history, too, and resumes by itself', {
  timeout: 400_000,
}, async () => {
  const session = here.pawl.session('full-approved', { agent: 'approved', context: { customer: 'c1' } as never })
  const run = await session.send('go', { isNew: true })
  const [call] = await pendingOf(run)
  await stack.postgres.stop()
  await session.approve(call!.callId, { digest: call!.digest!, by: 'ann', remember: { for: 'context', matching: 'tool' } })
  const waiting = await until(
    'the session waits',
    async () => {
      const state = await session.state()
      return state.status !== 'running' && state
    },
    240_000,
  )
  expect(waiting).toMatchObject({ status: 'error', error: { code: 'archive_unavailable', strategy: 'automatic' } })
  await stack.postgres.start()
  expect(await run.result({ timeout: 240_000 })).toMatchObject({ text: 'done' })
})
