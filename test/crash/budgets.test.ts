// Budgets when processes die in mid-answer: a metered provider never bills more than the budget.
import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import type { RunHandle, SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { linesOfReport } from '../../src/cli/reporting.ts'
import { runPawl } from '../integration/cli/processes.ts'
import { seededRandom } from '../../src/testing/crash/random.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type MeteredProvider, meteredProvider, type Piece } from '../support/metered-provider.ts'
import { seed, size } from '../support/sizes.ts'
import { gate, until } from '../support/until.ts'
import { type Compiled, compile } from './support/build.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

let rig: Rig
let fixtures: Compiled
let workers: Supervised
let provider: MeteredProvider

/** The budget of each session that spends all of it, in US dollars. */
const BUDGET = size(0.6, 1)

beforeAll(async () => {
  provider = await meteredProvider()
  process.env.SPENDERS_BUDGET = String(BUDGET)
  process.env.PROVIDER_URL = provider.url
  fixtures = await compile(['test/crash/fixtures/spenders.ts'])
  rig = await startRig()
  workers = await rig.supervise({ module: fixtures.path('spenders'), processes: 2 })
})
beforeEach(async () => {
  provider.beforePiece = () => undefined
  await workers.serving(2)
})
afterAll(async () => {
  await rig?.close()
  await fixtures?.remove()
  await provider?.close()
})

/** The price of one token of an answer, in US dollars. */
const TOKEN = 0.0001
/** The most that is set aside for an answer. */
const RESERVED = 1_500 * TOKEN
/** What is counted for an interrupted answer besides the part that was seen: what may have been under way, and what was sent. */
const UNSEEN = 256 * TOKEN + 0.02

const start = (agent: string): SessionHandle => rig.pawl.session(`budgets-${randomUUID()}`, { agent }) as SessionHandle
const orchestrator = (): number => workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator')

/** Calls `kill` once, when the provider has sent this many tokens of the session's first answer. */
function killAt(session: string, tokens: number, kill: (piece: Piece) => void): void {
  let isDone = false
  provider.beforePiece = (piece) => {
    if (isDone || piece.session !== session || piece.sent < tokens) return
    isDone = true
    kill(piece)
  }
}

describe('while a model answers', () => {
  it('an executor that dies while a model answers is charged for what was streamed and for what may have been under way', async () => {
    const session = start('once')
    killAt(session.id, 300, ({ pid }) => process.kill(pid, 'SIGKILL'))
    await (await session.send('look')).result()
    const [failed] = ofType(await eventsOf(session), 'model_attempt_failed')
    expect(failed?.error).toMatchObject({ class: 'WorkerDied', spent: { usd: expect.any(Number) } })
    expect(failed?.error.spent?.assumed).toBeUndefined()
    const { usd } = failed?.error.spent ?? expect.fail('nothing was spent')
    expect(usd).toBeGreaterThanOrEqual(300 * TOKEN)
    expect(usd).toBeLessThanOrEqual(320 * TOKEN + UNSEEN)
    const { spend } = await session.state()
    expect(spend?.usd).toBeGreaterThanOrEqual(provider.bill(session.id).usd)
    expect(provider.bill(session.id).calls).toBe(2)
  })

  describe('if the orchestrator dies', () => {
    let answered: SessionHandle
    let bereft: SessionHandle

    // One session is answered meanwhile. The other one is held; its executor dies, too, once the next orchestrator has adopted the call.
    beforeAll(async () => {
      await workers.serving()
      ;[answered, bereft] = [start('once'), start('once')]
      const door = gate()
      let asker = 0
      provider.beforePiece = async ({ session, sent, pid }) => {
        if (session !== bereft.id || sent !== 200 || asker !== 0) return
        asker = pid
        await door.pass()
      }
      const run = await bereft.send('look')
      await door.reached
      const from = workers.events.length
      let killedAt = Infinity
      killAt(answered.id, 200, () => {
        killedAt = Date.now()
        process.kill(orchestrator(), 'SIGKILL')
      })
      await (await answered.send('look')).result()
      await until('another one serves', () => workers.events.slice(from).some(({ event }) => event === 'orchestrator_ready'))
      await until('it has adopted the call', async () => (await rig.lastHeartbeat(bereft.id)) > killedAt)
      process.kill(asker, 'SIGKILL')
      door.open()
      await run.result()
    })

    it('an orchestrator that dies while a model answers costs nothing more: the answer is counted once', async () => {
      expect(ofType(await eventsOf(answered), 'model_attempt_failed')).toEqual([])
      expect((await answered.state()).spend?.usd).toBeCloseTo(provider.bill(answered.id).usd, 9)
      expect(provider.bill(answered.id).calls).toBe(1)
    })

    it('the streamed part of an answer counts even if its executor dies after the orchestrator', async () => {
      const [failed] = ofType(await eventsOf(bereft), 'model_attempt_failed')
      expect(failed?.error.spent?.usd).toBeGreaterThanOrEqual(200 * TOKEN)
      expect((await bereft.state()).spend?.usd).toBeGreaterThanOrEqual(provider.bill(bereft.id).usd)
    })
  })

  describe('if its executor and the orchestrator die together', () => {
    let roomy: SessionHandle
    let tight: SessionHandle
    let paused: RunHandle

    beforeAll(async () => {
      await workers.serving()
      ;[roomy, tight] = [start('once'), start('tight')]
      const askers = new Map<string, number>()
      provider.beforePiece = async ({ session, sent, pid }) => {
        if (sent !== 100 || askers.has(session)) return
        askers.set(session, pid)
        if (askers.size < 2) return until('both are answered', () => askers.size === 2).then(() => undefined)
        for (const asker of askers.values()) kill(asker)
        kill(orchestrator())
      }
      const [run, other] = await Promise.all([roomy.send('look'), tight.send('look')])
      paused = other
      await run.result()
    })

    it('a model call whose executor and orchestrator die together is assumed to have cost all that was set aside', async () => {
      const [failed] = ofType(await eventsOf(roomy), 'model_attempt_failed')
      expect(failed?.error.spent).toMatchObject({ assumed: true, usd: expect.any(Number) })
      expect(failed?.error.spent?.usd).toBeGreaterThanOrEqual(RESERVED)
      expect((await roomy.state()).spend?.assumed?.usd).toBe(failed?.error.spent?.usd)
    })

    it('a session pauses until its limit is raised if the assumed cost of a lost model call leaves too little', async () => {
      const state = await until('it is paused', async () => {
        const now = await tight.state()
        return now.paused && now
      })
      expect(state).toMatchObject({ status: 'running', error: null, paused: { by: 'pawl', code: 'budget_assumed' } })
      expect(provider.bill(tight.id).usd).toBeLessThan(0.2)
      const report = await tight.status()
      const [raise] = report.waitsFor[0]?.raise ?? expect.fail('no limit is suggested')
      expect(report.waitsFor[0]).toMatchObject({ for: 'person', to: 'raise', raise: [{ scope: 'run', maxUsd: expect.any(Number) }] })
      const lines = linesOfReport(report).join('\n')
      expect(lines).toContain(`pawl raise ${tight.id} --scope run --max-usd ${raise?.maxUsd}`)
      expect(lines).not.toContain('pawl unpause')
      const listed = await until('it is listed', async () =>
        (await rig.pawl.overview({ limit: 1_000 })).items.find((one) => one.sessionId === tight.id && one.paused),
      )
      expect(listed).toMatchObject({ needs: 'unpausing', paused: { code: 'budget_assumed', raise: [raise] } })
      // Unpaused without a higher limit, it would be paused again.
      const { temporalAddress, databaseUrl } = inject('stack')
      const refused = await runPawl(['unpause', tight.id], {
        cwd: tmpdir(),
        env: { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl },
      })
      expect([refused.code, refused.stderr]).toEqual([
        1,
        expect.stringContaining(`\`pawl raise ${tight.id} --scope run --max-usd ${raise?.maxUsd}\``),
      ])
      expect(ofType(await eventsOf(tight), 'session_unpaused')).toEqual([])
      await tight.raise({ ...raise, by: 'ann' })
      expect((await paused.result()).run).toBe(1)
      expect((await tight.state()).paused).toBeUndefined()
    })
  })
})

const SESSIONS = size(3, 200)
const AT_ONCE = 6

it(`${SESSIONS} sessions never exceed ${BUDGET} USD while processes are killed at random (seed ${seed}, again with PAWL_SEED)`, async () => {
  const random = seededRandom(seed)
  const below = (n: number): number => Math.floor(random() * n)
  /** By session: at which of its calls, after how many tokens, and which process. */
  const kills = new Map<string, { call: number; tokens: number; whom: 'executor' | 'orchestrator' | 'both' }[]>()
  let killed = 0
  provider.beforePiece = ({ session, call, sent, pid }) => {
    const [next, ...later] = kills.get(session) ?? []
    if (!next || call < next.call || (call === next.call && sent < next.tokens)) return
    kills.set(session, later)
    killed += 1
    if (next.whom !== 'orchestrator') kill(pid)
    if (next.whom !== 'executor') kill(workers.supervisor.orchestratorPid())
  }

  async function spendAll(): Promise<{ killedHere: number; assumed: number; left: number }> {
    const session = start('on-and-on')
    const plan = Array.from({ length: 1 + below(3) }, () => ({
      call: 1 + below(size(8, 14)),
      tokens: 20 * below(30),
      whom: below(10) === 0 ? ('both' as const) : below(3) === 0 ? ('orchestrator' as const) : ('executor' as const),
    }))
    kills.set(
      session.id,
      plan.toSorted((one, other) => one.call - other.call || one.tokens - other.tokens),
    )
    await session.send('look')
    const state = await until(
      'the budget is exhausted',
      async () => {
        const now = await session.state()
        return (now.error?.code === 'budget_exhausted' || now.paused) && now
      },
      240_000,
    )
    const { usd: billed } = provider.bill(session.id)
    const { usd: counted, assumed } = state.spend ?? expect.fail('nothing was spent')
    const failed = ofType(await eventsOf(session), 'model_attempt_failed')
    const about = `${session.id}: ${billed} billed, ${counted} counted, ${failed.length} failed attempts`
    expect(billed, about).toBeLessThanOrEqual(BUDGET)
    expect(counted, about).toBeLessThanOrEqual(BUDGET)
    expect(counted, about).toBeGreaterThanOrEqual(billed - 1e-9)
    // The rest has no room for another call, and the overcount is at most what each lost attempt may have cost.
    expect(BUDGET - counted, about).toBeLessThan(RESERVED)
    expect(counted - billed, about).toBeLessThanOrEqual((assumed?.usd ?? 0) + failed.length * UNSEEN)
    if (state.paused) expect(assumed, about).toBeDefined()
    return { killedHere: plan.length, assumed: assumed?.usd ?? 0, left: BUDGET - billed }
  }

  const outcomes: Awaited<ReturnType<typeof spendAll>>[] = []
  let begun = 0
  await Promise.all(
    Array.from({ length: Math.min(AT_ONCE, SESSIONS) }, async () => {
      while (begun++ < SESSIONS) outcomes.push(await spendAll())
    }),
  )
  const largest = Math.max(...outcomes.map(({ left }) => left))
  const assumed = outcomes.filter((one) => one.assumed > 0).length
  console.log(
    `budgets: ${SESSIONS} sessions, ${killed} kills, ${assumed} with assumed costs, at most ${largest.toFixed(3)} USD left, seed ${seed}`,
  )
  expect(killed).toBeGreaterThan(0)
})

/** Kills a process, which may already be dead. */
function kill(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(pid, 'SIGKILL')
  } catch {
    // It was killed for another session.
  }
}
