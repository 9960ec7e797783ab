// Bulk recovery: it recovers the sessions that a filter finds, repeats no effect, and reports the sessions that it cannot recover.
import { randomUUID } from 'node:crypto'
import { ModelError } from 'pawl'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { type OwnSchema, ownSchema } from '../support/rows.ts'
import { inOrder, type Played, resultsIn, type Scene, type Stage, stage, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { type Ended, eventsIn, runPawl } from './cli/processes.ts'
import type { BulkRecoveryOptions } from '../../src/client/admin/recovery-options.ts'

let schema: OwnSchema
let here: Deployment
let support: Stage
let billing: Stage

beforeAll(async () => {
  schema = await ownSchema(inject('stack').databaseUrl, 'bulk')
  here = await deploy({ schema: schema.name })
  const agent = { retry: { maxRetries: 0 }, recovery: { automatic: [] } }
  support = stage({ name: 'support', ...agent })
  billing = stage({ name: 'billing', ...agent })
  await here.startWorker({ agents: [support.agent, billing.agent] })
})
afterAll(async () => {
  await here?.stop()
  await schema?.close()
})

/** Sends a message, and waits until its run has failed and the store knows. */
async function failed({ session, id }: Played): Promise<void> {
  await (await session.send('go', { messageId: `go-${id}` })).settled({ timeout: 20_000 })
  await until('its error is stored', async () => (await here.pawl.sessions.get(id)).status === 'error')
}

/** Waits until the message's run has completed and the store knows. */
async function completed({ session, id }: Played): Promise<void> {
  const { text } = await session.run(`go-${id}`).result({ timeout: 20_000 })
  expect(text).toBe('done')
  await until('that is stored', async () => (await here.pawl.sessions.get(id)).status === 'idle')
}

const recoveriesOf = (id: string) => schema.query('select * from {schema}.recoveries where session_id = $1 order by seq', [id])

it('once the fix for one customer’s tool bug is deployed, one recovery resumes the affected sessions and repeats no effect', async () => {
  const taskQueue = `${here.taskQueue}-orders`
  const unreadable = '%PDF-broken'
  const orders: Scene = {
    look: (_input, ctx) => (ctx.sessionId.startsWith('acme') ? unreadable : 'order 7'),
    model(request) {
      if (resultsIn(request).some(({ content }) => content === unreadable)) {
        throw new ModelError('unreadable_document', 'the document cannot be read', { retryable: false })
      }
      return inOrder([use('pay', 'refund')], [use('look', 'order')], 'done')(request)
    },
  }
  const broken = await here.startWorker({ agents: [support.agent], taskQueue })
  const play = (name: string) => support.play(here.pawl, orders, { id: `${name}-${randomUUID()}`, tags: [`tenant:${name}`], taskQueue })
  const acme = ['acme', 'acme', 'acme'].map(play)
  const others = ['other', 'other'].map(play)
  await Promise.all(acme.map(failed))
  await Promise.all(others.map(async ({ session, id }) => session.send('go', { messageId: `go-${id}` })))
  await Promise.all(others.map(completed))
  const before = await schema.everything(others.map(({ id }) => id))

  await broken.stop()
  const fixed = stage({ name: 'support', retry: { maxRetries: 0 }, recovery: { automatic: [] } })
  const again = acme.map(({ id }) => fixed.play(here.pawl, { ...orders, look: () => 'order 7' }, { id }))
  await here.startWorker({ agents: [fixed.agent], taskQueue })
  const affected = { code: 'unreadable_document', tag: 'tenant:acme', by: 'ann' }
  expect(await here.pawl.recover({ ...affected, reason: 'the order tool is fixed' })).toMatchObject({
    sessions: 3,
    recovered: 3,
    stopped: false,
  })
  await Promise.all(acme.map(completed))
  for (const [index, { id, count }] of acme.entries()) {
    expect([count('pay'), again[index]?.count('pay')]).toEqual([1, 0])
    const { rows } = await rowsMatchEvents(here.stack, id, { schema: schema.name })
    const why = { by: 'ann', note: 'bulk recovery: the order tool is fixed' }
    expect(rows.recoveries).toMatchObject([
      { kind: 'recovery_started', strategy: 'restart_from_last_effect', outcome: 'completed', ...why },
    ])
  }
  expect(await schema.everything(others.map(({ id }) => id))).toEqual(before)
  expect(await here.pawl.recover(affected)).toMatchObject({ sessions: 0 })
})

/** Sessions of two agents with two error codes that fail until `end()`. Each but `unknown` has a completed effect. */
async function outage() {
  let isOver = false
  const tag = `outage-${randomUUID()}`
  const failWith = (code: string) => () => {
    if (isOver) return 'done'
    throw new ModelError(code, `it failed with ${code}`, { retryable: false })
  }
  const play = (at: Stage, code: string, first = use('put', 'it')): Played => {
    const wire = (): never => {
      throw new Error('the reply is lost')
    }
    return at.play(here.pawl, { model: inOrder([first], failWith(code)), wire }, { tags: [tag, code] })
  }
  const sessions = {
    overloaded: play(support, 'overloaded_error'),
    terminated: play(support, 'overloaded_error'),
    broken: play(support, 'broken'),
    billed: play(billing, 'overloaded_error'),
    /** It is not known whether its call took effect, so no strategy is suggested. */
    unknown: play(billing, 'broken', use('wire', 'money')),
  }
  await Promise.all(Object.values(sessions).map(failed))
  await here.temporal.workflow.getHandle(`pawl:${sessions.terminated.id}`).terminate('by an operator')
  return { ...sessions, tag, all: Object.values(sessions), end: () => void (isOver = true) }
}

function recover(...args: string[]): Promise<Ended> {
  const env = { TEMPORAL_ADDRESS: here.stack.temporalAddress, DATABASE_URL: here.stack.databaseUrl }
  const where = ['--schema', schema.name, '--task-queue', here.taskQueue]
  return runPawl(['recover', ...args, ...where], { cwd: '/', env })
}

async function found(filter: Partial<BulkRecoveryOptions>): Promise<string[]> {
  const ids: string[] = []
  await here.pawl.recover({ ...filter, by: 'ann', dryRun: true, onSession: ({ sessionId }) => ids.push(sessionId) })
  return ids.sort()
}

const idsOf = (...sessions: Played[]): string[] => sessions.map(({ id }) => id).sort()

describe('a dry run', () => {
  let was: Awaited<ReturnType<typeof outage>>

  beforeAll(async () => {
    was = await outage()
  })

  it('a dry run lists the sessions that the filters find, with code and suggested strategy, and changes nothing', async () => {
    const { tag, billed, unknown } = was
    const before = await schema.everything(idsOf(...was.all))
    const args = ['--code', 'overloaded_error,broken', '--agent', 'billing', '--tag', tag, '--since', '1h']
    const { code, stdout, stderr } = await recover(...args, '--dry-run')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const lines = stdout.trimEnd().split('\n')
    expect(lines).toHaveLength(3)
    expect(stdout).toMatch(new RegExp(`^${billed.id}  billing  overloaded_error  since \\S+Z  suggested: restart_from_last_effect$`, 'm'))
    expect(stdout).toMatch(new RegExp(`^${unknown.id}  billing  broken  since \\S+Z  suggested: manual$`, 'm'))
    expect(lines.at(-1)).toMatch(/^2 sessions in error: 1 \w+, 1 \w+\. Nothing has changed\.$/)
    expect(await schema.everything(idsOf(...was.all))).toEqual(before)
  })

  it('a dry run finds sessions by code, agent, tags and the time at which they went into error', async () => {
    const { tag, broken, unknown } = was
    const { at } = (await here.pawl.sessions.get(broken.id)).error!
    expect(await found({ all: true })).toEqual(expect.arrayContaining(idsOf(...was.all)))
    expect(await found({ tag })).toEqual(idsOf(...was.all))
    expect(await found({ tag, code: 'broken' })).toEqual(idsOf(broken, unknown))
    expect(await found({ tag, code: 'broken', agent: 'support' })).toEqual(idsOf(broken))
    expect(await found({ tags: [tag, 'broken'], agent: 'support', since: at })).toEqual(idsOf(broken))
    expect(await found({ tags: [tag, 'broken'], agent: 'support', until: at })).toEqual([])
    expect(await found({ tag, limit: 2 })).toHaveLength(2)
  })
})

it('a bulk recovery recovers only the sessions that the filters find, even one whose workflow has ended', async () => {
  const { tag, overloaded, terminated, broken, billed, unknown, end } = await outage()
  end()
  const { code, stdout, stderr } = await recover('--code', 'overloaded_error', '--agent', 'support', '--tag', tag, '--by', 'bob', '--json')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  const lines = eventsIn(stdout)
  const outcomes = lines.slice(0, -1).map(({ sessionId, outcome }) => `${sessionId} ${outcome}`)
  expect(outcomes.sort()).toEqual(idsOf(overloaded, terminated).map((id) => `${id} recovered`))
  expect(lines.at(-1)).toMatchObject({ event: 'recovered', sessions: 2, recovered: 2 })
  await Promise.all([overloaded, terminated].map(completed))
  for (const { count } of [overloaded, terminated]) expect(count('put')).toBe(1)
  expect(await recoveriesOf(overloaded.id)).toMatchObject([{ by: 'bob', note: 'bulk recovery', outcome: 'completed' }])
  expect(await found({ tag })).toEqual(idsOf(broken, billed, unknown))
})

it('a bulk recovery also recovers paused sessions, which take no step until they are unpaused', async () => {
  const { tag, overloaded, terminated, end } = await outage()
  const paused = [overloaded, terminated]
  for (const { session } of paused) await session.pause({ by: 'ann' })
  end()
  const asked = paused.map(({ requests }) => requests.length)
  expect(await here.pawl.recover({ tags: [tag, 'overloaded_error'], agent: 'support', by: 'bob' })).toMatchObject({ recovered: 2 })
  for (const { session } of paused) expect(await session.state()).toMatchObject({ status: 'running', error: null, paused: { by: 'ann' } })
  expect(paused.map(({ requests }) => requests.length)).toEqual(asked)
  for (const { session } of paused) await session.unpause({ by: 'ann' })
  await Promise.all(paused.map(completed))
  for (const { count } of paused) expect(count('put')).toBe(1)
})

it('a bulk recovery reports a session that is refused, and recovers the rest', async () => {
  const { tag, unknown, all, end } = await outage()
  end()
  const { code, stdout } = await recover('--tag', tag, '--by', 'bob')
  expect(code).toBe(1)
  expect(stdout).toMatch(
    new RegExp(`^refused +${unknown.id}  billing  broken  since \\S+Z  choose_strategy: No strategy is a good default`, 'm'),
  )
  expect(stdout).toMatch(/^5 sessions: 4 recovered, 0 no longer in error, 1 refused, 0 failed$/m)
  await Promise.all(all.filter((played) => played !== unknown).map(completed))
  const report = await here.pawl.recover({ tag, by: 'ann', strategy: 'abandon' })
  expect(report).toMatchObject({ sessions: 1, recovered: 1, problems: [] })
  expect(await unknown.session.state()).toMatchObject({ status: 'idle', error: null })
})

it.each<[string, string[], RegExp]>([
  ['without a session and a filter', ['--dry-run'], /^invalid_usage: No session was selected\. Name a session, or filter by --code/],
  ['with both', ['s1', '--code', 'broken'], /^invalid_usage: --code applies only to recovery in bulk, but the command names a session/],
  ['with an empty filter', ['--code', ''], /^invalid_option: `code` must be a code/],
  ['with an invalid rate', ['--all', '--rate', 'fast'], /^invalid_usage: .*--rate.* Use a number above 0\./],
])('the command is refused %s', async (_, args, message) => {
  expect(await recover(...args)).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(message) })
})
