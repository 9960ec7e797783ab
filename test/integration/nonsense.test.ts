// Nonsense from models and tools: each kind has one defined outcome. docs/tools.md has the table; every row of it is tested here, in
// serving.test.ts (tools that change) or in crash/long-calls.test.ts (tools that block the event loop).
import { randomUUID } from 'node:crypto'
import {
  type Agent,
  defineAgent,
  defineTool,
  type Json,
  type SessionEvent,
  type ToolContext,
  ToolError,
  type ToolUseBlock,
  type Verdict,
} from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { MAX_DEPTH } from '../../src/session/json.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, resultsIn } from '../support/scenes.ts'
import { seed, size, variants } from '../support/sizes.ts'
import { until } from '../support/until.ts'

type Effect = 'read' | 'idempotent' | 'external'
const EFFECTS = ['read', 'idempotent', 'external'] as const

interface Scene {
  calls: ToolUseBlock[]
  body?: (input: Json, ctx: ToolContext) => unknown
  verify?: (ctx: ToolContext) => Verdict<unknown>
}

/** The outcome of a session's one turn with calls. */
interface Outcome {
  session: SessionHandle
  events: SessionEvent[]
  /** What the model was told. */
  told: { content: unknown; isError: boolean }[]
  /** The input, attempt and key of each entry into a body. */
  entered: { input: Json; attempt: number; key: string }[]
}

const scenes = new Map<string, Scene & { told: Outcome['told']; entered: Outcome['entered'] }>()

function laid(sessionId: string) {
  const scene = scenes.get(sessionId)
  if (!scene) throw new Error(`no scene for session ${sessionId}`)
  return scene
}

function enter(input: Json, ctx: ToolContext): unknown {
  const { entered, body } = laid(ctx.sessionId)
  entered.push({ input, attempt: ctx.attempt, key: ctx.idempotencyKey })
  return body ? body(input, ctx) : 'done'
}

const tool = (name: string, effect: Effect, input: z.ZodType, timeout = 20_000) =>
  defineTool({
    name,
    description: name,
    effect,
    input,
    timeout,
    retry: { maxRetries: 1, baseDelay: 10 },
    execute: (given, ctx) => enter(given as Json, ctx),
    ...(effect === 'external' && {
      onUnknown: 'tell_model' as const,
      settleAfter: 0,
      verify: (_input: unknown, ctx: ToolContext) => laid(ctx.sessionId).verify?.(ctx) ?? { happened: 'unknown' as const },
    }),
  })

const loose = z.object({ what: z.string() })
const agent = defineAgent({
  name: 'wild',
  instructions: '',
  model: scripted((request): ScriptedAnswer => {
    const scene = laid(request.sessionId)
    if (answersIn(request) === 0) return scene.calls
    scene.told = resultsIn(request)
    return 'done'
  }),
  tools: [
    tool('strict', 'idempotent', z.strictObject({ what: z.string() })),
    ...EFFECTS.flatMap((effect) => [tool(effect, effect, loose), tool(`short_${effect}`, effect, loose, 300)]),
  ],
}) as Agent

let here: Deployment
beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [agent] })
})
afterAll(() => here?.stop())

const use = (name: string, input: unknown = { what: 'it' }, id = 'toolu_1') => ({ type: 'tool_use', id, name, input }) as ToolUseBlock

async function play(scene: Scene): Promise<Outcome> {
  const session = here.pawl.session(`wild-${randomUUID()}`, { agent: 'wild' })
  scenes.set(session.id, { ...scene, told: [], entered: [] })
  const { text } = await (await session.send('go')).result({ timeout: 60_000 })
  expect(text).toBe('done')
  const { told, entered } = laid(session.id)
  return { session, events: await eventsOf(session), told, entered }
}

