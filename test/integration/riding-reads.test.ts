// Riding reads: reads of tools that have proved to be quick run as part of the model call that requests them.
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Agent, defineAgent, defineHook, defineTool, ToolError, type SessionEvent, type ToolContext } from 'pawl'
import type { Pawl, SessionHandle } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { workflowIdOf } from '../../src/session/protocol/protocol.ts'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn, use } from '../support/scenes.ts'
import { gate } from '../support/until.ts'

type Body = (what: string, ctx: ToolContext) => unknown

/** What a session's model requests in each turn, and what its reads do. */
interface Scene {
  turns: ScriptedAnswer[]
  look?: Body
}

const TIMEOUT = { timeout: 30_000 }
/** As many calls as must be quick before a tool's reads ride. */
const WARM: Scene = { turns: [Array.from({ length: 20 }, (_, index) => use('look', `${index}`))] }

const scenes = new Map<string, Scene>()
let here: Deployment

const looker = (name: string, quick: boolean) =>
  defineAgent({
    name,
    instructions: '',
    model: scripted((request) => scenes.get(request.sessionId)?.turns[answersIn(request)] ?? 'done'),
    tools: [
      defineTool({
        name: 'look',
        description: 'Looks.',
        input: z.object({ what: z.string() }),
        effect: 'read',
        quick,
        retry: { maxRetries: 1, baseDelay: 10 },
        execute: ({ what }, ctx) => scenes.get(ctx.sessionId)?.look?.(what, ctx) ?? what,
      }),
      defineTool({ name: 'put', description: 'Puts.', input: z.object({ what: z.string() }), effect: 'idempotent', execute: () => 'put' }),
    ],
    hooks: [
      defineHook({
        on: 'preToolUse',
        name: 'before',
        run: ({ args }) => (args.what === 'plain' ? { modify: { what: 'changed' } } : undefined),
      }),
      defineHook({ on: 'postToolUse', name: 'after', run: (_, { emit }) => emit('after', {}) }),
    ],
  }) as Agent

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [looker('quick', true), looker('ordinary', false)] })
})
afterAll(() => here?.stop())

function open(scene: Scene, agent = 'quick', pawl: Pawl = here.pawl): SessionHandle {
  const id = `ride-${randomUUID()}`
  scenes.set(id, scene)
  return pawl.session(id, { agent }) as SessionHandle
}

async function play(scene: Scene, agent?: string, pawl?: Pawl): Promise<SessionHandle> {
  const session = open(scene, agent, pawl)
  await (await session.send('go')).settled(TIMEOUT)
  return session
}

