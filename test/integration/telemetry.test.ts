// Traces: what a collector receives about sessions, through failures of the collector and of the exporting worker.
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { defined } from '../../src/session/defined.ts'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { attribute, type OtlpReceiver, type OtlpSpan, otlpReceiver } from '../support/otlp-receiver.ts'
import { inOrder, stage, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'

const schema = `traced_${randomUUID().slice(0, 8)}`
const { agent, play } = stage()
const VARIABLES = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_PROTOCOL', 'OTEL_SERVICE_NAME', 'OTEL_TRACES_SAMPLER'] as const

let receiver: OtlpReceiver
let deployment: Deployment
let database: pg.Pool
const before = VARIABLES.map((name) => [name, process.env[name]] as const)

function restore(): void {
  for (const [name, value] of before) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
}

beforeAll(async () => {
  receiver = await otlpReceiver()
  deployment = await deploy({ schema })
  database = new pg.Pool({ connectionString: deployment.stack.databaseUrl, max: 1 })
})

beforeEach(() => {
  receiver.answer(200)
  restore()
  Object.assign(process.env, {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_SERVICE_NAME: 'desk',
  })
})

afterAll(async () => {
  restore()
  await deployment?.stop()
  await database?.query(`drop schema if exists ${schema} cascade`)
  await database?.end()
  await receiver?.close()
})

const start = (telemetry?: { contents?: boolean } | false): Promise<RunningWorker> =>
  deployment.startWorker({ agents: [agent], ...defined({ telemetry }) })
/** A worker that does not hold the lease tries to acquire it every few seconds. */
const TAKEOVER_MS = 30_000
const SLOW = 90_000

const held = () => database.query(`select holder from ${schema}.consumers where held_until > now()`).then(({ rows }) => rows.length > 0)
const twoSteps = () => inOrder([use('look', 'first')], 'done')

function parentIn(spans: readonly OtlpSpan[], span: OtlpSpan): OtlpSpan | undefined {
  return spans.find(({ traceId, spanId }) => traceId === span.traceId && spanId === span.parentSpanId)
}

describe('a run', () => {
  let worker: RunningWorker

  beforeAll(async () => {
    Object.assign(process.env, {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_SERVICE_NAME: 'desk',
    })
    worker = await start()
    await until('the worker holds the lease', held)
  })
  afterAll(() => worker?.stop())

  it('a run is one trace, with the turns, model calls and tool calls under it', async () => {
    const { id, session } = play(deployment.pawl, { model: twoSteps() })
    await (await session.send('Go')).result()
    await receiver.came(id, 'invoke_agent player')
    const spans = receiver.spansOf(id)
    expect(spans.map(({ name }) => name).toSorted()).toEqual(
      ['chat scripted', 'chat scripted', 'execute_tool look', 'invoke_agent player', 'turn 1', 'turn 2'].toSorted(),
    )
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1)
    const named = (name: string) => spans.find((span) => span.name === name) ?? expect.fail(name)
    expect(parentIn(spans, named('execute_tool look'))?.name).toBe('turn 1')
    expect(parentIn(spans, named('turn 1'))?.name).toBe('invoke_agent player')
    expect(named('invoke_agent player').parentSpanId).toBeUndefined()
    expect(receiver.requests.at(-1)?.body.toString()).toContain('"key":"service.name","value":{"stringValue":"desk"}')
  })

  it('a run exports no message contents unless they are requested', async () => {
    const said = `a secret ${randomUUID()}`
    const { id, session } = play(deployment.pawl, { model: inOrder([use('look', said)], said) })
    await (await session.send(said)).result()
    await receiver.came(id, 'invoke_agent player')
    expect([...receiver.textsOf(id).values()].flat().join()).not.toContain(said)
  })

  it('a run has a span with an error for each failed attempt', async () => {
    let calls = 0
    const { id, session } = play(deployment.pawl, {
      model: twoSteps(),
      look: () => {
        calls += 1
        if (calls === 1) throw new Error('not yet')
        return 'now'
      },
    })
    await (await session.send('Go')).result()
    await receiver.came(id, 'invoke_agent player')
    const tries = receiver.spansOf(id).filter(({ name }) => name === 'execute_tool look')
    expect(tries.map((span) => [attribute(span, 'pawl.attempt'), span.status.code])).toEqual([
      [1, 2],
      [2, 0],
    ])
    expect(tries[0]?.status.message).toBe('not yet')
    const [exception] = tries[0]?.events ?? []
    expect(exception?.name).toBe('exception')
    expect(attribute(exception, 'exception.type')).toBe('Error')
    expect(attribute(exception, 'exception.stacktrace')).toMatch(/^Error: not yet\n {4}at .*telemetry\.test\.ts:\d+:\d+/)
  })

  it(
    'a run is exported once the collector answers again, and nothing is left out',
    async () => {
      receiver.answer(503)
      const { id, session } = play(deployment.pawl, { model: twoSteps() })
      await (await session.send('Go')).result()
      receiver.answer(200)
      await until('the run is exported', () => receiver.spansOf(id).length === 6, 60_000)
    },
    SLOW,
  )

  it(
    'a run whose session was erased during an outage of the collector is not exported, and holds up no others',
    async () => {
      const refusals = (more: number): Promise<unknown> => {
        const before = receiver.refused()
        return until(`${more} requests were refused`, () => receiver.refused() >= before + more, 60_000)
      }
      receiver.answer(401)
      const gone = play(deployment.pawl, { model: twoSteps() })
      await (await gone.session.send('Go')).result()
      await refusals(1)
      await deployment.pawl.erase(gone.id, { by: 'ops', force: true })
      const { id, session } = play(deployment.pawl, { model: twoSteps() })
      await (await session.send('Go')).result()
      // The second of these requests began after the erasure.
      await refusals(2)
      receiver.answer(200)
      await until('the other run is exported', () => receiver.spansOf(id).length === 6, 60_000)
      expect(receiver.spansOf(gone.id)).toEqual([])
    },
    SLOW,
  )

  it(
    'a run is exported with the same bytes when it is exported again',
    async () => {
      const { id, session } = play(deployment.pawl, { model: twoSteps() })
      await (await session.send('Go')).result()
      await receiver.came(id, 'invoke_agent player')
      await database.query(`update ${schema}.consumers set place = '["0", "", 0]'`)
      await until('every span has come twice', () => [...receiver.textsOf(id).values()].every((texts) => texts.length >= 2))
      for (const texts of receiver.textsOf(id).values()) expect(new Set(texts).size).toBe(1)
    },
    SLOW,
  )
})

