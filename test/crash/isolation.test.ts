// A tool that keeps killing its executor runs beside no other work, however slowly executors start or respond: the other work waits.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import type { RunHandle } from 'pawl/client'
import type { HeldMark } from './support/ledger.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

const CRASHES: Plan = [[{ tool: 'crash', input: { name: 'bad' } }]]
const HEALTHY: Plan = [[{ tool: 'look', input: { name: 'healthy' } }]]
/** More than the time in which an executor must acknowledge a job, several times over. */
const NOTICED_MS = 1_000

let rig: Rig
let workers: Supervised
let crashing: RunHandle

beforeAll(async () => {
  rig = await startRig()
})
// Each test has executors that no earlier one has made suspicious.
beforeEach(async () => {
  workers = await rig.supervise({ processes: 2, fixture: 'held-start' })
})
afterEach(async () => {
  await rig.pawl.session(crashing.sessionId).interrupt()
  workers.supervisor.kill()
})
afterAll(() => rig.close())

/** Starts a session whose tool has killed two executors; holds its third attempt just before it kills another one. */
async function thirdAttempt(): Promise<HeldMark> {
  const third = rig.ledger.holdNext({ stage: 'entered', what: 'crash', attempt: 3 })
  crashing = await rig.start(CRASHES)
  const held = await third
  await workers.serving()
  return held
}

const otherThan = (pid: number): number => workers.supervisor.pids().find((one) => one !== pid) ?? expect.fail('there is no other executor')

/** Where anything of the run has happened, in its only attempts. */
function placesOf({ sessionId }: RunHandle): number[] {
  const marks = rig.ledger.marks({ session: sessionId })
  expect(marks.map(({ attempt }) => attempt)).toEqual(marks.map(() => 1))
  return [...new Set(marks.map(({ pid }) => pid))]
}

/** Starts a run, whose first model call has been received by the worker for a while. */
async function waitingRun(): Promise<RunHandle> {
  const run = await rig.start(HEALTHY)
  await untilFound(async () => (await rig.startedActivities(run.sessionId)).includes('callModel') || placesOf(run).length > 0)
  await sleep(NOTICED_MS)
  return run
}

async function expectCompleted(run: RunHandle): Promise<void> {
  expect((await run.result()).text).toBe(finalAnswer(HEALTHY))
  expect(await rig.errors(run.sessionId, 0)).toEqual([])
}

it('a healthy call waits for a slow start rather than run beside a tool that keeps killing its executor', async () => {
  const bad = await thirdAttempt()
  const starting = rig.ledger.holdNext({ stage: 'loading' })
  process.kill(otherThan(bad.pid), 'SIGKILL')
  const successor = await starting
  const run = await waitingRun()
  expect(placesOf(run)).toEqual([])
  bad.release()
  successor.release()
  await expectCompleted(run)
  expect(placesOf(run)).not.toContain(bad.pid)
})

it('a healthy call waits for a frozen executor rather than run beside a tool that keeps killing its executor', async () => {
  const bad = await thirdAttempt()
  const frozen = otherThan(bad.pid)
  process.kill(frozen, 'SIGSTOP')
  const run = await waitingRun()
  expect(placesOf(run)).toEqual([])
  process.kill(frozen, 'SIGCONT')
  await expectCompleted(run)
  expect(placesOf(run)).toEqual([frozen])
  bad.release()
})

it('a tool that keeps killing its executor waits for a slow start rather than run beside a healthy call', async () => {
  const bad = await thirdAttempt()
  const body = rig.ledger.holdNext({ stage: 'entered', what: 'look' })
  const run = await rig.start(HEALTHY)
  const beside = await body
  expect(beside.pid).not.toBe(bad.pid)
  const starting = rig.ledger.holdNext({ stage: 'loading' })
  bad.release()
  const successor = await starting
  // Longer than the quarantine waits for a start.
  await sleep(12_000)
  expect(rig.ledger.marks({ stage: 'entered', what: 'crash', session: crashing.sessionId })).toHaveLength(3)
  successor.release()
  const fourth = await rig.ledger.reached({ stage: 'entered', what: 'crash', attempt: 4, session: crashing.sessionId })
  expect(fourth.pid).not.toBe(beside.pid)
  beside.release()
  await expectCompleted(run)
})