describe.concurrent('arguments', () => {
  it('arguments that are not JSON produce an error result, and no body is entered', async () => {
    const { told, entered, events } = await play({ calls: [use('strict', '{"what": "it')] })
    expect(told).toMatchObject([{ isError: true, content: expect.stringContaining('The arguments are not a JSON object: {"what": "it') }])
    expect(ofType(events, 'tool_failed')).toMatchObject([{ code: 'invalid_arguments', attempt: 0 }])
    expect(entered).toEqual([])
  })

  it('arguments of the wrong shape produce an error result that says what does not match, and no body is entered', async () => {
    const { told, entered, events } = await play({ calls: [use('idempotent', { what: 7 })] })
    expect(told).toMatchObject([{ isError: true, content: expect.stringMatching(/expected string.*what/s) }])
    expect(ofType(events, 'tool_failed')).toMatchObject([{ code: 'invalid_arguments', attempt: 0 }])
    expect(entered).toEqual([])
  })

  it('keys that a strict schema does not have produce an error result that names them', async () => {
    const { told, entered } = await play({ calls: [use('strict', { what: 'it', whim: 1 })] })
    expect(told).toMatchObject([{ isError: true, content: expect.stringContaining('whim') }])
    expect(entered).toEqual([])
  })

  it('extra keys for a loose schema do not reach the body, but are recorded and make another intent', async () => {
    const { entered, events } = await play({ calls: [use('idempotent', { what: 'it', whim: 1 }), use('idempotent', { what: 'it' })] })
    expect(entered.map(({ input }) => input)).toEqual([{ what: 'it' }, { what: 'it' }])
    expect(new Set(entered.map(({ key }) => key)).size).toBe(2)
    expect(ofType(events, 'tool_issued').map(({ input }) => input)).toEqual([{ what: 'it', whim: 1 }, { what: 'it' }])
  })

  it('arguments of 5 MB end the run as invalid_response; the next message is answered', async () => {
    const session = here.pawl.session(`wild-${randomUUID()}`, { agent: 'wild' })
    const scene = { calls: [use('read', { what: 'x'.repeat(5_000_000) })], told: [], entered: [] }
    scenes.set(session.id, scene)
    const settled = await (await session.send('go')).settled({ timeout: 60_000 })
    expect(settled).toMatchObject({ status: 'failed', code: 'invalid_response', reason: expect.stringContaining('bytes') })
    scene.calls = [use('read')]
    expect(await (await session.send('again')).result({ timeout: 60_000 })).toMatchObject({ text: 'done' })
    expect(scene.entered).toHaveLength(1)
  })

  it.each(EFFECTS)('arguments full of NUL bytes and lone surrogates reach the body of a tool with effect %s unchanged', async (effect) => {
    const what = 'a\u0000b\ud800c\udfff'
    const { entered, told, session } = await play({ calls: [use(effect, { what })], body: (input) => (input as { what: string }).what })
    expect(entered.map(({ input }) => input)).toEqual([{ what }])
    expect(told).toMatchObject([{ content: what, isError: false }])
    const [row] = await stored(session)
    expect(row).toMatchObject({ status: 'completed', input: { what }, result: what })
  })
})

describe.concurrent('two calls in one turn', () => {
  it('two calls in one turn with the same id are two calls, each with its own result', async () => {
    const { told, events } = await play({
      calls: [use('idempotent', { what: 'a' }, 'x'), use('idempotent', { what: 'b' }, 'x')],
      body: (input) => input,
    })
    expect(told.map(({ content }) => content)).toEqual(['{"what":"a"}', '{"what":"b"}'])
    expect(ofType(events, 'tool_completed').map(({ callId }) => callId)).toEqual(['t_1_1_0', 't_1_1_1'])
  })

  it('two calls in one turn that share an id and an intent are executed once', async () => {
    const { told, entered } = await play({ calls: [use('external'), use('external')] })
    expect(told.map(({ content }) => content)).toEqual(['done', '[idempotent replay of t_1_1_0]\ndone'])
    expect(entered).toHaveLength(1)
  })
})

