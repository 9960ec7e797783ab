// Telemetry of a worker whose executors are processes: the parents of users' spans, and what is measured when an executor dies.
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { Pawl } from 'pawl/client'
import { type Supervisor, superviseWorkers } from 'pawl/worker'
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { hasSample, selectorsOfAlerts } from '../support/alerts.ts'
import { SILENT } from '../support/deployment.ts'
import { attribute, type OtlpReceiver, otlpReceiver } from '../support/otlp-receiver.ts'
import { freePort, scrape } from '../support/scrape.ts'
import { until } from '../support/until.ts'

const schema = `apart_${randomUUID().slice(0, 8)}`

let receiver: OtlpReceiver
let supervisor: Supervisor
let pawl: Pawl
let database: pg.Pool
let port: number

beforeAll(async () => {
  const { temporalAddress: address, namespace, databaseUrl: postgres } = inject('stack')
  receiver = await otlpReceiver()
  port = await freePort()
  Object.assign(process.env, {
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.url}/v1/traces`,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  })
  database = new pg.Pool({ connectionString: postgres, max: 1 })
  const common = { temporal: { address, namespace }, postgres, schema, taskQueue: schema, logger: SILENT }
  supervisor = await superviseWorkers({
    ...common,
    module: fileURLToPath(new URL('./fixtures/telemetry/agents.mjs', import.meta.url)),
    processes: 2,
    telemetry: { prometheus: { port } },
  })
  await supervisor.ready()
  pawl = await Pawl.connect(common)
  await until(
    'an orchestrator exports',
    async () => (await database.query(`select from ${schema}.consumers where name = 'traces'`)).rowCount,
  )
}, 60_000)

afterAll(async () => {
  await pawl?.close()
  await supervisor?.shutdown()
  await database?.query(`drop schema if exists ${schema} cascade`)
  await database?.end()
  await receiver?.close()
})

it('user code in an executor runs under the span of its attempt, even of one after a death, and the death is measured', async () => {
  const session = pawl.session(`lost-${randomUUID()}`, { agent: 'lost' })
  const { text } = await (await session.send('Where are you?')).result()
  const seen = JSON.parse(text) as { tool: string; model: string }
  await receiver.came(session.id, 'invoke_agent lost')
  const spans = receiver.spansOf(session.id)
  const named = (spanId: string) => spans.find((span) => span.spanId === spanId)
  expect([named(seen.tool), named(seen.model)].map((span) => span && [span.name, attribute(span, 'pawl.attempt')])).toEqual([
    ['execute_tool where', 2],
    ['chat scripted', 1],
  ])
  expect(named(named(seen.model)?.parentSpanId ?? '')?.name).toBe('turn 2')

  const { sum, text: scraped } = await scrape(port)
  const deaths = (await selectorsOfAlerts()).filter(({ metric }) => metric === 'pawl_executor_deaths_total')
  expect(deaths.map((selector) => hasSample(scraped, selector))).toEqual([true])
  expect(sum('pawl_executor_deaths_total', { pawl_cause: 'crash' })).toBe(1)
  expect(sum('pawl_resume_duration_count', { gen_ai_operation_name: 'execute_tool' })).toBe(1)
  expect(sum('pawl_attempts_failed_total', { gen_ai_tool_name: 'where', error_type: 'WorkerDied' })).toBe(1)
  expect(sum('gen_ai_execute_tool_duration_count', { error_type: 'WorkerDied' })).toBe(1)
}, 60_000)
