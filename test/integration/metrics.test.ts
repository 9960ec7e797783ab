// Metrics: what Prometheus and a collector receive, from one worker and from several.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { once } from 'node:events'
import { defineAgent, defineTool, ModelError } from 'pawl'
import { scripted } from 'pawl/testing'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { hasSample, selectorsOfAlerts } from '../support/alerts.ts'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { otlpReceiver } from '../support/otlp-receiver.ts'
import { inOrder, saidIn, stage, use } from '../support/scenes.ts'
import { freePort, scrape } from '../support/scrape.ts'
import { until } from '../support/until.ts'

const schema = `measured_${randomUUID().slice(0, 8)}`
const { agent, play } = stage({}, { price: { input: 3, output: 15 } })
const cautious = defineAgent({
  name: 'cautious',
  instructions: 'Ask first.',
  model: scripted(({ messages }) => (messages.length > 1 ? 'done' : [use('spend', 'much')])),
  tools: [
    defineTool({
      name: 'spend',
      description: 'Spends.',
      input: z.object({ what: z.string() }),
      effect: 'idempotent',
      approval: () => true,
      execute: () => 'spent',
    }),
  ],
})
/** Each first message makes something fail in its own way. */
const fragile = defineAgent({
  name: 'fragile',
  instructions: 'Fail.',
  retry: { maxRetries: 0 },
  recovery: { maxAttempts: 1, baseDelay: 10 },
  model: scripted((request) => {
    const [first] = saidIn(request)
    if (first === 'fail') throw new ModelError('overloaded_error', 'Busy.', { retryable: true })
    return request.messages.length > 1 ? 'done' : [use('pay', 'it')]
  }),
  tools: [
    defineTool({
      name: 'pay',
      description: 'Pays.',
      input: z.object({ what: z.string() }),
      effect: 'external',
      execute: () => {
        throw new Error('no answer')
      },
    }),
  ],
})
const patient = defineAgent({
  name: 'patient',
  instructions: 'Wait.',
  retry: { maxRetries: 0 },
  recovery: { baseDelay: '1h', maxDelay: '1h' },
  model: scripted(() => {
    throw new ModelError('overloaded_error', 'Busy.', { retryable: true })
  }),
})
const agents = [agent, cautious, fragile, patient]
const BY_PLAYER = { gen_ai_agent_name: 'player' }
/** Sessions are counted at intervals. */
const COUNTS_WITHIN_MS = 25_000
const SLOW = 60_000

let deployment: Deployment
let database: pg.Pool

beforeAll(async () => {
  deployment = await deploy({ schema })
  database = new pg.Pool({ connectionString: deployment.stack.databaseUrl, max: 1 })
})
afterAll(async () => {
  await deployment?.stop()
  await database?.query(`drop schema if exists ${schema} cascade`)
  await database?.end()
})

const running: RunningWorker[] = []
afterEach(async () => {
  for (const worker of running.splice(0)) await worker.stop()
})

/** Starts a worker that serves metrics; returns its port. */
async function start(port?: number): Promise<number> {
  port ??= await freePort()
  running.push(await deployment.startWorker({ agents, telemetry: { prometheus: { port } } }))
  return port
}

