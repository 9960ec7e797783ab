// A wide tree of agents, on two task queues, while executors and orchestrators of both are killed at random: the same answers as undisturbed,
// each effect once, one approval, and the root's limit holds.
import { randomUUID } from 'node:crypto'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { randomFrom } from '../../src/testing/crash/random.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { seed, size } from '../support/sizes.ts'
import { until, untilFound } from '../support/until.ts'
import { bank } from './support/bank.ts'
import { type Compiled, compile } from './support/build.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import { isAnyInDanger, readyIn } from './support/sparing.ts'

const TEAMS = size(2, 10)
const KILLS = size(5, 40)
const LIMIT = 3
const CALM_MS = size(60_000, 420_000)

const world = bank()
let rig: Rig
let fixtures: Compiled
let workers: Supervised[]

beforeAll(async () => {
  Object.assign(process.env, await world.start?.())
  fixtures = await compile(['test/crash/fixtures/wide-tree.ts'])
  rig = await startRig()
  const far = `${rig.taskQueue}-far`
  Object.assign(process.env, { NEAR_QUEUE: rig.taskQueue, FAR_QUEUE: far })
  const module = fixtures.path('wide-tree')
  workers = await Promise.all([rig.taskQueue, far].map((taskQueue) => rig.supervise({ module, taskQueue, processes: size(2, 3) })))
})
afterAll(async () => {
  await rig?.close()
  await fixtures?.remove()
  await world.stop?.()
})

/** What a tree has done. */
interface Outcome {
  text: string
  effects: string[]
  sessions: string[]
  usd: number
}

/** Has the tree answer, and approves what waits in it. */
async function play(id = `tree-${randomUUID()}`): Promise<Outcome> {
  await world.reset()
  const session = rig.pawl.session(id, { agent: 'captain' }) as SessionHandle
  const run = await session.send(`${TEAMS} teams`)
  const approving = approveOnce(session)
  const { text } = await run.result({ timeout: CALM_MS })
  const approved = await approving
  // The scout may report in the run or after it.
  await until('the scout has reported', async () => ofType(await eventsOf(session), 'message_received').some((one) => one.answers), CALM_MS)
  await until('all is at rest', async () => (await session.state()).current === null, CALM_MS)
  const rows = []
  for await (const row of rig.pawl.sessions.list({ tree: session.id, limit: 1_000 })) rows.push(row)
  const events = (await Promise.all(rows.map(({ sessionId }) => eventsOf(rig.pawl.session(sessionId))))).flat()
  expect(ofType(events, 'approval_requested').map(({ callId }) => callId)).toEqual([approved])
  expect(ofType(events, 'approval_decided')).toHaveLength(1)
  expect((await session.status()).waitsFor).toEqual([{ for: 'message' }])
  const { spend } = await session.state()
  return {
    text,
    effects: (world.effects() as { what: string; account: string }[]).map(({ what, account }) => `${what} ${account}`).toSorted(),
    sessions: rows.map(({ agent }) => agent ?? '').toSorted(),
    usd: spend?.usd ?? 0,
  }
}

/** Approves the tree's only request; a decision that died with its worker is sent again. */
async function approveOnce(session: SessionHandle): Promise<string> {
  const { sessionId, callId, digest } = await until(
    'a leaf asks for approval',
    async () => (await session.pending({ tree: true }))[0],
    CALM_MS,
  )
  await until(
    'it is approved',
    async () => {
      await rig.pawl
        .session(sessionId)
        .approve(callId, { digest: digest ?? '', by: 'ann' })
        .catch((error: { code?: string }) => {
          if (error.code !== 'not_waiting' && error.code !== 'call_not_found') throw error
        })
      return true
    },
    CALM_MS,
  )
  return callId
}

/** Kills executors and orchestrators of both task queues, paced by the events that are stored, until `isOver`. */
async function killAtRandom(root: string, isOver: () => boolean): Promise<{ executors: number; orchestrators: number }> {
  const random = randomFrom(seed)
  const kills = { executors: 0, orchestrators: 0 }
  const stored = async () => {
    let sum = 0
    for await (const { flushedSeq } of rig.pawl.sessions.list({ tree: root, limit: 1_000 })) sum += flushedSeq
    return sum
  }
  while (kills.executors + kills.orchestrators < KILLS && !isOver()) {
    const next = (await stored()) + random.integer(2, 8)
    await untilFound(async () => isOver() || (await stored()) >= next)
    const { supervisor, ...rest } = random.pick(workers)
    const ready = () => readyIn({ supervisor, ...rest })
    await untilFound(async () => isOver() || (ready().length > 1 && !(await isAnyInDanger(rig, workers))))
    if (isOver()) break
    const orchestrator = random.fraction() < 0.3 ? supervisor.orchestratorPid() : undefined
    process.kill(orchestrator ?? random.pick(ready()), 'SIGKILL')
    kills[orchestrator === undefined ? 'executors' : 'orchestrators'] += 1
  }
  return kills
}

it(`a tree of ${3 * TEAMS + 2} sessions answers as undisturbed while processes on both task queues are killed at random (seed ${seed}, again with PAWL_SEED)`, async () => {
  const undisturbed = await play()
  expect(new Set(undisturbed.effects).size).toBe(3 * TEAMS + 2)
  let isOver = false
  const root = `tree-${randomUUID()}`
  const killing = killAtRandom(root, () => isOver)
  const disturbed = await play(root).finally(() => {
    isOver = true
  })
  const kills = await killing
  console.log(`a tree under kills: ${JSON.stringify(kills)}, ${disturbed.usd} USD (undisturbed ${undisturbed.usd}), seed ${seed}`)
  expect({ ...disturbed, usd: 0 }).toEqual({ ...undisturbed, usd: 0 })
  // An answer that was lost with its worker costs a cent more.
  expect(disturbed.usd).toBeGreaterThanOrEqual(undisturbed.usd - 1e-9)
  expect(disturbed.usd).toBeLessThanOrEqual(LIMIT)
  expect(kills.executors + kills.orchestrators).toBeGreaterThan(0)
}, 900_000)
