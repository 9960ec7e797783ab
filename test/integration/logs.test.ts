// What workers log: each fact once, in one format, with its session, without secrets; and an outage of Temporal as two lines.
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { LLMock } from '@copilotkit/aimock'
import { Client, Connection } from '@temporalio/client'
import { Pawl } from 'pawl/client'
import { type Stack, startStack } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { deploy } from '../support/deployment.ts'
import { eventsOf } from '../support/events.ts'
import { inOrder, stage, use } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { type PawlProcess, pawl as startPawl } from './cli/processes.ts'

const fixtures = fileURLToPath(new URL('./fixtures/logs/', import.meta.url))
/** Where the tool throws, as the first line of a stack. */
const OWN_FRAME = new RegExp(`^ {4}at .*${fixtures}agents\\.mjs:\\d+:\\d+\\)?`)
const secret = () => randomUUID()
/** The SDK's core retries for some seconds before it says so, and then writes a line for each retry of each poll. */
const OUTAGE_MS = size(20_000, 60_000)
const LONG_MS = 60_000
/** Without probes of its own, a worker would notice a frozen server when its polls expire, after more than a minute. */
const FROZEN_MS = 40_000

interface Logged extends Record<string, unknown> {
  level: number | string
  msg: string
}

/** The sequence numbers of the session's events that the lines are about, in ascending order. */
const seqsOf = (lines: readonly Record<string, unknown>[], session: string): number[] =>
  lines.flatMap((line) => (line.session === session && typeof line.seq === 'number' ? line.seq : [])).toSorted((a, b) => a - b)

/** All that the server holds of a session's history, as text. */
async function historyOf(client: Client, session: string): Promise<string> {
  const { events } = await client.workflow.getHandle(`pawl:${session}`).fetchHistory()
  const textIn = (held: unknown): string => {
    if (held instanceof Uint8Array) return Buffer.from(held).toString('latin1')
    return held !== null && typeof held === 'object' ? Object.values(held).map(textIn).join('\n') : String(held)
  }
  return textIn(events)
}

describe('the log of `pawl worker`', () => {
  const apiKey = secret()
  const token = secret()
  const password = secret()
  const email = `${secret()}@example.com`
  const model = new LLMock({ port: 0, strict: true })
  const usage = { input_tokens: 1_000, output_tokens: 100 }
  let folder: string
  let stack: Stack
  let worker: PawlProcess
  let client: Pawl

  /** Every line is JSON: pawl's own from each process, and the SDK's. */
  const lines = (): Logged[] =>
    worker
      .stderr()
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Logged)
  const linesOf = (session: string): Logged[] => lines().filter((line) => line.session === session)

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'pawl-logs-'))
    model.onToolResult('t_1_1_0', { content: 'Paid.', usage })
    const args = { order: 'A7', password, customer: { name: 'Anna', email } }
    model.onMessage('pay', { toolCalls: [{ name: 'pay', arguments: args, id: 'toolu_1' }], usage })
    await model.start()
    stack = await startStack({ temporal: ['path', 'cache', 'download', 'go'] })
    const postgres = await stack.createDatabase()
    worker = startPawl(['worker', 'agents.mjs', '--json', '--processes', '1'], {
      cwd: fixtures,
      env: {
        TEMPORAL_ADDRESS: stack.temporalAddress,
        DATABASE_URL: postgres,
        PAWL_LOG_LEVEL: 'debug',
        PAWL_LOG_REDACT: 'customer.email',
        ANTHROPIC_API_KEY: apiKey,
        ANTHROPIC_BASE_URL: model.url,
        SERVICE_TOKEN: token,
        GATE: join(folder, 'gate'),
      },
    })
    await worker.event('ready')
    client = await Pawl.connect({ temporal: { address: stack.temporalAddress }, postgres })
  })
  afterAll(async () => {
    await client?.close()
    worker?.kill('SIGTERM')
    await worker?.ended
    await stack?.stop()
    await model.stop()
    await rm(folder, { recursive: true, force: true })
  })

  it('the log of `pawl worker` has each fact of a session once, even if its orchestrator dies, and no secret', async () => {
    const session = client.session(`logged-${randomUUID()}`, { agent: 'payer' })
    const run = await session.send('pay')
    await until('the second attempt', () => linesOf(session.id).filter(({ msg }) => msg === 'paying').length === 2, LONG_MS)
    const { pid } = await worker.event('orchestrator_started')
    process.kill(pid ?? 0, 'SIGKILL')
    await worker.event('orchestrator_started', 2)
    await writeFile(join(folder, 'gate'), '')
    expect((await run.result()).text).toBe('Paid.')
    const events = await eventsOf(session)
    await until('all is logged', () => seqsOf(lines(), session.id).length >= events.length)

    expect(seqsOf(lines(), session.id)).toEqual(events.map(({ seq }) => seq))
    const ofCall = { run: 1, turn: 1, call: 't_1_1_0', tool: 'pay' }
    const args = { order: 'A7', password: '[redacted]', customer: { name: 'Anna', email: '[redacted]' } }
    const answers = { model: 'claude-sonnet-5-5', provider: 'anthropic' }
    expect(linesOf(session.id)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ level: 30, msg: 'session opened', agent: 'payer', ...answers }),
        expect.objectContaining({ level: 20, msg: 'model answered', run: 1, turn: 1, ...answers, usd: 0.003 }),
        expect.objectContaining({ level: 20, msg: 'tool call issued', ...ofCall, args }),
        expect.objectContaining({ level: 30, msg: 'paying', ...ofCall, payment: args, service: { token: '[redacted]' } }),
        expect.objectContaining({
          level: 40,
          msg: 'tool call attempt failed',
          ...ofCall,
          attempt: 1,
          reason: 'The bank is busy.',
          stack: expect.stringMatching(OWN_FRAME),
        }),
        expect.objectContaining({ level: 30, msg: 'run completed', run: 1, turns: 2, inputTokens: 2_000, outputTokens: 200, usd: 0.006 }),
      ]),
    )

    const [failed] = await session.errors()
    expect(failed).toMatchObject({ context: 'tool:pay', attempt: 1, stack: expect.stringMatching(OWN_FRAME) })

    const output = worker.stdout() + worker.stderr()
    expect([apiKey, token, password, email].filter((one) => output.includes(one))).toEqual([])
    const connection = await Connection.connect({ address: stack.temporalAddress })
    const history = await historyOf(new Client({ connection }), session.id)
    await connection.close()
    // The arguments are part of the session; the worker's keys are not.
    expect([apiKey, token, password, email].filter((one) => history.includes(one))).toEqual([password, email])
  })

  it('the log of `pawl worker` has two lines for an outage of Temporal', async () => {
    const before = lines().length
    await stack.temporal.stop('crash')
    const away = () => lines().slice(before)
    await until('its loss is logged', () => away().some(({ msg }) => msg.includes('does not answer')), LONG_MS)
    await sleep(OUTAGE_MS)
    await stack.temporal.start()
    await until('its return is logged', () => away().some(({ msg }) => msg.includes('answers again')), LONG_MS)
    expect(away()).toEqual([
      expect.objectContaining({
        level: 40,
        msg: `Temporal at ${stack.temporalAddress} does not answer. Sessions continue when it is back.`,
      }),
      expect.objectContaining({ level: 40, msg: expect.stringMatching(/answers again, after \d+ s\.$/) }),
    ])
  }, 180_000)

  it('the log of `pawl worker` says within seconds that Temporal is frozen, even if the worker has nothing to do', async () => {
    const before = lines().length
    const away = () => lines().slice(before)
    const pid = stack.temporal.pid ?? expect.fail('the server does not run')
    process.kill(pid, 'SIGSTOP')
    try {
      await until('it is logged', () => away().some(({ msg }) => msg.includes('does not answer')), FROZEN_MS)
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await until('its return is logged', () => away().some(({ msg }) => msg.includes('answers again')), LONG_MS)
  }, 180_000)
})

