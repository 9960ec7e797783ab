// Processes are killed at random under many sessions at once: every run ends as it would without kills, and every effect happens once.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { seededRandom } from '../../src/testing/crash/random.ts'
import { seed, size } from '../support/sizes.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

const SESSIONS = size(8, 48)
const TURNS = size(6, 8)
const KILLS = size(6, 60)
const random = seededRandom(seed)

let rig: Rig
let workers: Supervised

beforeAll(async () => {
  rig = await startRig()
  workers = await rig.supervise({ processes: 3 })
})

afterAll(() => rig.close())

const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] ?? expect.fail('nothing to pick from')

/** Reads and writes of both kinds, some of which run side by side. */
function somePlan(session: number): Plan {
  return Array.from({ length: TURNS }, (_, turn) =>
    Array.from({ length: 1 + Math.floor(random() * 2) }, (_, at) => ({
      tool: pick(['look', 'put', 'charge']),
      input: { name: `${session}.${turn}.${at}` },
    })),
  )
}

/** Calls that have had their effect. */
function callsDone(): number {
  return new Set(rig.ledger.marks().flatMap(({ stage, session, callId }) => (stage === 'applied' ? [`${session} ${callId}`] : []))).size
}

it(`${SESSIONS} sessions with ${KILLS} random kills end as they would without them (seed ${seed}, again with PAWL_SEED)`, async () => {
  const plans = Array.from({ length: SESSIONS }, (_, session) => somePlan(session))
  const ended = Promise.all(
    plans.map(async (plan) => {
      const run = await rig.start(plan)
      return { plan, session: run.sessionId, text: (await run.result()).text }
    }),
  )
  let going = true
  const stop = (): void => void (going = false)
  void ended.then(stop, stop)
  let kills = 0
  for (; kills < KILLS && going; kills++) {
    // Paced by progress, so that a slow machine gets as many kills as a fast one; then at a random moment. Calls that begin again are not
    // progress: five deaths in a row would end a call.
    const done = callsDone()
    while (going && callsDone() < done + 8) await new Promise((resolve) => setTimeout(resolve, 10))
    await new Promise((resolve) => setTimeout(resolve, random() * 100))
    const pids = workers.supervisor.pids()
    if (pids.length > 0) process.kill(pick(pids), 'SIGKILL')
  }
  for (const { plan, session, text } of await ended) {
    expect(text).toBe(finalAnswer(plan))
    const calls = plan.flatMap((step, turn) =>
      step === 'crash' ? [] : step.map(({ tool }, at) => ({ tool, callId: `t_1_${turn + 1}_${at}` })),
    )
    for (const { tool, callId } of calls) {
      const marks = rig.ledger.marks({ session, what: tool }).filter((mark) => mark.callId === callId)
      const applied = marks.filter(({ stage }) => stage === 'applied')
      if (tool === 'charge') expect(applied, `${session} ${callId}`).toHaveLength(1)
      else expect(applied.length, `${session} ${callId}`).toBeGreaterThan(0)
      expect(new Set(marks.map(({ key }) => key)).size).toBe(1)
    }
  }
  const died = workers.events.flatMap((event) => (event.event === 'worker_died' ? event.calls : []))
  const resumed = workers.events.flatMap((event) => (event.event === 'call_resumed' ? [event.ms] : []))
  console.log(`random kills: ${kills} kills, ${died.length} calls died half way, resumed within ${Math.max(...resumed)} ms, seed ${seed}`)
  expect(died.length).toBeGreaterThan(0)
})