describe('two workers', () => {
  it(
    'two workers export one after the other: the second takes over once the first has stopped',
    async () => {
      const first = await start()
      await until('a worker holds the lease', held)
      const second = await start()
      const here = play(deployment.pawl, { model: twoSteps() })
      await (await here.session.send('Go')).result()
      await receiver.came(here.id, 'invoke_agent player')
      await first.stop()
      const later = play(deployment.pawl, { model: twoSteps() })
      await (await later.session.send('Go')).result()
      await until('the second worker exports', () => receiver.spansOf(later.id).length === 6, TAKEOVER_MS)
      expect([...receiver.textsOf(here.id).values()].every((texts) => texts.length === 1)).toBe(true)
      await second.stop()
    },
    SLOW,
  )

  it(
    'a second worker takes over the export once a dead one’s lease has expired, even during a run',
    async () => {
      const worker = await start()
      await until('the worker holds the lease', held)
      await database.query(`update ${schema}.consumers set holder = 'a dead one', held_until = now() + interval '6 seconds'`)
      const { id, session } = play(deployment.pawl, { model: twoSteps() })
      await (await session.send('Go')).result()
      await until('the worker exports again', () => receiver.spansOf(id).length === 6, TAKEOVER_MS)
      await worker.stop()
    },
    SLOW,
  )
})

describe('the settings', () => {
  it(
    'the settings choose protobuf by default, and include contents on request',
    async () => {
      delete process.env.OTEL_EXPORTER_OTLP_PROTOCOL
      const worker = await start({ contents: true })
      await until('the worker holds the lease', held)
      const said = `not a secret ${randomUUID()}`
      const { session } = play(deployment.pawl, { model: inOrder(said) })
      await (await session.send(said)).result()
      const isOfRun = ({ type, body }: { type: string; body: Buffer }) => type === 'application/x-protobuf' && body.includes(said)
      await until('the spans have arrived', () => receiver.requests.some(isOfRun), TAKEOVER_MS)
      await worker.stop()
    },
    SLOW,
  )

  it(
    'the settings prevent the export of a trace that is not sampled',
    async () => {
      process.env.OTEL_TRACES_SAMPLER = 'always_off'
      const worker = await start()
      await until('the worker holds the lease', held)
      const { id, session } = play(deployment.pawl, { model: twoSteps() })
      await (await session.send('Go')).result()
      const passed = () => database.query(`select place from ${schema}.consumers`).then(({ rows }) => JSON.stringify(rows))
      const place = await passed()
      await until('the exporter has passed the run', async () => (await passed()) !== place)
      await worker.stop()
      expect(receiver.spansOf(id)).toEqual([])
    },
    SLOW,
  )

  it('the settings that pawl does not support are refused before anything starts', async () => {
    process.env.OTEL_EXPORTER_OTLP_PROTOCOL = 'grpc'
    await expect(start()).rejects.toMatchObject({ code: 'invalid_option', message: expect.stringContaining('http/protobuf') })
  })
})
