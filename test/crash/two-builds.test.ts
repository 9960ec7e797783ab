// A rolling deploy: two builds with different tools, limits and workflow bundles serve one task queue. The old one is drained while its
// calls are running, and then the deploy is rolled back in the same way.
import { randomUUID } from 'node:crypto'
import type { SessionHandle } from 'pawl/client'
import type { Supervisor } from 'pawl/worker'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { type Build, type Builds, OTHER_BUNDLE, startBuilds, TURNS } from './support/builds.ts'

const SESSIONS = size(2, 40)
const LONG_MS = 60_000

const before: Build = { name: 'before', maxTurns: 20 }
const after: Build = { name: 'after', maxTurns: 30, input: 'why: z.string().optional()', stamps: true, workflowModules: OTHER_BUNDLE }

let its: Builds
let sessions: SessionHandle[]

beforeAll(async () => {
  its = await startBuilds()
  sessions = Array.from({ length: SESSIONS }, () => its.pawl.session(`builds-${randomUUID()}`, { agent: 'clerk' }))
})
afterAll(() => its?.close())

/** A build that serves. */
interface Served {
  build: Build
  supervisor: Supervisor
}

const serve = async (build: Build): Promise<Served> => ({ build, supervisor: await its.serve(build) })
const half = SESSIONS / 2

/** Half of the runs begin on `from` alone, half on both builds. `from` is drained while each run is held in a payment; `to` continues. */
async function replaceWhileRunning(from: Served, to: Build): Promise<Served> {
  const payments = sessions.map(({ id }) => its.ledger.holdNext({ stage: 'entered', what: 'pay', session: id }))
  const say = (some: readonly SessionHandle[]) => Promise.all(some.map((session) => session.send('go')))
  const runs = await say(sessions.slice(0, half))
  await Promise.all(payments.slice(0, half))
  const next = await serve(to)
  runs.push(...(await say(sessions.slice(half))))
  const held = await Promise.all(payments)
  const drained = from.supervisor.shutdown()
  await until('Temporal lists all sessions', async () => (await its.listed()) === SESSIONS)
  expect(await its.preflight(to)).toMatchObject({ sessions: SESSIONS, problems: [], unread: 0 })
  for (const payment of held) payment.release()
  await drained
  const results = await Promise.all(runs.map((run) => run.settled({ timeout: LONG_MS })))
  expect(results.filter(({ status }) => status !== 'completed')).toEqual([])
  for (const { note } of held.slice(0, half)) expect(note).toBe(from.build.name)
  return next
}

/** Nothing went wrong or happened twice in any session, and nothing differs between the builds. */
async function expectAllSound(runs: number): Promise<void> {
  for (const session of sessions) {
    const { events } = await rowsMatchEvents(inject('stack'), session.id)
    for (const type of ['error_entered', 'model_attempt_failed', 'tool_attempt_failed', 'tool_failed', 'tool_unknown'] as const) {
      expect(ofType(events, type)).toEqual([])
    }
    const payments = its.ledger.marks({ session: session.id, stage: 'entered', what: 'pay' })
    expect(payments).toHaveLength(runs * TURNS)
    expect(new Set(payments.map(({ key }) => key)).size).toBe(runs * TURNS)
  }
}

it('during a rolling deploy and its rollback, sessions run on both builds, and each build continues what the other began', async () => {
  const newer = await replaceWhileRunning(await serve(before), after)
  await expectAllSound(1)
  const events = (await Promise.all(sessions.map((session) => eventsOf(session)))).flat()
  const limits = new Set(ofType(events, 'agent_declared').map((event) => event.limits.maxTurns))
  expect(limits).toEqual(new Set([before.maxTurns, after.maxTurns]))
  expect(ofType(events, 'tool_completed').filter(({ tool }) => tool === 'stamp')).toHaveLength(SESSIONS)
  expect(await bundles()).toBe(2)
  await replaceWhileRunning(newer, before)
  await expectAllSound(2)
})

/** How many workflow bundles carried out workflow tasks of the sessions, according to what workers report to Temporal. */
async function bundles(): Promise<number> {
  const found = new Set<string>()
  for (const { id } of sessions) {
    const { events } = await its.temporal.workflow.getHandle(`pawl:${id}`).fetchHistory()
    for (const { workflowTaskCompletedEventAttributes: done } of events ?? [])
      if (done?.workerVersion?.buildId) found.add(done.workerVersion.buildId)
  }
  return found.size
}