it(
  'metrics of a run count the run, its turns, failed attempts and tokens, and measure their cost and duration',
  async () => {
    const port = await start()
    let calls = 0
    const { session } = play(deployment.pawl, {
      model: ({ messages }) => ({
        content: messages.length === 1 ? [use('look', 'first')] : [{ type: 'text', text: 'done' }],
        usage: { input_tokens: 1_000, output_tokens: 100, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
      }),
      look: () => {
        calls += 1
        if (calls === 1) throw Object.assign(new Error('not yet'), { code: 'EAGAIN' })
        return 'now'
      },
    })
    await (await session.send('Go')).result()
    const { sum, text } = await until('the run is measured', async () => {
      const scraped = await scrape(port)
      return scraped.sum('gen_ai_invoke_agent_duration_count', BY_PLAYER) === 1 && scraped
    })
    expect(sum('pawl_runs_started_total', BY_PLAYER)).toBe(1)
    expect(sum('pawl_runs_total', { ...BY_PLAYER, pawl_outcome: 'completed' })).toBe(1)
    expect(sum('pawl_turns_total', BY_PLAYER)).toBe(2)
    expect(sum('pawl_attempts_failed_total', { gen_ai_tool_name: 'look', error_type: 'EAGAIN', pawl_retryable: 'true' })).toBe(1)
    expect(sum('gen_ai_client_token_usage_count', { gen_ai_token_type: 'output', gen_ai_request_model: 'scripted' })).toBe(2)
    expect(sum('gen_ai_client_token_usage_sum', { gen_ai_token_type: 'input' })).toBe(2_000)
    expect(sum('pawl_usd_total', BY_PLAYER)).toBeCloseTo(0.009)
    expect(sum('gen_ai_client_operation_duration_count', BY_PLAYER)).toBe(2)
    expect(sum('gen_ai_client_operation_time_to_first_chunk_count', BY_PLAYER)).toBe(2)
    expect(sum('gen_ai_execute_tool_duration_count', { gen_ai_tool_name: 'look', error_type: 'EAGAIN' })).toBe(1)
    expect(sum('gen_ai_execute_tool_duration_count', { gen_ai_tool_name: 'look' })).toBe(2)
    expect(sum('pawl_flush_lag_count')).toBeGreaterThan(0)
    expect(sum('pawl_executors')).toBe(1)
    expect(sum('pawl_temporal_away')).toBe(0)
    // No label names a session: the number of time series is bounded.
    expect(text).not.toContain(session.id)
  },
  SLOW,
)

it(
  'metrics of several workers add up: each run counts once, and one of the workers reports what waits',
  async () => {
    const ports = [await start(), await start()]
    const waiting = deployment.pawl.session(`waits-${randomUUID()}`, { agent: 'cautious' })
    await (await waiting.send('Spend')).settled()
    const scenes = Array.from({ length: 8 }, () => play(deployment.pawl, { model: inOrder([use('look', 'first')], 'done') }))
    await Promise.all(scenes.map(async ({ session }) => (await session.send('Go')).result()))
    const { sum } = await until(
      'the sessions are counted',
      async () => {
        const scraped = await scrape(...ports)
        return scraped.sum('pawl_calls_waiting', { pawl_waits_for: 'approval' }) === 1 && scraped
      },
      COUNTS_WITHIN_MS,
    )
    expect(sum('pawl_runs_total', BY_PLAYER)).toBe(8)
    expect(sum('gen_ai_invoke_agent_duration_count', BY_PLAYER)).toBe(8)
    expect(sum('pawl_turns_total', BY_PLAYER)).toBe(16)
    expect(sum('gen_ai_client_operation_duration_count', BY_PLAYER)).toBe(16)
    expect(sum('pawl_sessions', { pawl_status: 'waiting', gen_ai_agent_name: 'cautious' })).toBe(1)
  },
  SLOW,
)

it(
  'metrics and labels that the alert rules read exist, and tell what heals by itself from what needs a person',
  async () => {
    const port = await start()
    const open = (name: string) => deployment.pawl.session(`${name}-${randomUUID()}`, { agent: name })
    const failing = open('fragile')
    await (await failing.send('fail')).settled()
    const [paid, healing, paused, poor] = [open('fragile'), open('patient'), open('player'), open('player')]
    // One waits for a person, and the other is in an error that pawl retries an hour later.
    await (await paid.send('pay')).settled()
    await healing.send('fail')
    await paid.send('later')
    await (await paused.send('hello')).settled()
    await paused.pause({ by: 'ann' })
    await (await poor.send('hello')).settled()
    await poor.pause()
    // As pawl pauses a session whose process died during a costly call.
    await until(
      'the pause is stored',
      async () =>
        (
          await database.query(
            `update ${schema}.sessions set paused = paused || '{"code": "budget_assumed", "raise": [{"scope": "run", "maxUsd": 2}]}'
             where session_id = $1 and paused is not null`,
            [poor.id],
          )
        ).rowCount === 1,
    )
    const inError = { gen_ai_agent_name: 'fragile', error_type: 'overloaded_error' }
    const before = await until(
      'the errors are counted',
      async () => {
        const scraped = await scrape(port)
        const isCounted = scraped.sum('pawl_sessions_error', { ...inError, pawl_needs: 'person' }) === 1
        const isPaused = scraped.sum('pawl_sessions_paused', { ...BY_PLAYER, pawl_waits_for: 'raise' }) === 1
        return isCounted && isPaused && scraped.sum('pawl_messages_waiting', { gen_ai_agent_name: 'fragile' }) === 1 && scraped
      },
      COUNTS_WITHIN_MS,
    )
    expect(before.sum('pawl_sessions_error', { gen_ai_agent_name: 'patient', pawl_needs: 'nothing' })).toBe(1)
    expect(before.sum('pawl_error_age', { gen_ai_agent_name: 'patient' })).toBeGreaterThan(0)
    expect(before.sum('pawl_sessions_paused', { ...BY_PLAYER, pawl_waits_for: 'unpause' })).toBe(1)
    expect(before.sum('pawl_pause_age', BY_PLAYER)).toBeGreaterThan(0)
    expect(before.sum('pawl_errors_total', { ...inError, pawl_needs: 'nothing' })).toBe(1)
    expect(before.sum('pawl_errors_total', { ...inError, pawl_needs: 'person' })).toBe(1)
    expect(before.sum('pawl_error_duration_count', { ...inError, pawl_ended_by: 'itself' })).toBe(1)
    expect(before.sum('pawl_recoveries_total', { pawl_strategy: 'continue_run', pawl_automatic: 'true', pawl_outcome: 'failed' })).toBe(1)
    await failing.recover({ strategy: 'abandon', by: 'ann' })
    const { sum, text } = await until('the incident has ended', async () => {
      const scraped = await scrape(port)
      return scraped.sum('pawl_incidents_total', { ...inError, pawl_outcome: 'given_up' }) === 1 && scraped
    })
    expect(sum('pawl_error_duration_count', { ...inError, pawl_ended_by: 'person' })).toBe(1)
    expect(sum('pawl_recoveries_total', { pawl_strategy: 'abandon', pawl_automatic: 'false', pawl_outcome: 'abandoned' })).toBe(1)
    const missing = (await selectorsOfAlerts()).filter((selector) => !hasSample(text, selector))
    // Executors that are processes are measured in telemetry-supervised.test.ts.
    expect(missing.filter(({ metric }) => metric !== 'pawl_executor_deaths_total')).toEqual([])
  },
  SLOW,
)

it(
  'metrics reach a collector by OTLP, the last ones when the worker ends',
  async () => {
    const receiver = await otlpReceiver()
    const variables = { OTEL_METRICS_EXPORTER: 'otlp', OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' }
    const before = Object.keys(variables).map((name) => [name, process.env[name]] as const)
    try {
      Object.assign(process.env, variables)
      const worker = await deployment.startWorker({ agents })
      const { session } = play(deployment.pawl, { model: inOrder('hello') })
      await (await session.send('Go')).result()
      await until(
        'the run is stored',
        async () =>
          (await database.query(`select from ${schema}.sessions where session_id = $1 and status = 'idle'`, [session.id])).rowCount,
      )
      await worker.stop()
      const { body } = receiver.requests.findLast(({ path }) => path === '/v1/metrics') ?? expect.fail('no metrics')
      expect(body.toString()).toContain('"name":"pawl.runs"')
      expect(body.toString()).toContain('service.instance.id')
      expect(body.toString()).toContain('"schemaUrl":"https://opentelemetry.io/schemas/1.41.0"')
      expect(body.toString()).toMatch(/"telemetry\.sdk\.name","value":\{"stringValue":"opentelemetry"/)
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) delete process.env[name]
        else process.env[name] = value
      }
      await receiver.close()
    }
  },
  SLOW,
)

it(
  'a worker works while another process has its metrics port, and serves metrics once the port is free',
  async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address() as { port: number }
    await start(port)
    const { session } = play(deployment.pawl, { model: inOrder('hello') })
    expect((await (await session.send('Go')).result()).text).toBe('hello')
    taken.close()
    await until('the metrics are served', async () => (await scrape(port).catch(() => undefined))?.sum('pawl_executors') === 1)
    expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(404)
    expect((await fetch(`http://127.0.0.1:${port}/metrics`, { method: 'POST' })).status).toBe(405)
  },
  SLOW,
)
