// Sessions get messages, are rolled back, forked and closed at random while processes are killed and Postgres goes down and comes back. In
// the end, the fold of the `events` rows, the workflow's state and the rows of every projection agree.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunHandle, SendOptions, SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { seededRandom } from '../../src/testing/crash/random.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { seed, size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { someSteps } from './support/courses.ts'
import { type Crew, openYard, type Yard } from './support/crew.ts'

const SESSIONS = size(2, 8)
const ACTIONS = size(4, 10)
const CALM_MS = 240_000

let yard: Yard
let crew: Crew

beforeAll(async () => {
  // Executors that are killed every few seconds would never find out which tools are quick.
  process.env.PAWL_QUICK_CALLS = 'always'
  yard = await openYard()
  crew = await yard.supervised(3)
})
afterAll(async () => {
  delete process.env.PAWL_QUICK_CALLS
  await crew?.close()
  await yard?.close()
})

type Act = (session: SessionHandle, random: () => number) => Promise<unknown>

const say = (session: SessionHandle, random: () => number, options?: SendOptions): Promise<RunHandle> =>
  session.send(JSON.stringify(someSteps(random, 1 + Math.floor(random() * 2))), options)

/** Actions that may be rejected, as the session may be in any state when they are requested. */
const MAYBE_REJECTED: readonly Act[] = [
  (session) => session.interrupt({ by: 'chance' }),
  (session, random) => say(session, random, { interrupt: true }),
  async (session, random) => {
    try {
      await session.pause({ by: 'chance' })
      await say(session, random)
      if (random() < 0.5) await session.interrupt()
    } finally {
      await until('it is unpaused', () => session.unpause(), CALM_MS)
    }
  },
  (session) => session.checkpoint('by chance'),
  (session, random) => session.rollback({ run: 1 + Math.floor(random() * 3) }),
  (session, random) => session.rollback({ checkpoint: 1 + Math.floor(random() * 6) }),
  (session) => session.recover({ strategy: 'restart_run' }),
  (session) => session.recover({ strategy: 'abandon' }),
  (session) => session.close(),
]

/** Sends messages and acts on the session, and sometimes waits for a run; returns the ids of the session and its forks. */
async function live(id: string, random: () => number): Promise<string[]> {
  const ids = [id]
  let session = crew.pawl.session(id, { agent: 'trying' })
  await session.send(JSON.stringify(someSteps(random, 2)), { isNew: true })
  for (let acted = 0; acted < ACTIONS; acted++) {
    const chance = random()
    const act = MAYBE_REJECTED[Math.floor(random() * MAYBE_REJECTED.length)] ?? say
    if (chance < 0.6) {
      const run = await say(session, random)
      // Half of the time, the next action comes in the middle of the run.
      if (random() < 0.5) await run.settled({ timeout: CALM_MS })
    } else if (chance < 0.85) await act(session, random).catch(refused)
    else {
      const fork = await session.fork({ checkpoint: 1 + Math.floor(random() * 3) }).catch(refused)
      if (fork) {
        session = fork
        ids.push(fork.id)
        await say(session, random)
      }
    }
  }
  return ids
}

/** A rejection has a code, and has changed nothing. */
function refused(error: unknown): undefined {
  expect(error).toMatchObject({ code: expect.stringMatching(/^[a-z_]+$/) })
}

/** Kills processes and stops Postgres, again and again, until it is stopped. */
function startTrouble(random: () => number): { stop(): Promise<{ kills: number; outages: number }> } {
  let going = true
  const counts = { kills: 0, outages: 0 }
  const kills = (async () => {
    for (; going; counts.kills++) {
      await sleep(3_000 + random() * 5_000)
      const pids = crew.pids()
      const pid = pids[Math.floor(random() * pids.length)]
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
    }
  })()
  const outages = (async () => {
    for (; going; counts.outages++) {
      await sleep(2_000 + random() * 5_000)
      await yard.postgres.stop(random() < 0.5 ? 'crash' : 'orderly')
      await sleep(random() * 3_000)
      await yard.postgres.start()
    }
  })()
  return {
    async stop() {
      going = false
      await Promise.all([kills, outages])
      return counts
    },
  }
}

it(`the rows match in the end, whatever happens to ${SESSIONS} sessions (seed ${seed}, again with PAWL_SEED)`, {
  timeout: 600_000,
}, async () => {
  const trouble = startTrouble(seededRandom(seed))
  const lives = Array.from({ length: SESSIONS }, (_, at) => live(`random-${randomUUID()}`, seededRandom(seed + 1 + at)))
  const settled = await Promise.allSettled(lives)
  const { kills, outages } = await trouble.stop()
  const ids = settled.flatMap((one) => {
    if (one.status === 'rejected') throw one.reason
    return one.value
  })
  let matched = 0
  for (const id of ids) {
    const session = crew.pawl.session(id)
    await until(
      `session ${id} is at rest`,
      async () => {
        const { status, queued, error } = await session.state()
        // `waiting`: a person is asked about a call whose outcome is unknown.
        return status === 'waiting' || status === 'closed' || (queued === 0 && status !== 'running' && error?.strategy !== 'automatic')
      },
      CALM_MS,
    )
    const { events } = await rowsMatchEvents(yard.own, id, { timeoutMs: 90_000 })
    matched += events.length
  }
  console.log(`random sessions: ${ids.length} sessions, ${matched} events, ${kills} kills, ${outages} outages, seed ${seed}`)
  expect(kills).toBeGreaterThan(0)
  expect(outages).toBeGreaterThan(0)
})
