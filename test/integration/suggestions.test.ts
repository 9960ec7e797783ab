// Every command that pawl suggests, run as it is printed, in the situation that prints it. An entry of SUGGESTIONS without a situation
// does not compile, and fails.
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Agent, defineAgent, ModelError } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { z } from 'zod'
import { SUGGESTIONS } from '../../src/session/suggestions.ts'
import { approvalStage, once } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { inOrder, type Scene, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { type Ended, pawl as startPawl, runPawl } from './cli/processes.ts'

const MODULE = fileURLToPath(new URL('./fixtures/suggestions/agents.mjs', import.meta.url))
const SETTLED = { timeout: 30_000 }
const NO_RECOVERY = { recovery: { automatic: [] } } as const
const TINY = 0.000_001

const player = stage({ name: 'player', retry: { maxRetries: 0 }, ...NO_RECOVERY })
const helped = approvalStage()
const poor = stage({ name: 'poor', limits: { maxUsd: TINY }, ...NO_RECOVERY }, { price: { input: 1, output: 5 } })
const thrifty = stage({ name: 'thrifty', sessionLimits: { maxTotalTokens: 100 }, ...NO_RECOVERY })
const needy = defineAgent({
  name: 'needy',
  instructions: 'Help.',
  context: z.object({ tenant: z.string() }),
  model: scripted(() => 'hello'),
})

const schema = `suggested_${randomUUID().replaceAll('-', '').slice(0, 12)}`
let here: Deployment
let folder: string
let database: pg.Client

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-suggestions-'))
  database = new pg.Client(inject('stack').databaseUrl)
  await database.connect()
  here = await deploy({ schema })
  await here.startWorker({ agents: [player, helped, poor, thrifty].map(({ agent }) => agent).concat(needy as Agent) })
})
afterAll(async () => {
  await here?.stop()
  await database?.query(`drop schema if exists ${schema} cascade; drop schema if exists ${schema}_new cascade`)
  await database?.end()
  await rm(folder, { recursive: true, force: true })
})

interface How {
  /** What the reader fills in for a placeholder. */
  fill?: Readonly<Record<string, string>>
  /** Selects the deployment, which a person would have configured. Default: its Postgres schema. */
  where?: string[]
  env?: Record<string, string>
  input?: string
}

const onQueue = (): string[] => ['--schema', schema, '--task-queue', here.taskQueue]

/** The words of a command as a shell reads them, without `pawl`. */
function wordsOf(command: string, fill: Readonly<Record<string, string>>): string[] {
  const words = (command.match(/'[^']*'|\S+/g) ?? []).slice(1).map((word) => word.replace(/^'|'$/g, ''))
  return words.map((word) => fill[word] ?? word)
}

async function run(command: string, { fill = {}, where = ['--schema', schema], env = {}, input }: How = {}): Promise<Ended> {
  const { temporalAddress, databaseUrl } = inject('stack')
  const place = { cwd: folder, env: { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl, ...env } }
  const words = [...wordsOf(command, fill), ...where]
  if (input === undefined) return runPawl(words, place)
  return startPawl(words, { ...place, input }).ended
}

/** Runs a command that was printed, exactly as it was, and expects it to succeed. */
async function follow(printed: string, command: string, how: How = {}): Promise<string> {
  expect(printed).toContain(command)
  const { code, stdout, stderr } = await run(command, how)
  expect({ command, code, stderr }).toEqual({ command, code: 0, stderr: '' })
  return stdout
}

const said = ({ stdout, stderr }: Ended): string => stdout + stderr
const statusOf = async (session: string): Promise<string> => said(await run(`pawl status ${session}`))

/** One effect, and then a model that fails until it is fixed. */
function broken(): Scene & { fix(): void } {
  let isFixed = false
  return {
    fix: () => void (isFixed = true),
    model: (request) => {
      const answer = inOrder([use('put', 'it'), use('look', 'here')], 'done')(request)
      if (answer !== 'done' || isFixed) return answer
      throw new ModelError('broken', 'it is broken', { retryable: false })
    },
  }
}

async function failed(scene: Scene = broken()): Promise<SessionHandle> {
  const { session } = player.play(here.pawl, scene)
  await (await session.send('go')).settled(SETTLED)
  return stored(session)
}

async function stored(session: SessionHandle): Promise<SessionHandle> {
  await until('all is stored', async () => (await session.status()).behind === 0)
  return session
}

/** The reply to the first `post` is lost. */
function lostOnce(): (tool: string) => undefined {
  let isLost = false
  return (tool) => {
    if (tool !== 'post' || isLost) return undefined
    isLost = true
    throw new Error('reply lost')
  }
}

/** A session whose calls wait for people and clients. */
async function waiting(...calls: Parameters<typeof once>): Promise<SessionHandle> {
  const { session } = helped.play(here.pawl, {
    model: once(...calls),
    body: lostOnce(),
  })
  await (await session.send('go')).settled(SETTLED)
  return stored(session)
}

const statusIs = (session: SessionHandle, status: string) => until(`it is ${status}`, async () => (await session.state()).status === status)

async function refusal(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => expect.fail('it was not refused'),
    (error: Error) => error.message,
  )
}