it('a call to a tool that does not exist produces an error result that lists the tools', async () => {
  const { told, events } = await play({ calls: [use('gone'), use('__proto__'), use('')] })
  expect(told.map(({ isError }) => isError)).toEqual([true, true, true])
  expect(told[0]?.content).toMatch(/^There is no tool "gone". The tools are: strict, read, /)
  expect(ofType(events, 'tool_failed').map(({ code }) => code)).toEqual(['unknown_tool', 'unknown_tool', 'unknown_tool'])
})

const circular: { self?: unknown } = {}
circular.self = circular
/** A value nested this many levels deep. */
function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = [value]
  return value
}
const UNSERIALISABLE: Record<string, unknown> = {
  circular,
  'a BigInt': { id: 12n },
  'nested far too deep': nested(20_000),
  'something that throws when it is serialised': {
    toJSON() {
      throw new Error('not me')
    },
  },
}

describe.concurrent.each(variants(EFFECTS, 1))(`a result of a tool with effect %s (seed ${seed}, again with PAWL_SEED)`, (effect) => {
  it('a tool result that is undefined becomes null', async () => {
    const { told, events } = await play({ calls: [use(effect)], body: () => undefined })
    expect(ofType(events, 'tool_completed')).toMatchObject([{ value: null }])
    expect(told).toMatchObject([{ content: 'null', isError: false }])
  })

  // By name, because vitest inspects the values that it is given.
  it.each(Object.keys(UNSERIALISABLE))(
    'a tool result without a JSON form (%s) completes the call, and the model is told why',
    async (what) => {
      const { told, events, entered } = await play({ calls: [use(effect)], body: () => UNSERIALISABLE[what] })
      expect(told).toMatchObject([{ isError: false, content: expect.stringMatching(/^The call completed.*no JSON form/) }])
      expect(ofType(events, 'tool_completed')).toMatchObject([{ value: null }])
      expect(entered).toHaveLength(1)
    },
  )

  it('a tool result nested as deep as allowed reaches the model, and the body is entered once', async () => {
    const { told, entered } = await play({ calls: [use(effect)], body: () => nested(MAX_DEPTH + 1) })
    expect(told).toMatchObject([{ content: JSON.stringify(nested(MAX_DEPTH + 1)), isError: false }])
    expect(entered).toHaveLength(1)
  })

  it('a tool result of more than 4 MB is kept in the store, and reaches the model whole', async () => {
    const large = 'y'.repeat(size(4_300_000, 10_000_000))
    const { told, events, entered } = await play({ calls: [use(effect)], body: () => large })
    expect(told[0]?.content === large).toBe(true)
    expect(ofType(events, 'tool_completed')[0]?.blob?.bytes).toBeGreaterThan(large.length)
    expect(entered).toHaveLength(1)
  })
})

const unreadable = new Error('unreadable')
for (const name of ['message', 'name', 'code']) {
  Object.defineProperty(unreadable, name, {
    get() {
      throw new Error('do not look')
    },
  })
}

const THROWN: Record<string, { thrown: unknown; class: string; message: string }> = {
  text: { thrown: 'just text', class: 'string', message: 'just text' },
  undefined: { thrown: undefined, class: 'undefined', message: 'A value that is not an Error was thrown: undefined' },
  'an empty text': { thrown: '', class: 'string', message: 'string was thrown without a message.' },
  'a symbol': { thrown: Symbol('s'), class: 'symbol', message: 'A value that is not an Error was thrown: Symbol(s)' },
  'an object without a prototype': {
    thrown: Object.create(null),
    class: 'object',
    message: 'A value that is not an Error was thrown: (no text)',
  },
  'an Error that cannot be looked at': { thrown: unreadable, class: 'Error', message: 'Error was thrown without a message.' },
  'an Error without the members of one': {
    thrown: Object.assign(new Error('x'), { message: 7, name: null, code: {} }),
    class: 'Error',
    message: '7',
  },
}

