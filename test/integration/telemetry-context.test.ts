// Users' own spans have the derived spans as their parents, and OpenTelemetry is not loaded if telemetry is off.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { context, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { attribute, type OtlpReceiver, otlpReceiver } from '../support/otlp-receiver.ts'
import { answersIn, inOrder, stage, use } from '../support/scenes.ts'

const VARIABLES = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_PROTOCOL'] as const
const before = VARIABLES.map((name) => [name, process.env[name]] as const)
const { agent, play } = stage()

describe('user code, if telemetry is on,', () => {
  let receiver: OtlpReceiver
  let deployment: Deployment

  beforeAll(async () => {
    receiver = await otlpReceiver()
    Object.assign(process.env, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' })
    // What an application's SDK registers.
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    deployment = await deploy({ schema: `context_${randomUUID().slice(0, 8)}` })
    await deployment.startWorker({ agents: [agent] })
    await waitForReceiver()
  })

  afterAll(async () => {
    context.disable()
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
    await deployment?.stop()
    await receiver?.close()
  })

  /** Waits until spans arrive: a new consumer begins with the events of that moment. */
  async function waitForReceiver(): Promise<void> {
    const { id, session } = play(deployment.pawl, { model: inOrder('hello') })
    await (await session.send('Go')).result()
    await receiver.came(id, 'turn 1')
  }

  const active = () => trace.getSpanContext(context.active())

  it('if telemetry is on, user code runs under the span of its attempt at a model call or a tool call', async () => {
    const seen: (ReturnType<typeof active> | undefined)[] = []
    const { id, session } = play(deployment.pawl, {
      model: (request) => {
        seen.push(active())
        return inOrder([use('look', 'first')], 'done')(request)
      },
      look: (_, ctx) => {
        seen.push(active())
        if (ctx.attempt === 1) throw new Error('not yet')
        return 'now'
      },
    })
    await (await session.send('Go')).result()
    await receiver.came(id, 'invoke_agent player')
    const spans = receiver.spansOf(id)
    const found = seen.map((one) => spans.find(({ traceId, spanId }) => traceId === one?.traceId && spanId === one.spanId))
    expect(found.map((span) => span && `${span.name} ${attribute(span, 'pawl.attempt')}`)).toEqual([
      'chat scripted 1',
      'execute_tool look 1',
      'execute_tool look 2',
      'chat scripted 1',
    ])
    expect(new Set(found.map((span) => span?.spanId)).size).toBe(4)
  })

  it('if telemetry is on, user code runs under the right span after a pause, in the trace that continues the run', async () => {
    let inTool: ReturnType<typeof active>
    const { id, session } = play(deployment.pawl, {
      model: async (request) => {
        if (answersIn(request) === 0) await session.pause()
        return inOrder([use('put', 'first')], 'done')(request)
      },
      put: () => {
        inTool = active()
      },
    })
    const run = await session.send('Go')
    await receiver.came(id, 'invoke_agent player')
    await session.unpause()
    await run.result()
    await receiver.came(id, 'invoke_agent player', 2)
    const spans = receiver.spansOf(id)
    const tool = spans.find(({ name }) => name === 'execute_tool put')
    expect({ traceId: inTool?.traceId, spanId: inTool?.spanId }).toEqual({ traceId: tool?.traceId, spanId: tool?.spanId })
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(2)
  })

  it('a message that user code sends has its span linked to the run that answers it, if telemetry is on', async () => {
    const caller = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 }
    const { id, session } = play(deployment.pawl, { model: inOrder('hello') })
    const run = await context.with(trace.setSpanContext(context.active(), caller), () => session.send('Go'))
    await run.result()
    const [root] = await receiver.came(id, 'invoke_agent player')
    expect(root?.links).toMatchObject([{ traceId: caller.traceId, spanId: caller.spanId }])
  })

  it('user code can name the caller of a message with `traceparent`', async () => {
    const { id, session } = play(deployment.pawl, { model: inOrder('hello') })
    const run = await session.send('Go', { traceparent: '00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' })
    await run.result()
    const [root] = await receiver.came(id, 'invoke_agent player')
    expect(root?.links).toMatchObject([{ traceId: '1af7651916cd43dd8448eb211c80319c' }])
    await expect(session.send('Go', { traceparent: 'nonsense' })).rejects.toMatchObject({ code: 'invalid_option' })
  })
})

describe('if telemetry is off', () => {
  const loader = fileURLToPath(new URL('./fixtures/telemetry/loaded.mjs', import.meta.url))

  it('if telemetry is off, neither a worker nor a client loads any part of OpenTelemetry', async () => {
    const { databaseUrl, temporalAddress, namespace } = inject('stack')
    const env = { ...process.env, DATABASE_URL: databaseUrl, TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace }
    for (const name of Object.keys(env)) if (name.startsWith('OTEL_')) delete env[name as keyof typeof env]
    const { stdout } = await promisify(execFile)(process.execPath, [loader, `off-${randomUUID()}`], { env, timeout: 60_000 })
    expect(JSON.parse(stdout)).toEqual({ answer: 'hello', opentelemetry: [], others: expect.any(Number) })
  }, 90_000)
})

it('the propagator of an application is left alone', () => {
  expect(propagation.fields()).toEqual([])
})
