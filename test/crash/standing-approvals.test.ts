// Processes are killed between a decision, the rule that it gives, and the calls that the rule approves: nothing is asked twice, and no use of
// a rule is lost or counted twice.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunHandle, SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import pg from 'pg'
import { size } from '../support/sizes.ts'
import { untilFound } from '../support/until.ts'
import { planText } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

let rig: Rig
let workers: Supervised[]

beforeAll(async () => {
  rig = await startRig()
  workers = await Promise.all([rig.supervise({ processes: 1 }), rig.supervise({ processes: 1 })])
})
afterAll(() => rig.close())

const PLAN = [[{ tool: 'permit', input: { name: 'a' } }]]
const open = (customer: string): SessionHandle =>
  rig.pawl.session(`crash-${randomUUID()}`, { agent: 'planned', context: { customer } as never }) as SessionHandle
const send = (session: SessionHandle) => session.send(planText(PLAN))

/** Waits until the run waits for a person, and returns the digest of its call. */
async function asked(run: RunHandle): Promise<string> {
  const settled = await run.settled({ timeout: 60_000 })
  if (settled.status !== 'waiting' || settled.pending[0]?.kind !== 'approval') return expect.fail(JSON.stringify(settled))
  return settled.pending[0].digest
}

/** Kills processes of both workers, one after another. */
function kill(isDone: () => boolean): Promise<number> {
  return (async () => {
    let kills = 0
    for (let n = 0; !isDone() && n < 12; n++) {
      const { supervisor } = workers[n % 2] ?? expect.fail('no worker')
      const pid = n % 4 < 2 ? supervisor.pids()[0] : supervisor.orchestratorPid()
      if (pid !== undefined) {
        process.kill(pid, 'SIGKILL')
        kills += 1
      }
      await sleep(400)
    }
    return kills
  })()
}

const decisionsOf = async (session: SessionHandle) => {
  const all = []
  for await (const event of session.events()) {
    if (event.type === 'approval_requested' || event.type === 'approval_decided' || event.type === 'approval_rule_given') all.push(event)
  }
  return all
}

/** Waits for the end of the run. An outcome that died with its worker is looked up. */
async function finished(session: SessionHandle, run: RunHandle): Promise<void> {
  const settled = await run.settled({ timeout: 60_000 })
  if (settled.status !== 'waiting') return expect(settled.status).toBe('completed')
  const [call] = settled.pending
  if (call?.kind !== 'unknown') return expect.fail(JSON.stringify(settled))
  await session.resolve(call.callId, { happened: true, result: 'looked up' })
  await run.result({ timeout: 60_000 })
}

const appliedIn = (session: SessionHandle): number =>
  new Set(rig.ledger.marks({ session: session.id, stage: 'applied' }).map(({ key }) => key)).size

it('a rule with three uses approves exactly three calls over two workers whose processes are killed', { timeout: 180_000 }, async () => {
  const customer = randomUUID()
  const first = open(customer)
  const run = await send(first)
  const digest = await asked(run)
  const remember = { for: 'context', matching: 'tool', uses: 3 } as const
  const { rule } = await first.approve('t_1_1_0', { digest, by: 'ann', remember })
  await finished(first, run)
  await untilFound(async () => (await rig.pawl.approvals.rules({ session: first.id })).length > 0)
  const sessions = Array.from({ length: 8 }, () => open(customer))
  let isDone = false
  const killing = kill(() => isDone)
  const runs = await Promise.all(sessions.map(send))
  const settled = await Promise.all(runs.map((one) => one.settled({ timeout: 120_000 })))
  isDone = true
  expect(await killing).toBeGreaterThan(1)
  // A call whose worker died in its body waits for a person who knows its outcome.
  const waitsForApproval = (n: number): boolean => {
    const one = settled[n]
    return one?.status === 'waiting' && one.pending.some(({ kind }) => kind === 'approval')
  }
  const byRule = sessions.filter((_, n) => !waitsForApproval(n))
  expect(byRule).toHaveLength(3)
  for (const session of byRule) {
    expect(await decisionsOf(session)).toMatchObject([{ type: 'approval_decided', approved: true, rule, by: 'ann' }])
    expect(appliedIn(session)).toBeLessThanOrEqual(1)
  }
  const others = sessions.filter((session) => !byRule.includes(session))
  for (const session of others) {
    expect(await decisionsOf(session)).toMatchObject([{ type: 'approval_requested' }])
    expect(appliedIn(session)).toBe(0)
  }
  expect((await rig.pawl.approvals.rules({ session: first.id, all: true }))[0]).toMatchObject({ used: 3, uses: 3 })
})

it('a decision whose worker is killed at once is made once, with its rule, which approves the next call', {
  timeout: 120_000,
}, async () => {
  for (const scope of ['session', 'context'] as const) {
    const session = open(randomUUID())
    const run = await send(session)
    const digest = await asked(run)
    const deciding = session.approve('t_1_1_0', { digest, by: 'ann', remember: { for: scope, matching: 'tool' } })
    for (const { supervisor } of workers) {
      const pid = supervisor.orchestratorPid()
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
    }
    const { rule } = await deciding
    await finished(session, run)
    await untilFound(async () => (await rig.pawl.approvals.rules({ session: session.id })).length > 0)
    await finished(session, await send(session))
    expect((await decisionsOf(session)).map(({ type }) => type)).toEqual([
      'approval_requested',
      'approval_decided',
      'approval_rule_given',
      'approval_decided',
    ])
    expect((await decisionsOf(session)).at(-1)).toMatchObject({ rule, callId: 't_2_1_0' })
  }
})