describe.concurrent('a tool that throws', () => {
  it.each(Object.keys(THROWN))(
    'a tool that throws %s fails each attempt as usual, and the model then gets an error result',
    async (what) => {
      const { thrown, ...error } = THROWN[what] ?? expect.fail('nothing to throw')
      const { told, events, entered } = await play({
        calls: [use('read')],
        body() {
          throw thrown
        },
      })
      expect(entered.map(({ attempt }) => attempt)).toEqual([1, 2])
      expect(ofType(events, 'tool_attempt_failed')).toMatchObject([
        { error: { attempt: 1, ...error, retryable: true } },
        { error: { attempt: 2, ...error, retryable: false } },
      ])
      expect(ofType(events, 'tool_failed')).toMatchObject([{ code: 'tool_failed', message: error.message }])
      expect(told).toMatchObject([{ isError: true }])
    },
  )

  it('a ToolError with a very long code has the code truncated', async () => {
    const { events } = await play({
      calls: [use('read')],
      body() {
        throw new ToolError('no', { code: 'c'.repeat(3_000_000), retryable: false })
      },
    })
    expect(ofType(events, 'tool_failed')).toMatchObject([{ code: 'c'.repeat(200) }])
  })

  it.each(['read', 'idempotent'] as const)(
    'a tool that throws after its effect and is %s is entered again with the same key',
    async (effect) => {
      const done: string[] = []
      const { told, entered } = await play({
        calls: [use(effect)],
        body(_input, { idempotencyKey, attempt }) {
          if (!done.includes(idempotencyKey)) done.push(idempotencyKey)
          if (attempt === 1) throw new Error('the reply was lost')
          return 'done'
        },
      })
      expect(told).toMatchObject([{ content: 'done', isError: false }])
      expect(entered).toHaveLength(2)
      expect(done).toHaveLength(1)
    },
  )

  it('a tool that throws after its effect and is external is verified and not entered again', async () => {
    const done: string[] = []
    const { told, entered, events } = await play({
      calls: [use('external')],
      body(_input, { idempotencyKey }) {
        done.push(idempotencyKey)
        throw new Error('the reply was lost')
      },
      verify: ({ idempotencyKey }) => (done.includes(idempotencyKey) ? { happened: true, result: 'found' } : { happened: false }),
    })
    expect(told).toMatchObject([{ content: 'found', isError: false }])
    expect(entered).toHaveLength(1)
    expect(ofType(events, 'tool_resolved')).toMatchObject([{ by: 'verify', happened: true }])
  })
})

describe.concurrent('a tool that never returns', () => {
  it.each(['read', 'idempotent'] as const)(
    'a tool that never returns and is %s times out, is entered again with the same key, and then fails',
    async (effect) => {
      const { told, entered, events } = await play({ calls: [use(`short_${effect}`)], body: () => new Promise(() => undefined) })
      expect(entered.map(({ attempt }) => attempt)).toEqual([1, 2])
      expect(new Set(entered.map(({ key }) => key)).size).toBe(1)
      expect(ofType(events, 'tool_attempt_failed').map(({ error }) => [error.attempt, error.class])).toEqual([
        [1, 'Timeout'],
        [2, 'Timeout'],
      ])
      expect(ofType(events, 'tool_failed')).toMatchObject([{ code: 'timeout' }])
      expect(told).toMatchObject([{ isError: true, content: expect.stringContaining('300 ms') }])
    },
  )

  it.each<[Verdict<unknown>['happened'], string]>([
    [true, 'completed'],
    ['unknown', 'unknown'],
  ])(
    'an external tool that never returns is verified; if happened is %s, the call is %s and is not entered again',
    async (happened, status) => {
      const { entered, session } = await play({
        calls: [use('short_external')],
        body: () => new Promise(() => undefined),
        verify: () => (happened === true ? { happened, result: 'found' } : { happened: 'unknown' }),
      })
      expect(entered).toHaveLength(1)
      expect(await stored(session)).toMatchObject([{ status }])
    },
  )
})

/** The ledger's rows, once the session is stored. */
async function stored(session: SessionHandle) {
  await until('it is stored', async () => (await here.pawl.sessions.get(session.id)).status === 'idle')
  return session.toolCalls()
}
