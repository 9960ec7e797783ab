// One process is killed again and again beside working sessions: nothing is lost, nothing is done twice, and everything still progresses.
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { seededRandom } from '../../src/testing/crash/random.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { seed, size } from '../support/sizes.ts'
import { type Plan, type PlannedCall, finalAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

const SESSIONS = size(6, 20)
const EXECUTOR_KILLS = size(5, 60)
const ORCHESTRATOR_KILLS = size(2, 24)
const again = `seed ${seed}, again with PAWL_SEED`

/** How often an executor is killed. */
const EVERY_MS = 1_000
/** How long an orchestrator serves before it is killed. */
const UPTIME_MS = 1_000
const CALLS_IN_RUN = 5
const SHORT_MS = 100
/** Longer than an orchestrator serves, so that most bodies outlive one. */
const LONG_MS = 1_500

const random = seededRandom(seed)
const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] ?? expect.fail('nothing to pick from')

let rig: Rig
let workers: Supervised

beforeAll(async () => {
  rig = await startRig()
  workers = await rig.supervise({ processes: 3 })
})

afterAll(() => rig.close())

/** Executors that serve. */
const ready = (): number[] =>
  workers.supervisor.pids().filter((pid) => workers.events.some((event) => event.event === 'worker_ready' && event.pid === pid))

/** An executor that has just entered a body that takes its time. */
async function busy(): Promise<number> {
  const from = rig.ledger.marks().length
  const entered = (): number[] =>
    rig.ledger
      .marks()
      .slice(from)
      .flatMap(({ stage, what, pid }) => (stage === 'entered' && what === 'dawdle' ? [pid] : []))
  return untilFound(() => entered().findLast((pid) => ready().includes(pid)))
}

/** Starts one run after another until it is stopped; returns what each one did and how long it took. */
async function work(shouldContinue: () => boolean, planOf: () => Plan): Promise<{ plan: Plan; run: RunHandle; ms: number }[]> {
  const runs = []
  do {
    const plan = planOf()
    const startedAt = performance.now()
    const run = await rig.start(plan)
    expect((await run.result({ timeout: 240_000 })).text).toBe(finalAnswer(plan))
    runs.push({ plan, run, ms: performance.now() - startedAt })
  } while (shouldContinue())
  return runs
}

/** Ends the kills when a test fails: they would hit the next one. */
const stopping =
  (stop: () => void) =>
  (error: unknown): never => {
    stop()
    throw error
  }

const once = (): boolean => false

const sessionsAtWork = async (shouldContinue: () => boolean, planOf: () => Plan) =>
  (await Promise.all(Array.from({ length: SESSIONS }, () => work(shouldContinue, planOf)))).flat()

const turns = (tools: readonly string[], ms: number): Plan =>
  Array.from({ length: CALLS_IN_RUN }, (_, turn): PlannedCall[] => [{ tool: pick(tools), input: { name: `n${turn}`, ms } }])

/** How often each call's body was entered, and took effect. */
function effects(session: string): Map<string, { entered: number; applied: number; tool: string }> {
  const calls = new Map<string, { entered: number; applied: number; tool: string }>()
  for (const { callId, stage, what } of rig.ledger.marks({ session })) {
    if (stage !== 'entered' && stage !== 'applied') continue
    const counts = calls.get(callId) ?? { entered: 0, applied: 0, tool: what }
    counts[stage] += 1
    calls.set(callId, counts)
  }
  return calls
}

const middleOf = (figures: readonly number[]): number => figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)] ?? 0

