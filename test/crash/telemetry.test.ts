// A run whose processes are killed is traced without a gap, and what is exported twice has the same bytes.
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { attribute, type OtlpReceiver, otlpReceiver } from '../support/otlp-receiver.ts'
import { until } from '../support/until.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

/** The lease of the killed orchestrator, and the time until the next one checks for it. */
const TAKEOVER_MS = 40_000

let receiver: OtlpReceiver
let rig: Rig
let workers: Supervised
let database: pg.Pool

beforeAll(async () => {
  receiver = await otlpReceiver()
  Object.assign(process.env, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' })
  database = new pg.Pool({ connectionString: inject('stack').databaseUrl, max: 1 })
  rig = await startRig()
  workers = await rig.supervise({ processes: 2 })
  await until('an orchestrator exports', async () => (await holders()).length > 0)
})

afterAll(async () => {
  await rig?.close()
  await database?.end()
  await receiver?.close()
})

const holders = async () => (await database.query('select holder from pawl.consumers where held_until > now()')).rows

it('a run with three kills is exported without a gap, and with the same bytes when it is exported again', async () => {
  const plan: Plan = [[{ tool: 'look', input: { name: 'a' } }], [{ tool: 'put', input: { name: 'b' } }]]
  const asking = rig.ledger.holdNext({ stage: 'model' })
  const run = await rig.start(plan)
  const { sessionId } = run

  process.kill((await asking).pid, 'SIGKILL')
  const looking = rig.ledger.holdNext({ stage: 'entered', what: 'look' })
  process.kill((await looking).pid, 'SIGKILL')
  const putting = rig.ledger.holdNext({ stage: 'entered', what: 'put' })
  const held = await putting
  process.kill(workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
  held.release()
  expect((await run.result()).text).toBe(finalAnswer(plan))

  const complete = () => receiver.spansOf(sessionId).some(({ name }) => name.startsWith('invoke_agent'))
  await until('the run is exported', complete, TAKEOVER_MS)
  const spans = receiver.spansOf(sessionId)
  const ids = new Set(spans.map(({ traceId, spanId }) => `${traceId} ${spanId}`))
  for (const { traceId, parentSpanId } of spans) if (parentSpanId) expect(ids).toContain(`${traceId} ${parentSpanId}`)
  const attemptsOf = (name: string) =>
    spans
      .filter((span) => span.name.startsWith(name))
      .map((span) => `${attribute(span, 'error.type') ?? 'ok'} ${attribute(span, 'pawl.attempt')}`)
  expect(attemptsOf('execute_tool look')).toContain('WorkerDied 1')
  expect(attemptsOf('chat')).toContain('WorkerDied 1')
  for (const name of ['execute_tool look', 'execute_tool put']) expect(attemptsOf(name).at(-1)).toMatch(/^ok/)
  // On a busy machine, the next orchestrator may take longer to start than a heartbeat timeout: then there are more failures than kills.
  const { rows: failed } = await database.query<{ type: string; attempt: number }>(
    'select coalesce(code, class) as type, attempt from pawl.errors where session_id = $1 and attempt is not null',
    [sessionId],
  )
  const failures = [...attemptsOf('execute_tool'), ...attemptsOf('chat')].filter((attempt) => !attempt.startsWith('ok'))
  expect(failures.toSorted()).toEqual(failed.map(({ type, attempt }) => `${type} ${attempt}`).toSorted())
  expect(spans.filter(({ name }) => name.startsWith('turn'))).toHaveLength(3)

  // Again from this session on: other files have filled the same feed.
  await database.query(
    `update pawl.consumers set place = (select jsonb_build_array(min(txid)::text, '', 0) from pawl.commits where session_id = $1)`,
    [sessionId],
  )
  await until('every span has come twice', () => [...receiver.textsOf(sessionId).values()].every((texts) => texts.length >= 2), TAKEOVER_MS)
  for (const texts of receiver.textsOf(sessionId).values()) expect(new Set(texts).size).toBe(1)
}, 150_000)