/** How many activities the session had for its calls. */
async function activities({ id }: SessionHandle): Promise<number> {
  const { events = [] } = await here.temporal.workflow.getHandle(workflowIdOf(id)).fetchHistory()
  return events?.filter((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'executeTool').length ?? 0
}

/** Plays until the tool's reads ride: another process on this machine may have slowed some of those that are measured. */
async function warm(): Promise<void> {
  for (let round = 0; round < 10; round += 1) if ((await activities(await play(WARM))) === 0) return
  expect.fail('the reads did not become quick')
}

/** The events of each call, and of the session, without what differs between two sessions. Calls of a turn run side by side. */
function comparable(events: readonly SessionEvent[]): Record<string, unknown[]> {
  const own = new Set([
    'at',
    'seq',
    'executionId',
    'startedAt',
    'sessionId',
    'epoch',
    'digest',
    'messageId',
    'facts',
    'promptDigest',
    'agent',
    'takes',
    'worker',
  ])
  const byCall: Record<string, unknown[]> = {}
  for (const event of events) {
    if (event.type === 'agent_declared') continue
    const compared = JSON.parse(JSON.stringify(event, (name, value: unknown) => (own.has(name) ? undefined : value))) as unknown
    const of = 'callId' in event ? (event.callId ?? 'session') : 'session'
    byCall[of] = [...(byCall[of] ?? []), compared]
  }
  return byCall
}

it('reads that ride take no activities of their own, and leave the events and rows of ordinary reads', async () => {
  await warm()
  const scene: Scene = {
    turns: [[use('look', 'plain'), use('look', 'other')], [use('look', 'reports')], [use('look', 'refused')], [use('look', 'large')]],
    look(what, ctx) {
      if (what === 'refused') throw new ToolError('no such thing', { retryable: false, code: 'refused' })
      if (what === 'large') return 'x'.repeat(200_000)
      if (what !== 'reports') return { what, attempt: ctx.attempt, key: ctx.idempotencyKey, call: ctx.callId }
      ctx.progress({ done: 1 })
      ctx.milestone('half')
      ctx.emit('looked', { what })
      ctx.spend({ usd: 0.01 })
      return 'reported'
    },
  }
  const riding = await play(scene)
  const ordinary = await play(scene, 'ordinary')
  expect([await activities(riding), await activities(ordinary)]).toEqual([0, 5])
  const [one, other] = [await rowsMatchEvents(here.stack, riding.id), await rowsMatchEvents(here.stack, ordinary.id)]
  expect(comparable(one.events)).toEqual(comparable(other.events))
  expect(ofType(one.events, 'tool_completed').map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1])
  expect(ofType(one.events, 'hook_answered').length).toBeGreaterThan(0)
})

it('an answer with any call that is not a quick read runs as activities, and so does every read of a tool with `quick: false`', async () => {
  await warm()
  expect(await activities(await play({ turns: [[use('look', 'a'), use('put', 'b')]] }))).toBe(2)
  await play(WARM, 'ordinary')
  expect(await activities(await play(WARM, 'ordinary'))).toBe(20)
})

it('a riding read that throws is a failed attempt, and the next attempt is an activity', async () => {
  await warm()
  const session = await play({
    turns: [[use('look', 'a')]],
    look: (_, { attempt }) => (attempt === 1 ? Promise.reject(new Error('not yet')) : `attempt ${attempt}`),
  })
  const { events } = await rowsMatchEvents(here.stack, session.id)
  expect(ofType(events, 'tool_attempt_failed')).toMatchObject([{ error: { attempt: 1, message: 'not yet', retryable: true } }])
  expect(ofType(events, 'tool_completed')).toMatchObject([{ attempt: 2, value: 'attempt 2' }])
  expect(await activities(session)).toBe(1)
})

it('a riding read that has not ended after a second continues as an activity with the progress it reported, and no longer rides', async () => {
  await warm()
  const session = await play({
    turns: [[use('look', 'fast'), use('look', 'slow')], [use('look', 'fast')]],
    async look(what, ctx) {
      if (what === 'fast') return what
      if (ctx.lastProgress !== undefined) return ctx.lastProgress
      ctx.progress('half way')
      ctx.spend({ usd: 0.5 })
      await new Promise((resolve) => setTimeout(resolve, 3_000))
      return 'never seen'
    },
  })
  const { events } = await rowsMatchEvents(here.stack, session.id)
  const left = { attempt: 1, class: 'LeftModelCall', retryable: true, nextDelayMs: 0 }
  expect(ofType(events, 'tool_attempt_failed')).toMatchObject([{ callId: 't_1_1_1', error: left }])
  expect(ofType(events, 'tool_completed')).toMatchObject([
    { callId: 't_1_1_0', attempt: 1, value: 'fast' },
    { callId: 't_1_1_1', attempt: 2, value: 'half way' },
    { callId: 't_1_2_0', attempt: 1, value: 'fast' },
  ])
  expect(ofType(events, 'spent').filter(({ usd }) => usd === 0.5)).toHaveLength(1)
  expect(await activities(session)).toBe(2)
})