describe('a user’s own logger', () => {
  it('a user’s own logger gets the lines of every process, and no secrets', async () => {
    const { temporalAddress, namespace, databaseUrl: postgres } = inject('stack')
    const where = { temporal: { address: temporalAddress, namespace }, taskQueue: `logs-${randomUUID()}`, postgres }
    const lines: Record<string, unknown>[] = []
    const at = (level: string) => (fields: object, msg?: string) => void lines.push({ ...fields, level, msg })
    const logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
    const supervisor = await superviseWorkers({ module: join(fixtures, 'agents.mjs'), ...where, processes: 1, logger, redact: ['email'] })
    const client = await Pawl.connect(where)
    try {
      await supervisor.ready()
      const session = client.session(`logged-${randomUUID()}`, { agent: 'scripted-payer' })
      await (await session.send('pay')).result()
      const place = { session: session.id, run: 1, turn: 1, call: 't_1_1_0', tool: 'pay' }
      const args = { order: 'A7', password: '[redacted]', customer: { name: 'Anna', email: '[redacted]' } }
      await until('the run’s end is logged', () => lines.some(({ msg }) => msg === 'run completed'))
      expect(lines).toContainEqual(expect.objectContaining({ level: 'info', msg: 'paying', ...place, payment: args }))
      expect(lines).toContainEqual(expect.objectContaining({ level: 'debug', msg: 'tool call issued', ...place, args }))
      expect(lines).toContainEqual(
        expect.objectContaining({ level: 'info', msg: 'session opened', session: session.id, model: 'scripted' }),
      )
      // A scripted model has no price.
      expect(lines.find(({ msg }) => msg === 'run completed')).not.toHaveProperty('usd')
      expect(JSON.stringify(lines)).not.toMatch(/hunter2|anna@example\.com/)
    } finally {
      await client.close()
      await supervisor.shutdown()
    }
  })
})

it('a session that moves to another worker and continues as new has each fact once in the logs of both', async () => {
  const here = await deploy({ history: { events: 40 } })
  try {
    const player = stage()
    const lines: Record<string, unknown>[] = []
    const write = (fields: object): void => void lines.push(fields as Record<string, unknown>)
    const logger = { debug: write, info: write, warn: write, error: write }
    const played = player.play(here.pawl, { model: inOrder(...Array.from({ length: 12 }, (_, n) => [use('put', `thing ${n}`)]), 'done') })
    const first = await here.startWorker({ agents: [player.agent], logger })
    await (await played.session.send('go')).result()
    await first.stop()
    const before = lines.length
    await here.startWorker({ agents: [player.agent], logger })
    await (await played.session.send('more')).result()
    const events = await eventsOf(played.session)
    await until('all is logged', () => seqsOf(lines, played.id).length >= events.length)
    expect(seqsOf(lines, played.id)).toEqual(events.map(({ seq }) => seq))
    expect(lines.length).toBeGreaterThan(before)
  } finally {
    await here.stop()
  }
})