it(`${SESSIONS} sessions (${again}) finish while an executor is killed every second, and no death awaits a missed heartbeat`, async () => {
  const undisturbed = await sessionsAtWork(once, () => turns(['dawdle'], SHORT_MS))
  const undisturbedMs = middleOf(undisturbed.map(({ ms }) => ms))
  let kills = 0
  const shouldContinue = (): boolean => kills < EXECUTOR_KILLS
  const stopped = stopping(() => void (kills = EXECUTOR_KILLS))
  const killing = (async () => {
    while (shouldContinue()) {
      await sleep(EVERY_MS)
      // They come less often on a machine that takes longer to start executors, so some executors always serve.
      await workers.serving(2)
      process.kill(kills % 2 === 0 ? await busy() : pick(ready()), 'SIGKILL')
      kills += 1
    }
  })()
  const runs = await sessionsAtWork(shouldContinue, () => turns(['dawdle', 'put', 'look'], SHORT_MS)).catch(stopped)
  await killing

  const overMs = []
  for (const { plan, run, ms } of runs) {
    const calls = effects(run.sessionId)
    expect(calls.size).toBe(plan.length)
    for (const { tool, applied } of calls.values()) {
      if (tool === 'dawdle') expect(applied).toBe(1)
      else expect(applied).toBeGreaterThan(0)
    }
    const keys = rig.ledger.marks({ session: run.sessionId, what: 'put' }).map(({ callId, key }) => `${callId} ${key}`)
    expect(new Set(keys).size).toBe(new Set(keys.map((key) => key.split(' ')[0])).size)
    const errors = await rig.errors(run.sessionId, 0)
    // Each death was reported at once: a call that waited for a missed heartbeat would have another class.
    for (const one of errors) expect(one).toMatchObject({ class: 'WorkerDied' })
    const hits = errors.length
    overMs.push({ hits, ms: ms - undisturbedMs })
  }
  const resumed = workers.events.flatMap((event) => (event.event === 'call_resumed' ? [event.ms] : []))
  const hit = overMs.filter(({ hits }) => hits > 0)
  const worst = Math.max(...overMs.map(({ ms, hits }) => ms - hits * 1_000))
  console.log(
    `steady kills: ${kills} kills, ${runs.length} runs of ${Math.round(undisturbedMs)} ms without kills, ${hit.length} of them hit, ` +
      `half of those by less than ${Math.round(middleOf(hit.map(({ ms }) => ms)))} ms; the slowest took ${Math.round(worst)} ms more than ` +
      `its calls and a second for each kill; resumed within ${Math.max(...resumed)} ms, half within ${middleOf(resumed)} ms; ${again}`,
  )
  expect(hit.length).toBeGreaterThan(0)
})

it(`each body of ${SESSIONS} sessions (${again}) finishes and is reported once while the orchestrator is killed repeatedly`, async () => {
  let kills = 0
  const shouldContinue = (): boolean => kills < ORCHESTRATOR_KILLS
  const stopped = stopping(() => void (kills = ORCHESTRATOR_KILLS))
  const before = workers.events.length
  const since = (name: string): number => workers.events.slice(before).filter(({ event }) => event === name).length
  const killing = (async () => {
    for (; shouldContinue(); kills++) {
      await untilFound(() => since('orchestrator_ready') === kills)
      await sleep(UPTIME_MS)
      process.kill(workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
    }
  })()
  const runs = await sessionsAtWork(shouldContinue, () => turns(['dawdle'], LONG_MS)).catch(stopped)
  await killing

  let errors = 0
  for (const { plan, run } of runs) {
    for (const counts of effects(run.sessionId).values()) expect(counts).toEqual({ entered: 1, applied: 1, tool: 'dawdle' })
    const completed = ofType(await eventsOf(rig.pawl.session(run.sessionId)), 'tool_completed')
    expect(completed.map(({ callId }) => callId)).toEqual(plan.map((_, turn) => `t_1_${turn + 1}_0`))
    errors += (await rig.errors(run.sessionId, 0)).length
  }
  console.log(`orchestrator killed ${since('orchestrator_died')} times beside ${runs.length} runs; ${errors} failed attempts; ${again}`)
  expect(since('orchestrator_died')).toBeGreaterThan(1)
  expect(since('worker_died')).toBe(0)
})