/** Gives a rule for the context of a customer, and returns its id once it is stored. */
async function ruleFor(customer: string, more: object = {}): Promise<string> {
  const session = open(customer)
  const run = await send(session)
  const digest = await asked(run)
  const { rule = '' } = await session.approve('t_1_1_0', { digest, by: 'ann', remember: { for: 'context', matching: 'tool', ...more } })
  await finished(session, run)
  await untilFound(async () => (await rig.pawl.approvals.rules({ session: session.id })).length > 0)
  return rule
}

const usedOf = async (rule: string): Promise<number | undefined> =>
  (await rig.pawl.approvals.rules({ all: true })).find(({ id }) => id === rule)?.used

function killAll(who: 'orchestrators' | 'executors'): void {
  for (const { supervisor } of workers) {
    for (const pid of who === 'orchestrators' ? [supervisor.orchestratorPid()] : supervisor.pids()) {
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
    }
  }
}

async function connected(): Promise<pg.Client> {
  const client = new pg.Client(inject('stack').databaseUrl)
  await client.connect()
  return client
}

it('a rule that is being looked up when processes are killed is used once, and its call is not asked about', {
  timeout: 120_000,
}, async () => {
  const client = await connected()
  try {
    for (const who of ['orchestrators', 'executors'] as const) {
      const customer = randomUUID()
      const rule = await ruleFor(customer)
      // The use waits for this transaction, and with it the activity.
      await client.query('begin')
      await client.query('select 1 from pawl.approval_rules where id = $1 for update', [rule])
      const session = open(customer)
      const run = await send(session)
      await untilFound(async () => {
        // Within a transaction, the view does not change otherwise.
        await client.query('select pg_stat_clear_snapshot()')
        const { rows } = await client.query(
          `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%approval_rules%' and datname = current_database()`,
        )
        return rows.length > 0
      })
      killAll(who)
      await client.query('rollback')
      await finished(session, run)
      expect(await decisionsOf(session)).toMatchObject([{ type: 'approval_decided', approved: true, rule, by: 'ann' }])
      expect(appliedIn(session)).toBeLessThanOrEqual(1)
      expect(await usedOf(rule)).toBe(1)
    }
  } finally {
    await client.end()
  }
})

it('a use that is counted when the orchestrator is killed is not counted again', { timeout: 120_000 }, async () => {
  const client = await connected()
  try {
    await client.query(
      `create function pawl.tell_use() returns trigger language plpgsql as $$ begin perform pg_notify('used', new.rule_id); return null; end $$;
       create trigger tell_use after insert on pawl.approval_uses for each row execute function pawl.tell_use(); listen used`,
    )
    const customer = randomUUID()
    const rule = await ruleFor(customer, { uses: 2 })
    // The notification comes with the commit, before the worker can have told Temporal.
    client.once('notification', () => killAll('orchestrators'))
    for (const session of [open(customer), open(customer)]) {
      await finished(session, await send(session))
      expect(await decisionsOf(session)).toMatchObject([{ type: 'approval_decided', approved: true, rule }])
    }
    expect(await usedOf(rule)).toBe(2)
  } finally {
    await client.query('drop function if exists pawl.tell_use() cascade')
    await client.end()
  }
})

it('a rule releases each call that waits in its context once, although orchestrators are killed meanwhile', {
  timeout: size(180_000, 400_000),
}, async () => {
  const customer = randomUUID()
  const waiting: { session: SessionHandle; run: RunHandle }[] = []
  for (let n = 0; n < size(6, 40); n++) {
    const session = open(customer)
    const run = await send(session)
    await asked(run)
    waiting.push({ session, run })
  }
  await untilFound(async () => {
    const { items } = await rig.pawl.pending.list({ agent: 'planned', limit: 200 })
    return waiting.every(({ session }) => items.some(({ sessionId }) => sessionId === session.id))
  })
  const first = open(customer)
  const run = await send(first)
  const digest = await asked(run)
  let isDone = false
  const { rule = '' } = await first.approve('t_1_1_0', { digest, by: 'ann', remember: { for: 'context', matching: 'tool' } })
  const killing = kill(() => isDone)
  await finished(first, run)
  for (const one of waiting) {
    await untilFound(async () => {
      const { current } = await one.session.state()
      return !current?.calls.some(({ status }) => status === 'awaiting_approval')
    })
    await finished(one.session, one.run)
  }
  isDone = true
  expect(await killing).toBeGreaterThan(1)
  for (const { session } of waiting) {
    expect(await decisionsOf(session)).toMatchObject([{ type: 'approval_requested' }, { type: 'approval_decided', approved: true, rule }])
    expect(appliedIn(session)).toBeLessThanOrEqual(1)
  }
  await untilFound(async () => (await usedOf(rule)) === waiting.length)
})
