// The traces of agents that call agents, on two task queues, while an executor and an orchestrator are killed.
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Pawl } from 'pawl/client'
import { type Supervisor, superviseWorkers } from 'pawl/worker'
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { SILENT } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { attribute, type OtlpReceiver, type OtlpSpan, otlpReceiver } from '../support/otlp-receiver.ts'
import { until } from '../support/until.ts'

const schema = `trees_${randomUUID().slice(0, 8)}`
const QUEUES = { near: schema, far: `${schema}-far` }
const folder = mkdtempSync(join(tmpdir(), 'pawl-trees-'))
const gate = join(folder, 'open')

let receiver: OtlpReceiver
let near: Supervisor
let far: Supervisor
let pawl: Pawl
let database: pg.Pool

beforeAll(async () => {
  const { temporalAddress: address, namespace, databaseUrl: postgres } = inject('stack')
  receiver = await otlpReceiver()
  Object.assign(process.env, {
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.url}/v1/traces`,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    NEAR_QUEUE: QUEUES.near,
    FAR_QUEUE: QUEUES.far,
    GATE: gate,
  })
  database = new pg.Pool({ connectionString: postgres, max: 1 })
  const common = { temporal: { address, namespace }, postgres, schema, logger: SILENT }
  const module = fileURLToPath(new URL('./fixtures/telemetry/tree.mjs', import.meta.url))
  near = await superviseWorkers({ ...common, taskQueue: QUEUES.near, module, processes: 1 })
  await near.ready()
  const exports = async () => (await database.query(`select from ${schema}.consumers where name = 'traces'`)).rowCount
  await until('an orchestrator exports', exports)
  far = await superviseWorkers({ ...common, taskQueue: QUEUES.far, module, processes: 1 })
  await far.ready()
  pawl = await Pawl.connect({ ...common, taskQueue: QUEUES.near })
}, 90_000)

afterAll(async () => {
  await pawl?.close()
  await Promise.all([near?.shutdown(), far?.shutdown()])
  await database?.query(`drop schema if exists ${schema} cascade`)
  await database?.end()
  await receiver?.close()
  rmSync(folder, { recursive: true })
})

/** The names of the spans above the span, from its parent to the root of the trace. */
function above(span: OtlpSpan | undefined, spans: readonly OtlpSpan[]): string[] {
  const parent = spans.find(({ traceId, spanId }) => traceId === span?.traceId && spanId === span.parentSpanId)
  if (span?.parentSpanId && !parent) return ['missing']
  return parent ? [parent.name, ...above(parent, spans)] : []
}

async function childrenOf(session: string): Promise<Record<string, string>> {
  const asked = ofType(await eventsOf(pawl.session(session)), 'answer_requested')
  return Object.fromEntries(asked.flatMap(({ tool, child }) => (child ? [[tool, child.session]] : [])))
}

it('the spans of children lie under the calls that wait for them, on two task queues and after kills; one in the background is linked', async () => {
  const session = pawl.session(`lead-${randomUUID()}`, { agent: 'lead' })
  const run = await session.send('go')
  const { far: middle = '', scout = '' } = await until('both are asked', async () => {
    const children = await childrenOf(session.id)
    return children.far !== undefined && children.scout !== undefined && children
  })
  const { deep = '' } = await until(
    'the last one is asked',
    async () => {
      const children = await childrenOf(middle)
      return children.deep !== undefined && children
    },
    60_000,
  )
  process.kill(far.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
  writeFileSync(gate, '')
  const seen = JSON.parse((await run.result({ timeout: 60_000 })).text) as { traceId: string; spanId: string }

  const [root] = await receiver.came(session.id, 'invoke_agent lead')
  await receiver.came(scout, 'invoke_agent scout')
  // Exported by the other worker.
  await receiver.came(middle, 'invoke_agent far')
  await receiver.came(deep, 'invoke_agent deep')
  const spans = [session.id, middle, deep, scout].flatMap(receiver.spansOf)
  const named = (name: string) => spans.find((span) => span.name === name)
  expect(above(named('invoke_agent deep'), spans)).toEqual([
    'execute_tool deep',
    'turn 2',
    'invoke_agent far',
    'execute_tool far',
    'turn 1',
    'invoke_agent lead',
  ])
  expect(attribute(named('execute_tool far'), 'pawl.child')).toBe(middle)
  // What user code in the middle does has the span of its attempt above it, in the same trace.
  const inTool = spans.find(({ spanId }) => spanId === seen.spanId)
  expect([inTool?.name, attribute(inTool, 'pawl.attempt'), inTool?.traceId]).toEqual(['execute_tool where', 2, root?.traceId])
  expect(seen.traceId).toBe(root?.traceId)

  const call = named('execute_tool scout')
  const inBackground = named('invoke_agent scout')
  expect(call?.traceId).toBe(root?.traceId)
  expect(inBackground?.traceId).not.toBe(root?.traceId)
  expect(inBackground?.links).toMatchObject([{ traceId: call?.traceId, spanId: call?.spanId }])
}, 120_000)