it('riding reads whose results are too large together leave what does not fit to activities', async () => {
  await warm()
  const session = await play({
    turns: [Array.from({ length: 6 }, (_, index) => use('look', `${index}`))],
    look: () => 'x'.repeat(120_000),
  })
  const { events } = await rowsMatchEvents(here.stack, session.id)
  expect(ofType(events, 'tool_attempt_failed').map(({ callId }) => callId)).toEqual(['t_1_1_4', 't_1_1_5'])
  expect(ofType(events, 'tool_completed').map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1, 2, 2])
  expect(await activities(session)).toBe(2)
})

it('an interrupt during riding reads keeps the answer and the finished reads, and does not wait for a read that ignores it', async () => {
  await warm()
  const door = gate()
  const session = open({
    turns: [[use('look', 'a'), use('look', 'b')]],
    look: (what) => (what === 'a' ? 'seen' : door.pass()),
  })
  const run = await session.send('go')
  await door.reached
  await session.interrupt()
  expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
  door.open()
  const { events } = await rowsMatchEvents(here.stack, session.id)
  expect(ofType(events, 'model_completed')).toHaveLength(1)
  expect(ofType(events, 'tool_completed')).toMatchObject([{ callId: 't_1_1_0', value: 'seen' }])
  expect(ofType(events, 'tool_failed')).toMatchObject([{ callId: 't_1_1_1', code: 'interrupted' }])
  expect(await activities(session)).toBe(0)
})

it('every read is an activity of its own if the worker has PAWL_QUICK_CALLS=off', async () => {
  const taskQueue = `${here.taskQueue}-off`
  process.env.PAWL_QUICK_CALLS = 'off'
  try {
    await here.startWorker({ agents: [looker('quick', true)], taskQueue })
  } finally {
    delete process.env.PAWL_QUICK_CALLS
  }
  const pawl = await here.connect({ taskQueue })
  await play(WARM, 'quick', pawl)
  expect(await activities(await play(WARM, 'quick', pawl))).toBe(20)
})

it('if an executor is killed during a riding read, the next attempt of the model call uses the same answer and its reads do not ride', async () => {
  const taskQueue = `${here.taskQueue}-killed`
  const { temporalAddress: address, namespace, databaseUrl: postgres } = here.stack
  const supervisor = await superviseWorkers({
    module: fileURLToPath(new URL('./fixtures/riding.ts', import.meta.url)),
    processes: 1,
    temporal: { address, namespace },
    taskQueue,
    postgres,
    logger: SILENT,
  })
  const folder = await mkdtemp(join(tmpdir(), 'pawl-riding-'))
  try {
    await supervisor.ready()
    const pawl = await here.connect({ taskQueue })
    const say = async (text: string): Promise<SessionHandle> => {
      const session = pawl.session(`ride-${randomUUID()}`, { agent: 'looker' }) as SessionHandle
      await (await session.send(text)).result({ timeout: 60_000 })
      return session
    }
    const many = Array.from({ length: 20 }, (_, index) => index).join(' ')
    for (let round = 0; (await activities(await say(many))) > 0; round += 1) expect(round).toBeLessThan(10)
    const path = join(folder, 'died')
    const session = await say(`a ${path}`)
    const { events } = await rowsMatchEvents(here.stack, session.id)
    expect(ofType(events, 'model_attempt_failed')).toMatchObject([{ error: { attempt: 1, class: 'WorkerDied' } }])
    expect(ofType(events, 'model_completed').map(({ turn, attempt }) => [turn, attempt])).toEqual([
      [1, 2],
      [2, 1],
    ])
    const completed = ofType(events, 'tool_completed').map(({ attempt, value }) => [attempt, value])
    // In parallel, in any order.
    expect(completed.sort()).toEqual([
      [1, path],
      [1, 'a'],
    ])
    expect(await activities(session)).toBe(2)
  } finally {
    await supervisor.shutdown()
    await rm(folder, { recursive: true, force: true })
  }
})
