// Random scripts of messages, tools, kills, outages, checkpoints, going back and forks: whatever happens, the three accounts of a session
// agree in the end: what its events fold to, what its workflow says, and what the store's tables show.
import { randomUUID } from 'node:crypto'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { seededRandom } from '../retail/random.ts'
import { type DatabaseLink, linkTo } from '../support/database-link.ts'
import { type Accounts, openAccounts } from '../support/accounts.ts'
import { type Plan, planText } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import { until } from '../support/until.ts'

const SESSIONS = 10
const STEPS = 6
const seed = Number(process.env.PAWL_SEED ?? Math.floor(Math.random() * 1_000_000))

let rig: Rig
let link: DatabaseLink
let workers: Supervised
let accounts: Accounts

beforeAll(async () => {
  const { databaseUrl } = inject('stack')
  rig = await startRig()
  link = await linkTo(databaseUrl)
  accounts = await openAccounts(databaseUrl)
  workers = await rig.supervise({ processes: 3, postgres: link.url })
})

afterAll(async () => {
  link.mend()
  await rig.close()
  await accounts.close()
  await link.close()
})

/** One session's script: its own dice, so that the order in which sessions come to throw changes nothing. */
async function perform(nth: number, forks: SessionHandle[]): Promise<SessionHandle> {
  const random = seededRandom(seed * 1_000 + nth)
  const die = (sides: number): number => Math.floor(random() * sides)
  const session = rig.pawl.session(`random-${seed}-${nth}-${randomUUID().slice(0, 6)}`, { agent: 'planned' })
  const somePlan = (step: number): Plan =>
    Array.from({ length: 1 + die(3) }, (_, turn) =>
      Array.from({ length: 1 + die(2) }, (_, at) => ({
        tool: ['look', 'put', 'charge', 'post'][die(4)] ?? 'look',
        input: { name: `${step}.${turn}.${at}` },
      })),
    )
  for (let step = 0; step < STEPS; step++) {
    const run = await session.send(planText(somePlan(step)), step === 0 ? { isNew: true } : {})
    switch (die(6)) {
      case 0:
        // The next message steers it.
        continue
      case 1:
        await session.interrupt({ by: 'the script' })
        break
      case 2:
        await session.checkpoint(`step ${step}`)
        break
      default:
    }
    await run.settled({ timeoutMs: 90_000 })
    if (die(3) === 0) await moveSomewhere(session, die, forks)
    if (die(4) === 0) await closeAndWait(session)
  }
  return session
}

async function moveSomewhere(session: SessionHandle, die: (sides: number) => number, forks: SessionHandle[]): Promise<void> {
  const { run, checkpoint } = await session.state()
  const target = die(2) === 0 && checkpoint ? { checkpoint: 1 + die(checkpoint.version) } : { run: 1 + die(run) }
  try {
    if (die(2) === 0) await session.rollback({ ...target, by: 'the script' })
    else forks.push(await session.fork(target))
  } catch (error) {
    // The dice know nothing of what was left behind before.
    expect(error).toMatchObject({ code: expect.stringMatching(/^(target_archived|checkpoint_not_found|run_not_found)$/) })
  }
}

async function closeAndWait(session: SessionHandle): Promise<void> {
  await session.close()
  await until('the session is closed', async () => (await session.state()).status === 'closed', 90_000)
}

it(`agree after ${SESSIONS} random scripts (seed ${seed}, again with PAWL_SEED)`, async () => {
  const random = seededRandom(seed)
  const forks: SessionHandle[] = []
  let going = true
  const ended = Promise.all(Array.from({ length: SESSIONS }, (_, nth) => perform(nth, forks))).finally(() => {
    going = false
  })
  ended.catch(() => undefined)
  let [kills, outages] = [0, 0]
  while (going) {
    // By progress, so that a slow machine gets as many as a quick one.
    const marks = rig.ledger.marks().length
    const waited = Date.now() + 3_000
    while (going && rig.ledger.marks().length < marks + 20 && Date.now() < waited) await new Promise((resolve) => setTimeout(resolve, 20))
    if (!going) break
    if (random() < 0.5) {
      const pids = workers.supervisor.pids()
      const pid = pids[Math.floor(random() * pids.length)]
      if (pid !== undefined && kills++ >= 0) process.kill(pid, 'SIGKILL')
    } else {
      outages += 1
      link.cut()
      await new Promise((resolve) => setTimeout(resolve, random() * 1_500))
      link.mend()
    }
  }
  const sessions = [...(await ended), ...forks]
  for (const session of sessions) {
    const state = await until(
      `${session.id} rests`,
      async () => {
        const now = await session.state()
        return now.status === 'idle' || now.status === 'closed' ? now : undefined
      },
      90_000,
    )
    await accounts.agree(session, state)
  }
  console.log(`random scripts: ${sessions.length} sessions (${forks.length} forks), ${kills} kills, ${outages} outages, seed ${seed}`)
  expect(kills + outages).toBeGreaterThan(0)
})
