// One intent, one effect: what a completed idempotency key answers across runs, executions, closing, forks and rollbacks, by its scope.
import { randomUUID } from 'node:crypto'
import { type Agent, defineAgent, defineTool, type Idempotency, type JsonObject, ToolError } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { inOrder, resultsIn, stage, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { size } from '../support/sizes.ts'

/** Events of history at which sessions continue as new. */
const DUE = size(100, 1_000)

/** Each entry into a tool's body, with the key it was given. */
const entered: { session: string; tool: string; key: string }[] = []

const tool = (name: string, effect: 'idempotent' | 'external', idempotency?: Idempotency<{ order: string; note?: string | undefined }>) =>
  defineTool({
    name,
    description: name,
    effect,
    input: z.object({ order: z.string(), note: z.string().optional() }),
    ...(idempotency && { idempotency }),
    execute: ({ order }, ctx) => {
      entered.push({ session: ctx.sessionId, tool: name, key: ctx.idempotencyKey })
      return `${name} ${order} (${entered.filter(({ session }) => session === ctx.sessionId).length})`
    },
  })

const agent = defineAgent({
  name: 'keyed',
  instructions: '',
  // A message says which tools to call with what, and the answer is their results.
  model: scripted((request): ScriptedAnswer => {
    const last = request.messages.at(-1)
    if (typeof last?.content !== 'string') {
      return resultsIn(request)
        .map(({ content }) => String(content))
        .join(' | ')
    }
    const calls = JSON.parse(last.content) as [string, JsonObject][]
    return calls.map(([name, input], index) => ({ type: 'tool_use', id: `toolu_${index}`, name, input }))
  }),
  tools: [
    tool('per_run', 'idempotent'),
    tool('per_session', 'external', 'session'),
    tool('per_call', 'idempotent', 'call'),
    tool('per_order', 'external', ({ order }) => `order-${order}`),
    tool('other_per_order', 'external', ({ order }) => `order-${order}`),
    defineTool({
      name: 'unsure',
      description: 'unsure',
      effect: 'external',
      onUnknown: 'tell_model',
      input: z.object({ order: z.string() }),
      execute: ({ order }, ctx) => {
        entered.push({ session: ctx.sessionId, tool: `unsure ${order}`, key: ctx.idempotencyKey })
        throw new Error('the connection was lost')
      },
    }),
    tool('keyless', 'external', () => ''),
    tool('broken', 'external', () => {
      throw new Error('the key service is away')
    }),
  ],
}) as Agent

let here: Deployment
beforeAll(async () => {
  here = await deploy({ history: { events: DUE } })
  await here.startWorker({ agents: [agent] })
})
afterAll(() => here?.stop())

const A = { order: 'a' }
const newSession = (): SessionHandle => here.pawl.session(`k-${randomUUID()}`, { agent: 'keyed' })

/** Has the model call these tools in one turn; returns the results that it was told. */
async function calling(session: SessionHandle, ...calls: [string, JsonObject][]): Promise<string[]> {
  const { text } = await (await session.send(JSON.stringify(calls))).result({ timeout: 60_000 })
  return text.split(' | ')
}

/** All four scopes at once. */
const everyScope = (session: SessionHandle): Promise<string[]> =>
  calling(session, ['per_run', A], ['per_session', A], ['per_call', A], ['per_order', A])

const FIRST = ['per_run a (1)', 'per_session a (2)', 'per_call a (3)', 'per_order a (4)']
/** What a later run is told. */
const LATER = [
  'per_run a (5)',
  '[idempotent replay of t_1_1_1]\nper_session a (2)',
  'per_call a (6)',
  '[idempotent replay of t_1_1_3]\nper_order a (4)',
]

describe.concurrent('a completed key', () => {
  it('a completed key of one tool does not answer another tool, even if their functions return the same key', async () => {
    const session = newSession()
    const both = (): Promise<string[]> => calling(session, ['per_order', A], ['other_per_order', A])
    expect(await both()).toEqual(['per_order a (1)', 'other_per_order a (2)'])
    expect(await both()).toEqual([
      '[idempotent replay of t_1_1_0]\nper_order a (1)',
      '[idempotent replay of t_1_1_1]\nother_per_order a (2)',
    ])
    const own = entered.filter((one) => one.session === session.id).map(({ key }) => key)
    expect(own).toEqual(['per_order:order-a', 'other_per_order:order-a'])
  })

  it('a completed key answers the same call in another run if its scope is the session, or if the tool computes it', async () => {
    const session = newSession()
    expect(await everyScope(session)).toEqual(FIRST)
    expect(await everyScope(session)).toEqual(LATER)
  })

  it('a completed key also answers a call of the same turn, unless its scope is the call', async () => {
    const calls = await calling(newSession(), ['per_run', A], ['per_run', A], ['per_call', A], ['per_call', A])
    expect(calls).toEqual(['per_run a (1)', '[idempotent replay of t_1_1_0]\nper_run a (1)', 'per_call a (2)', 'per_call a (3)'])
  })

  it('a completed key depends on what the arguments mean, not on how they are written', async () => {
    const session = newSession()
    await calling(session, ['per_session', { order: 'a', note: 'n' }])
    expect(await calling(session, ['per_session', { note: 'n', order: 'a' }])).toEqual([
      '[idempotent replay of t_1_1_0]\nper_session a (1)',
    ])
    expect(await calling(session, ['per_session', { order: 'a', note: 'm' }])).toEqual(['per_session a (2)'])
  })

  it('a completed key that the tool computes itself also answers other arguments', async () => {
    const session = newSession()
    await calling(session, ['per_order', { order: 'a', note: 'please' }])
    expect(await calling(session, ['per_order', { order: 'a', note: 'now!' }])).toEqual(['[idempotent replay of t_1_1_0]\nper_order a (1)'])
    expect(entered.filter((one) => one.session === session.id).map(({ key }) => key)).toEqual(['per_order:order-a'])
  })

  it('a completed key answers after the session was closed and resumed', async () => {
    const session = newSession()
    expect(await everyScope(session)).toEqual(FIRST)
    await session.close()
    await until('it is closed', async () => (await session.state()).status === 'closed')
    expect(await everyScope(session)).toEqual(LATER)
  })

  it('a completed key answers after the session continued as new', async () => {
    const session = newSession()
    expect(await everyScope(session)).toEqual(FIRST)
    const handle = here.temporal.workflow.getHandle(`pawl:${session.id}`)
    const { runId } = await handle.describe()
    // An interrupt of an idle session only adds an event to its history.
    for (let n = 0; n < DUE + 50; n += 50) await Promise.all(Array.from({ length: 50 }, () => handle.signal('interrupt')))
    await until('it continued as new', async () => (await handle.describe()).runId !== runId)
    expect(await everyScope(session)).toEqual(LATER)
  })

  it('a completed key answers after 120 other keys, which the state of the session no longer holds', async () => {
    const session = newSession()
    expect(await everyScope(session)).toEqual(FIRST)
    await calling(session, ...Array.from({ length: 120 }, (_, n): [string, JsonObject] => ['per_order', { order: `o${n}` }]))
    expect((await everyScope(session)).filter((told) => told.startsWith('[idempotent'))).toEqual([LATER[1], LATER[3]])
  })

  it('a completed key still answers after a rollback to a point before it: the effect stays', async () => {
    const session = newSession()
    await calling(session, ['per_call', A])
    await calling(session, ['per_session', A])
    await session.rollback({ checkpoint: 1 })
    expect(await calling(session, ['per_session', A])).toEqual(['[idempotent replay of t_2_1_0]\nper_session a (2)'])
  })

  it('a completed key answers in a fork that carries the keys along, and in a fork of that fork', async () => {
    const session = newSession()
    expect(await everyScope(session)).toEqual(FIRST)
    const fork = await session.fork({ id: `k-${randomUUID()}` })
    const told = ['per_run a (1)', LATER[1], 'per_call a (2)', LATER[3]]
    expect(await everyScope(fork)).toEqual(told)
    expect(await everyScope(await fork.fork({ id: `k-${randomUUID()}` }))).toEqual(told)
    // What the fork does from now on is its own, except for what counts for both.
    expect(await everyScope(session)).toEqual(LATER)
  })

  it('a completed key does not answer in a fork that has forgotten the keys, unless it is the fork’s own', async () => {
    const session = newSession()
    expect(await everyScope(session)).toEqual(FIRST)
    const fork = await session.fork({ id: `k-${randomUUID()}`, keys: 'forgotten' })
    expect(await everyScope(fork)).toEqual(FIRST)
    expect((await everyScope(fork)).filter((told) => told.startsWith('[idempotent'))).toEqual([
      '[idempotent replay of t_2_1_1]\nper_session a (2)',
      '[idempotent replay of t_2_1_3]\nper_order a (4)',
    ])
    // The key that the tool computes belongs to the outside world and is the same; the others belong to another session.
    const keysOf = (id: string, name: string) => entered.filter((one) => one.session === id && one.tool === name).map(({ key }) => key)
    expect(keysOf(fork.id, 'per_order')).toEqual(keysOf(session.id, 'per_order'))
    expect(keysOf(fork.id, 'per_session')).not.toEqual(keysOf(session.id, 'per_session'))
  })
})

it('a rollback that forgets effects forgets all after its target, also those that it has no room to report', async () => {
  const session = newSession()
  const B = { order: 'b' }
  expect(await calling(session, ['per_session', A])).toEqual(['per_session a (1)'])
  const many = (name: string) => Array.from({ length: 60 }, (_, n): [string, JsonObject] => [name, { order: `${n}` }])
  const calls = [['per_session', B], ...many('unsure'), ...many('per_run')]
  await (await session.send(JSON.stringify(calls), { messageId: 'wrong' })).result({ timeout: 120_000 })
  // The session's state remembers the 50 newest unknown outcomes, some of which are not among the 100 newest effects.
  expect(await session.rollback({ message: 'wrong', keys: 'forgotten' })).toMatchObject({ moreEffects: 21 })
  const [first, second] = await calling(session, ['per_session', A], ['per_session', B], ['unsure', { order: '15' }])
  expect([first, second]).toEqual(['[idempotent replay of t_1_1_0]\nper_session a (1)', expect.stringMatching(/^per_session b/)])
  const again = entered.filter((one) => one.session === session.id && one.tool === 'unsure 15')
  expect(again).toHaveLength(2)
})

it.each([
  ['keyless', /must return a string of 1 to 1,000 characters/],
  ['broken', /the key service is away/],
] as const)('a call whose key cannot be computed (%s) is an error result, and no body is entered', async (name, says) => {
  const session = newSession()
  const [told] = await calling(session, [name, A])
  expect(told).toMatch(/^The call cannot be made: its idempotency key could not be computed/)
  expect(told).toMatch(says)
  expect(entered.filter((one) => one.session === session.id)).toEqual([])
})

it('a fork’s key with the scope of its session is the same for a build that resolves the call again', async () => {
  const own = await deploy()
  try {
    const keys: string[] = []
    const build = (input: z.ZodType, done: boolean) =>
      defineAgent({
        name: 'keyed',
        instructions: '',
        model: scripted((request): ScriptedAnswer => {
          if (request.messages.at(-1)?.content !== 'go') return 'done'
          return [{ type: 'tool_use', id: 'toolu_0', name: 'put', input: A }]
        }),
        tools: [
          defineTool({
            name: 'put',
            description: 'put',
            effect: 'idempotent',
            idempotency: 'session',
            input,
            retry: { maxRetries: 9 },
            execute(_input, ctx) {
              keys.push(ctx.idempotencyKey)
              if (!done) throw new ToolError('not now', { retryAfter: '1s' })
            },
          }),
        ],
      }) as Agent
    const before = await own.startWorker({ agents: [build(z.object({ order: z.string() }), false)] })
    const session = own.pawl.session(`k-${randomUUID()}`, { agent: 'keyed' })
    await (await session.send('hello')).result({ timeout: 30_000 })
    const fork = await session.fork()
    const run = await fork.send('go')
    await until('it was tried', () => keys.length > 0)
    await before.stop()
    await own.startWorker({ agents: [build(z.object({ order: z.string(), how: z.string().optional() }), true)] })
    expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'done' })
    expect(keys.length).toBeGreaterThan(1)
    expect(new Set(keys).size).toBe(1)
  } finally {
    await own.stop()
  }
})

it('a call with an unknown outcome is not made again, however many others have become unknown since', { timeout: 120_000 }, async () => {
  const own = await deploy()
  try {
    const player = stage()
    await own.startWorker({ agents: [player.agent] })
    const others = Array.from({ length: 60 }, (_, n) => use('wire', `other ${n}`))
    const played = player.play(own.pawl, {
      model: inOrder([use('wire', 'rent'), ...others], [use('wire', 'rent')], 'done'),
      wire() {
        throw new Error('no answer')
      },
    })
    await (await played.session.send('go')).result({ timeout: 90_000 })
    expect(played.entries.filter(({ input }) => input.what === 'rent')).toHaveLength(1)
    const [told] = resultsIn(played.requests.at(-1) ?? expect.fail('no model was asked'))
    expect(told?.content).toContain('The same call was made before, as t_1_1_0. It may have taken effect')
  } finally {
    await own.stop()
  }
})