const call = (session: SessionHandle) => ({ session: session.id, callId: 't_1_1_0' })

/** What recovers a failed run, for a strategy of its own session. */
async function recoverBy(strategy: 'continue_run' | 'restart_from_last_effect' | 'restart_run' | 'abandon'): Promise<void> {
  const scene = broken()
  const session = await failed(scene)
  const printed = await statusOf(session.id)
  scene.fix()
  await follow(printed, SUGGESTIONS.recover({ session: session.id, strategy }))
  await statusIs(session, 'idle')
}

const SITUATIONS: Record<keyof typeof SUGGESTIONS, () => Promise<void>> = {
  async develop() {
    const printed = said(await run('pawl keys list', { where: [], env: { DATABASE_URL: '', TEMPORAL_ADDRESS: '' } }))
    expect(printed).toContain(SUGGESTIONS.develop())
    // It is run by cli.test.ts, with a stack of its own; here, that it accepts these arguments.
    expect((await run(`${SUGGESTIONS.develop()} --help`, { where: [] })).code).toBe(0)
    expect(said(await run('pawl dev', { where: [] }))).toMatch(/missing required argument 'module'/)
  },
  async startWorker() {
    const queue = `unserved-${randomUUID()}`
    const session = (await here.connect({ taskQueue: queue })).session(undefined, { agent: 'echo' })
    const sent = await session.send('hello')
    const where = ['--schema', schema, '--task-queue', queue]
    const printed = said(await run('pawl status', { where }))
    // As it must be typed here: on this queue, with this schema.
    const command = `${SUGGESTIONS.startWorker()} --task-queue ${queue} --schema ${schema}`
    expect(printed).toContain(command)
    const { temporalAddress, databaseUrl } = inject('stack')
    const words = [...wordsOf(command, { '<module>': MODULE }), '--processes', '1']
    const worker = startPawl(words, { cwd: folder, env: { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl } })
    try {
      expect((await sent.result(SETTLED)).text).toBe('hello')
    } finally {
      worker.kill('SIGTERM')
      await worker.ended
    }
  },
  async examine() {
    const session = (await here.connect({ taskQueue: 'nobody-polls-this-one' })).session(undefined, { agent: 'player' })
    await session.send('hello')
    const where = ['--task-queue', 'nobody-polls-this-one', '--schema', schema]
    const printed = await until('it waits for a worker', async () => {
      const text = said(await run(`pawl status ${session.id}`, { where }))
      return text.includes('a worker on task queue') && text
    })
    const command = `${SUGGESTIONS.examine()} ${where.join(' ')}`
    expect(printed).toContain(command)
    const examined = said(await run(command, { where: [] }))
    expect(examined).toMatch(/fail +workers +no worker polls "nobody-polls-this-one"/)
    expect(examined).toContain(`${SUGGESTIONS.startWorker()} ${where.join(' ')}`)
    await here.temporal.workflow.getHandle(`pawl:${session.id}`).terminate()
  },
  async migrate() {
    const where = ['--schema', `${schema}_new`]
    const printed = said(await run('pawl errors', { where }))
    await follow(printed, SUGGESTIONS.migrate(), { where })
    expect((await run('pawl errors', { where })).code).toBe(0)
  },
  async moveNamespace() {
    await until('the schema is claimed', async () => (await run('pawl doctor', { where: onQueue() })).stdout.includes('of namespace'))
    const printed = said(await run('pawl doctor', { where: onQueue(), env: { TEMPORAL_NAMESPACE: 'pawl-other' } }))
    // Moved to the namespace that they already belong to: nothing else may use this schema meanwhile.
    expect(printed).toContain(SUGGESTIONS.moveNamespace('pawl-other'))
    const { namespace } = inject('stack')
    expect((await run(SUGGESTIONS.moveNamespace(namespace))).code).toBe(0)
  },
  async grantRole() {
    const role = `reader_${randomUUID().replaceAll('-', '').slice(0, 12)}`
    await database.query(`create role ${role} login password 'secret'`)
    try {
      const url = new URL(inject('stack').databaseUrl)
      Object.assign(url, { username: role, password: 'secret' })
      const printed = said(await run('pawl errors', { env: { DATABASE_URL: url.href } }))
      await follow(printed, SUGGESTIONS.grantRole(), { fill: { '<role>': role } })
      expect((await run('pawl errors', { env: { DATABASE_URL: url.href } })).code).toBe(0)
    } finally {
      await database.query(`drop owned by ${role}; drop role ${role}`)
    }
  },
  async listGates() {
    await follow(said(await run('pawl gates open nobody')), SUGGESTIONS.listGates())
  },
  async listRules() {
    await follow(said(await run('pawl approvals revoke ar_none')), SUGGESTIONS.listRules())
  },
  async openGate() {
    const account = `it's shut ${randomUUID()}`
    await database.query(`insert into ${schema}.gates (key, shut_until, by) values ($1, now() + interval '10 minutes', 'a worker')`, [
      account,
    ])
    const printed = said(await run('pawl gates'))
    // Where a shell needs the quotation marks, the test's own shell does without them.
    expect(printed).toContain(SUGGESTIONS.openGate(account))
    const { code, stdout } = await run('pawl gates open <account>', { fill: { '<account>': account } })
    expect({ code, stdout }).toEqual({ code: 0, stdout: `The gate of ${account} is open.\n` })
    expect(said(await run('pawl gates'))).toContain('no gate is shut')
  },
  async listWorkers() {
    await follow(said(await run('pawl workers', { where: [] })), SUGGESTIONS.listWorkers(), { where: onQueue() })
  },
  async listKeys() {
    await follow(said(await run('pawl keys revoke no-such-key')), SUGGESTIONS.listKeys())
  },
  async createKey() {
    const where = ['--schema', `${schema}_keys`]
    await run('pawl migrate', { where })
    expect(said(await run('pawl keys list', { where }))).toContain(SUGGESTIONS.createKey())
    // It prints on standard error that the key is shown once.
    expect((await run(SUGGESTIONS.createKey(), { where, fill: { '<name>': 'web' } })).code).toBe(0)
    expect(said(await run('pawl keys list', { where }))).toContain('web')
    await database.query(`drop schema ${schema}_keys cascade`)
  },
  async listWebhooks() {
    await follow(said(await run('pawl webhooks remove no-such-webhook')), SUGGESTIONS.listWebhooks())
  },
  async createWebhook() {
    const where = ['--schema', `${schema}_webhooks`]
    await run('pawl migrate', { where })
    expect(said(await run('pawl webhooks list', { where }))).toContain(SUGGESTIONS.createWebhook())
    // It prints on standard error that the secret is shown once.
    expect((await run(SUGGESTIONS.createWebhook(), { where, fill: { '<url>': 'https://example.com/pawl' } })).code).toBe(0)
    expect(said(await run('pawl webhooks list', { where }))).toContain('https://example.com/pawl')
    await database.query(`drop schema ${schema}_webhooks cascade`)
  },
  async resumeWebhook() {
    const { stdout } = await run('pawl webhooks create https://example.com/pawl --json')
    const { id } = JSON.parse(stdout) as { id: string }
    const printed = said(await run(`pawl webhooks pause ${id}`))
    expect(await follow(printed, SUGGESTIONS.resumeWebhook(id))).toBe(`Webhook ${id} is active.\n`)
    await run(`pawl webhooks remove ${id}`)
  },
  async redeliver() {
    const { stdout } = await run('pawl webhooks create https://example.com/pawl --json')
    const { id } = JSON.parse(stdout) as { id: string }
    await run(`pawl webhooks pause ${id}`)
    await database.query(
      `insert into ${schema}.webhook_deliveries (webhook_id, session_id, seq, agent, type, happened_at, facts, attempts, given_up_at)
       values ($1, 'customer-42', 7, 'support', 'session.error', now(), '{}', 13, now())`,
      [id],
    )
    const printed = said(await run(`pawl webhooks deliveries ${id} --given-up`))
    expect(await follow(printed, SUGGESTIONS.redeliver(id))).toBe('1 notification is sent again.\n')
    await run(`pawl webhooks remove ${id}`)
  },
  async listErrors() {
    await failed({ ...broken(), look: () => expect.fail('down') })
    const printed = said(await run('pawl doctor', { where: onQueue() }))
    for (const of of ['all', 'model'] as const) expect(await follow(printed, SUGGESTIONS.listErrors(of))).toMatch(/broken: it is broken/)
  },
  async listSessions() {
    await failed()
    const printed = said(await run('pawl doctor', { where: onQueue() }))
    expect(await follow(printed, SUGGESTIONS.listSessions(), { where: onQueue() })).toMatch(/ needs? a person/)
  },
  async statusOf() {
    const { id } = await failed()
    await follow(said(await run('pawl status', { where: onQueue() })), SUGGESTIONS.statusOf(), { fill: { '<session>': id } })
    expect(said(await run(`pawl recover ${id} --code broken`, { where: onQueue() }))).toContain(SUGGESTIONS.statusOf(id))
    await follow(SUGGESTIONS.statusOf(id), SUGGESTIONS.statusOf(id))
  },
  async show() {
    const session = (await here.connect({ taskQueue: 'nobody-polls-this-one' })).session(undefined, { agent: 'player' })
    await session.send('hello')
    const printed = said(await run(`pawl messages ${session.id}`))
    expect(printed).toContain(SUGGESTIONS.show(session.id))
    expect(said(await run(SUGGESTIONS.show(session.id)))).toMatch(/waits for +a worker on task queue "nobody-polls-this-one"/)
    await here.temporal.workflow.getHandle(`pawl:${session.id}`).terminate()
  },
  async chat() {
    const how = { where: onQueue(), fill: { '<agent>': 'needy' }, input: '' }
    await follow(said(await run('pawl chat', { where: onQueue() })), SUGGESTIONS.chat(), how)
  },
  async chatWithContext() {
    const session = here.pawl.session(undefined, { agent: needy as Agent })
    await (await session.send('hello')).settled(SETTLED)
    const printed = await statusOf(session.id)
    expect(printed).not.toContain('restart_run')
    await follow(printed, SUGGESTIONS.recover({ session: session.id, strategy: 'abandon' }))
    const how = { where: onQueue(), fill: { '<JSON>': '{"tenant":"acme"}' }, input: 'hello\n' }
    expect(await follow(printed, SUGGESTIONS.chatWithContext('needy'), how)).toMatch(/needy › hello/)
  },
  async resumeChat() {
    const { id } = await failed()
    const other = said(await run(`pawl chat helped --resume ${id}`, { where: onQueue(), input: '' }))
    await follow(other, SUGGESTIONS.resumeChat({ agent: 'player', session: id }), { where: onQueue(), input: '' })
    const unnamed = said(await run('pawl chat', { where: onQueue() }))
    await follow(unnamed, SUGGESTIONS.resumeChat({ session: '<session>' }), { where: onQueue(), fill: { '<session>': id }, input: '' })
  },
  async listCheckpoints() {
    const { id } = await failed()
    for (const command of [`pawl rollback ${id}`, `pawl rollback ${id} --checkpoint 99`, `pawl fork ${id} --checkpoint 99`]) {
      await follow(said(await run(command)), SUGGESTIONS.listCheckpoints(), { fill: { '<session>': id } })
    }
  },
  async listArchived() {
    const { session, id } = player.play(here.pawl, {})
    await (await session.send('go')).result(SETTLED)
    await session.close()
    await here.workflowEnded(id)
    await database.query(`update "${schema}".sessions set updated_at = $2, flushed_at = $2 where session_id = $1`, [id, '2026-01-01'])
    await run('pawl prune --older-than 30d')
    expect(await follow(said(await run(`pawl messages ${id}`)), SUGGESTIONS.listArchived(id))).toMatch(/go/)
  },
  async rollback() {
    const { session, id } = player.play(here.pawl, {})
    await (await session.send('go')).result(SETTLED)
    const printed = said(await run(`pawl checkpoint ${id}`))
    const [, version] = /--checkpoint (\d+)/.exec(printed) ?? []
    await follow(printed, SUGGESTIONS.rollback({ session: id, checkpoint: Number(version) }))
  },
  async close() {
    const { session, id } = player.play(here.pawl, {})
    await (await session.send('go')).result(SETTLED)
    await follow(said(await run(`pawl erase ${id} --by ops`)), SUGGESTIONS.close(id))
    await statusIs(session, 'closed')
    await follow(`pawl erase ${id} --by ops`, `pawl erase ${id} --by ops`)
  },
  async interrupt() {
    const door = gate()
    const { session, id } = player.play(here.pawl, { model: once(['look', 'it']), look: (_, { signal }) => door.pass(signal) })
    await session.send('go')
    await door.reached
    await follow(said(await run(`pawl close ${id}`)), SUGGESTIONS.interrupt(id))
    await statusIs(session, 'closed')
  },
  async resume() {
    const door = gate()
    const { session, id } = player.play(here.pawl, { model: once(['look', 'it']), look: (_, { signal }) => door.pass(signal) })
    await session.send('go')
    await door.reached
    await until('the call is stored', async () => (await session.toolCalls().catch(() => [])).length === 1)
    await here.temporal.workflow.getHandle(`pawl:${id}`).terminate()
    door.open()
    await follow(await statusOf(id), SUGGESTIONS.resume(id), { where: onQueue() })
    await statusIs(session, 'idle')
  },
  async unpause() {
    const { session, id } = player.play(here.pawl, {})
    await (await session.send('go')).result(SETTLED)
    await session.pause()
    await follow(await statusOf(id), SUGGESTIONS.unpause(id))
    expect((await session.state()).paused ?? null).toBeNull()
  },
  async scheduled() {
    const { session, id } = player.play(here.pawl, {})
    await session.send('later', { messageId: 'm-later', delay: '1h' })
    await until('it is scheduled', async () => (await session.scheduled()).length === 1)
    const printed = said(await run(`pawl close ${id}`))
    expect(await follow(printed, SUGGESTIONS.scheduled({ session: id }))).toMatch(/m-later/)
  },
  async listBudgets() {
    const { id } = await here.pawl.budgets.set({ agent: 'nobody', maxUsd: 1, per: 'day' })
    await database.query(`insert into ${schema}.spend (session_id, seq, agent, at, usd) values ('gone', 1, 'nobody', now(), 2)`)
    const printed = said(await run('pawl doctor', { where: onQueue() }))
    expect(printed).toContain(`exhausted: ${id} (2.00 of 1 USD)`)
    expect(await follow(printed, SUGGESTIONS.listBudgets())).toContain(id)
  },
  async listSchedules() {
    const printed = said(await run('pawl schedules delete none-such'))
    await follow(printed, SUGGESTIONS.listSchedules())
  },
  async listCalls() {
    const puts = Array.from({ length: 101 }, (_, n) => use('put', `thing ${n}`))
    const { session, id } = player.play(here.pawl, { model: inOrder(puts, 'done') })
    await session.send('hello')
    await until('all is done', async () => (await session.state()).status === 'idle', 60_000)
    const printed = said(await run(`pawl rollback ${id} --run 1`))
    expect(await follow(printed, SUGGESTIONS.listCalls(id))).toMatch(/put/)
  },
  async listPending() {
    const session = await waiting(['pay', 'it'])
    const unknown = await refusal(session.approve('t_9_9_9', { digest: 'x' }))
    await follow(unknown, SUGGESTIONS.listPending())
    expect(await refusal(session.recover())).toContain(SUGGESTIONS.listPending())
  },
  async approve() {
    const session = await waiting(['pay', 'it'])
    const printed = await statusOf(session.id)
    const [, digest] = /--digest (\S+)/.exec(printed) ?? []
    await follow(printed, SUGGESTIONS.approve({ ...call(session), digest }))
    await statusIs(session, 'idle')
  },
  async deny() {
    const session = await waiting(['pay', 'it'])
    const printed = await statusOf(session.id)
    const [, digest] = /--digest (\S+)/.exec(printed) ?? []
    await follow(printed, SUGGESTIONS.deny({ ...call(session), digest }))
    await statusIs(session, 'idle')
  },
  async answer() {
    const session = await waiting(['form', 'it'])
    await follow(await statusOf(session.id), SUGGESTIONS.answer(call(session)), { fill: { '<answer as JSON>': '{"agreed":true}' } })
    await statusIs(session, 'idle')
  },
  async resolveHappened() {
    const session = await waiting(['post', 'it'])
    const how = { fill: { '<what the tool would have returned, as JSON>': '{"receipt":7}' } }
    await follow(await statusOf(session.id), SUGGESTIONS.resolveHappened(call(session)), how)
    await statusIs(session, 'idle')
  },
  async resolveNotHappened() {
    const session = await waiting(['post', 'it'])
    await follow(await statusOf(session.id), SUGGESTIONS.resolveNotHappened(call(session)))
    await statusIs(session, 'idle')
  },
  async resolveRetry() {
    const session = await waiting(['post', 'it'])
    await follow(await statusOf(session.id), SUGGESTIONS.resolveRetry(call(session)))
    await statusIs(session, 'idle')
  },
  async resolveSkip() {
    const session = await waiting(['post', 'it'])
    await follow(await statusOf(session.id), SUGGESTIONS.resolveSkip(call(session)))
    await statusIs(session, 'idle')
  },
  async raise() {
    for (const broke of [poor, thrifty]) {
      const { session, id } = broke.play(here.pawl, {})
      expect(await (await session.send('go')).settled(SETTLED)).toMatchObject({ code: 'budget_exhausted' })
      const [raise] = (await session.state()).error?.raise ?? []
      const printed = await statusOf(id)
      expect(printed).not.toMatch(/continue_run|restart_run/)
      const list = async () => said(await run('pawl status --limit 1000')).split('\n')
      await until('the list says so', async () => (await list()).some((line) => line.includes(id) && line.includes('raise a budget')))
      const shown = said(await run(`pawl show ${id}`))
      expect(shown).not.toMatch(/continue_run|restart_run/)
      expect(shown).toContain('pawl raise')
      await follow(printed, SUGGESTIONS.raise({ session: id, ...(raise ?? expect.fail('no limit is suggested')) }))
      await statusIs(session, 'idle')
      if (broke === poor) continue
      const late = said(await run(`pawl raise ${id} --max-tokens 100000`, { where: onQueue() }))
      expect(late).toMatch(/^no_current_run: /)
      await follow(late, SUGGESTIONS.raise({ session: id, scope: 'session', maxTotalTokens: 100_000 }))
    }
  },
  async recover() {
    await Promise.all((['continue_run', 'restart_from_last_effect', 'restart_run', 'abandon'] as const).map(recoverBy))
  },
  async recoverCalls() {
    const scene = broken()
    const session = await failed(scene)
    const printed = await statusOf(session.id)
    expect(printed).toContain(SUGGESTIONS.recoverCalls(session.id))
    scene.fix()
    // The reader names the calls of the turn, each after the option that suits it.
    const words = ['recover', session.id, '--keep', 't_1_1_0', '--redo', 't_1_1_1']
    expect((await run(['pawl', ...words].join(' '))).code).toBe(0)
    await statusIs(session, 'idle')
  },
  async preview() {
    const { id } = await failed()
    expect(await follow(await statusOf(id), SUGGESTIONS.preview({ session: id, run: 1 }))).toMatch(/recovery strategies/)
  },
}

describe('a suggested command works in the situation that prints it', () => {
  it.each(Object.keys(SUGGESTIONS) as (keyof typeof SUGGESTIONS)[])(
    'the suggested command for %s works in the situation that prints it',
    async (name) => {
      await (SITUATIONS[name] ?? expect.fail(`no situation prints it`))()
    },
    90_000,
  )
})

describe('what a chat prints', () => {
  it('the commands that a chat prints for another terminal have the session’s own id', async () => {
    const id = `chat-${randomUUID()}`
    const { session } = helped.play(here.pawl, { model: once(['post', 'it']), body: lostOnce() }, { id })
    const { temporalAddress, databaseUrl } = inject('stack')
    const env = { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl }
    const chat = startPawl(['chat', 'helped', '--session', id, ...onQueue()], { cwd: folder, env })
    chat.type('go\n')
    const [printed = ''] = await chat.says(/pawl resolve \S+ t_1_1_0 --not-happened/)
    await stored(session)
    await follow(printed, SUGGESTIONS.resolveNotHappened(call(session)))
    await chat.says(/helped ›/)
    chat.endInput()
    await chat.ended
    expect(chat.stdout()).not.toMatch(/pawl [a-z]+ …/)
  }, 60_000)
})
