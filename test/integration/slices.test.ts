// Slices: what instructions and tools see of them, and what a client reads, through rollbacks, forks, dead executions and new versions.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type Agent, defineAgent, defineSlice, defineTool, ModelError, type Slice, type SlicesOf, type Tool, ToolError } from 'pawl'
import type { ListedCheckpoint, SessionHandle } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { workflowIdOf } from '../../src/session/protocol/protocol.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { resultsIn, saidIn, use } from '../support/scenes.ts'
import { type Gate, gate, until } from '../support/until.ts'

const LARGE = 'x'.repeat(200_000)

/** What the agent did, in order. */
const done = defineSlice({
  name: 'done',
  version: 1,
  schema: z.object({ items: z.array(z.string()), bytes: z.number() }),
  initial: { items: [], bytes: 0 },
  on: {
    emitted: (value, { name }) => ({ ...value, items: [...value.items, name] }),
    tool_completed: (value, { value: result, replayOf }) =>
      replayOf === undefined ? { ...value, bytes: value.bytes + String(result).length } : value,
    message_received: (value, { content }) => {
      if (content === 'break') throw new Error('no break')
      return value
    },
  },
})
/** The same slice as a later build defines it. */
const doneLater = defineSlice({
  name: 'done',
  version: 2,
  schema: z.object({ count: z.number() }),
  initial: { count: 0 },
  on: { emitted: ({ count }) => ({ count: count + 1 }) },
})

type Done = { items: string[]; bytes: number }

/** What the tool saw of the slice, by session and by the tool's argument `what`. */
const seen = new Map<string, Record<string, Done>>()
/** The gates that hold a session's call `wait`. */
const held = new Map<string, { entered: Gate; end: Gate }>()

const act = defineTool.withTypes<{ slices: SlicesOf<[typeof done]> }>()({
  name: 'act',
  description: 'Acts.',
  input: z.object({ what: z.string() }),
  effect: 'idempotent',
  async execute({ what }, ctx) {
    seen.set(ctx.sessionId, { ...seen.get(ctx.sessionId), [what]: ctx.slices.done })
    ctx.emit(what)
    const hold = what === 'wait' ? held.get(ctx.sessionId) : undefined
    hold?.entered.open()
    await hold?.end.pass(ctx.signal)
    return what === 'large' ? LARGE : what
  },
})

/** Does what the message says, word by word, in one turn; then answers with its system prompt. */
const model = scripted((request): ScriptedAnswer => {
  const last = request.messages.at(-1)
  if (resultsIn(request).length > 0 && typeof last?.content !== 'string') return request.system
  return (saidIn(request).at(-1) ?? '').split(' ').map((what) => use('act', what))
})
const agent = defineAgent({
  name: 'doer',
  model,
  instructions: (_, ctx) => JSON.stringify(ctx.slices.done),
  tools: [act],
  slices: [done],
})
const agentLater = defineAgent({
  name: 'doer',
  model,
  instructions: (_state, ctx) => JSON.stringify(ctx.slices.done),
  tools: [{ ...act, execute: (input: unknown) => (input as { what: string }).what } as Tool],
  slices: [doneLater],
})

/** The sessions in which the call of `flaky` works. */
const repaired = new Set<string>()
/** Requests a call, and fails if the call failed. */
const flaky = defineAgent({
  name: 'flaky',
  model: scripted((request) => {
    if (resultsIn(request).length === 0) return [use('try', 'it')]
    if (resultsIn(request).some(({ isError }) => isError)) throw new ModelError('broken', 'it is broken', { retryable: false })
    return JSON.stringify(resultsIn(request))
  }),
  instructions: 'Try.',
  slices: [done],
  tools: [
    defineTool({
      name: 'try',
      description: 'Tries.',
      input: z.object({ what: z.string() }),
      effect: 'idempotent',
      execute(_input, ctx) {
        if (!repaired.has(ctx.sessionId)) throw new ToolError('it is down', { retryable: false })
        ctx.emit('tried')
        return 'done'
      },
    }),
  ],
})

interface Warned {
  fields: Record<string, unknown>
  message: string | undefined
}
const warned: Warned[] = []
const ignore = (): void => undefined
const logger = {
  debug: ignore,
  info: ignore,
  error: ignore,
  warn: (fields: object, message?: string) => void warned.push({ fields: { ...fields }, message }),
}

let here: Deployment
beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [agent as Agent, flaky as Agent], logger })
})
afterAll(() => here?.stop())

const open = (where = here): SessionHandle => where.pawl.session(`slices-${randomUUID()}`, { agent: 'doer' })

async function say(session: SessionHandle, text: string): Promise<unknown> {
  return JSON.parse((await (await session.send(text)).result({ timeout: 30_000 })).text)
}

/** Waits until the store has the session's checkpoints: a run may be over before it is stored. */
async function checkpointsOf(session: SessionHandle): Promise<ListedCheckpoint[]> {
  const made = ofType(await eventsOf(session), 'checkpoint_made')
  return until('its checkpoints are stored', async () => {
    const stored = await session.checkpoints()
    return stored.length === made.length && stored
  })
}

async function inPostgres({ stack }: Deployment, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(stack.databaseUrl)
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows
  } finally {
    await client.end()
  }
}

/** The rows of the session's slices, without the columns that only the store reads. */
function storedSlices(where: Deployment, { id }: SessionHandle): Promise<Record<string, unknown>[]> {
  const columns = 'slice, version, agent, tags, value, checkpoint, seq, created_at'
  return inPostgres(where, `select ${columns} from pawl.slices where session_id = '${id}' order by seq, version`)
}

/** The slice of a session that received these messages and nothing else. */
async function undisturbed(...texts: string[]): Promise<Done> {
  const session = open()
  for (const text of texts) await say(session, text)
  return session.slice(done)
}

describe.concurrent('a slice', () => {
  it('instructions and tools see a slice as it was before their step, including large values', async () => {
    const session = open()
    expect(await say(session, 'one large')).toEqual({ items: ['one', 'large'], bytes: 3 + LARGE.length })
    expect(seen.get(session.id)).toEqual({
      one: { items: [], bytes: 0 },
      large: { items: ['one'], bytes: 3 },
    })
    expect(await session.slice(done)).toEqual({ items: ['one', 'large'], bytes: 3 + LARGE.length })
  })

  it('a slice can be read at a checkpoint, and over time', async () => {
    const session = here.pawl.session(`slices-${randomUUID()}`, { agent: 'doer', tags: ['vip'] })
    await say(session, 'one')
    await say(session, 'two')
    const all = await session.slice(done, { all: true })
    expect(all.map(({ value, tags }) => [value.items, tags])).toEqual([
      [['one'], ['vip']],
      [['one', 'two'], ['vip']],
    ])
    const checkpoints = new Map((await checkpointsOf(session)).map(({ version, seq, createdAt }) => [version, { seq, createdAt }]))
    for (const { checkpoint, seq, createdAt, value } of all) {
      expect(checkpoints.get(checkpoint ?? 0)).toEqual({ seq, createdAt })
      expect(await session.slice(done, { at: checkpoint ?? 0 })).toEqual(value)
    }
    await expect(session.slice(done, { at: 99 })).rejects.toMatchObject({ code: 'checkpoint_not_found' })
    await expect(session.slice(done, { at: 0 })).rejects.toMatchObject({ code: 'invalid_option' })
    await expect(session.slice({ name: 'done' } as never)).rejects.toMatchObject({ code: 'invalid_option' })
    await expect(here.pawl.session(`slices-${randomUUID()}`).slice(done)).rejects.toMatchObject({ code: 'session_not_found' })
  })

  it('a slice is the same after a rollback and in a fork as in a session that never went further', async () => {
    const session = open()
    await say(session, 'one')
    const [{ version } = expect.fail('no checkpoint')] = await checkpointsOf(session)
    await say(session, 'two')
    const fork = await session.fork({ checkpoint: version, id: `slices-${randomUUID()}` })
    await session.rollback({ checkpoint: version })
    expect(await session.slice(done)).toEqual(await undisturbed('one'))
    const expected = await undisturbed('one', 'three')
    expect(await say(session, 'three')).toEqual(expected)
    expect(await say(fork, 'three')).toEqual(expected)
    expect([await session.slice(done), await fork.slice(done)]).toEqual([expected, expected])
  })

  it('a slice has the newest outcome of a call after a rollback, and at the checkpoint what was known there', async () => {
    const session = here.pawl.session(`slices-${randomUUID()}`, { agent: 'flaky' })
    const run = await session.send('go')
    expect(await run.settled({ timeout: 30_000 })).toMatchObject({ status: 'failed', code: 'broken' })
    const [{ version } = expect.fail('no checkpoint')] = await checkpointsOf(session)
    repaired.add(session.id)
    await session.recover({ strategy: 'selective', redo: ['t_1_1_0'], by: 'ann' })
    const results = await until('the run has completed', async () => (await run.result({ timeout: 2_000 })).text)
    expect(await until('the slice is stored', async () => (await storedSlices(here, session)).length > 0)).toBe(true)
    await session.rollback({ checkpoint: version })
    const after: Done = { items: ['tried'], bytes: 4 }
    expect(await session.slice(done)).toEqual(after)
    expect(await session.slice(done, { at: version })).toEqual({ items: [], bytes: 0 })
    const [, , shown] = await session.messages()
    expect(JSON.stringify(shown?.content)).toContain(JSON.stringify(JSON.parse(results)[0].content))
    // No checkpoint up to which the rollback went has the slice as it was before the call was made again.
    const valid = (await storedSlices(here, session)).filter(({ checkpoint }) => Number(checkpoint) <= version)
    expect(valid).toEqual([])
  })

  it('a slice is the same after an execution was terminated during a turn as in an undisturbed session', async () => {
    const session = open()
    const hold = { entered: gate(), end: gate() }
    held.set(session.id, hold)
    const run = await session.send('one wait')
    await hold.entered.pass()
    await until('the turn is stored', async () => (await session.toolCalls()).some(({ status }) => status === 'running'))
    await here.temporal.workflow.getHandle(workflowIdOf(session.id)).terminate()
    hold.end.open()
    await session.resume()
    const expected = await undisturbed('one wait')
    expect(JSON.parse((await run.result({ timeout: 30_000 })).text)).toEqual(expected)
    expect(await session.slice(done)).toEqual(expected)
    expect(ofType(await eventsOf(session), 'rolled_back')).toMatchObject([{ keepsRun: true }])
  })

  it('a slice is stored only at the checkpoints before which it changed', async () => {
    const session = here.pawl.session(`slices-${randomUUID()}`, { agent: 'doer', tags: ['vip'] })
    await say(session, 'one')
    await session.checkpoint('as it is')
    await say(session, 'two')
    const moments = (await session.slice(done, { all: true })).filter(({ checkpoint }) => checkpoint !== null)
    const expected = moments.map(({ value, checkpoint, seq, createdAt, tags }) => {
      return { slice: 'done', version: 1, agent: 'doer', tags, value, checkpoint, seq: String(seq), created_at: createdAt }
    })
    expect(expected.length).toBeLessThan((await checkpointsOf(session)).length)
    await until('they are stored', async () => (await storedSlices(here, session)).length >= expected.length)
    expect(await storedSlices(here, session)).toEqual(expected)
    const [query = ''] = /(?<=```sql\n)[^`]+/.exec(readFileSync('docs/slices.md', 'utf8')) ?? []
    const newest = await inPostgres(here, query.replace("'order'", "'done'"))
    expect(newest.filter(({ session_id }) => session_id === session.id)).toMatchObject([{ value: { items: ['one', 'two'], bytes: 6 } }])
  })

  it('a slice is read from its stored value, or folded again with a warning if that does not match its definition', async () => {
    const session = open()
    await say(session, 'one')
    const stored = await until('it is stored', async () => (await storedSlices(here, session)).at(-1))
    const { checkpoint: at } = stored as { checkpoint: number }
    const store = (value: string): Promise<object[]> =>
      inPostgres(here, `update pawl.slices set value = '${value}' where session_id = '${session.id}' and checkpoint = ${at}`)
    const told: (string | undefined)[] = []
    const pawl = await here.connect({ logger: { ...logger, warn: (_, text) => void told.push(text) } })
    const read = (slice: Slice): Promise<unknown> => pawl.session(session.id).slice(slice, { at })
    await store('{"items": ["stored"], "bytes": 1}')
    expect(await read(done)).toEqual({ items: ['stored'], bytes: 1 })
    expect(told).toEqual([])
    expect(await read(doneLater)).toEqual({ count: 1 })
    await store('{"items": "none"}')
    expect(await read(done)).toEqual({ items: ['one'], bytes: 3 })
    expect(told).toEqual([
      'the snapshot of a slice has version 1, not 2: folding it again',
      'the snapshot of a slice does not match its schema: folding it again',
    ])
  })

  it('a slice skips an event for which its reducer throws, and the worker and the client log a warning', async () => {
    const session = open()
    await say(session, 'one')
    await say(session, 'break')
    const about = { session: session.id, slice: 'done', type: 'message_received' }
    const message = 'a slice skipped an event: its reducer threw'
    const isAbout = ({ fields }: Warned): boolean => fields.session === session.id
    await until('the worker has warned', () => warned.some(isAbout))
    expect(warned.filter(isAbout)).toEqual([{ fields: expect.objectContaining(about), message }])
    const told: Warned[] = []
    const client = await here.connect({
      logger: { ...logger, warn: (fields, text) => void told.push({ fields: { ...fields }, message: text }) },
    })
    expect(await client.session(session.id).slice(done)).toEqual({ items: ['one', 'break'], bytes: 8 })
    expect(told).toEqual([{ fields: expect.objectContaining(about), message }])
  })
})

describe('a session that began with an earlier version of a slice', () => {
  it('a session that began with an earlier version of a slice has the value that the new code folds', async () => {
    const own = await deploy()
    try {
      const before = await own.startWorker({ agents: [agent as Agent] })
      const session = open(own)
      await say(session, 'one two')
      await before.stop()
      await own.startWorker({ agents: [agentLater as Agent] })
      expect(await say(session, 'three')).toEqual({ count: 2 })
      // The value that the old code stored stays; the new code stores the value that it folds.
      await until('the value of the new code is stored', async () => (await storedSlices(own, session)).at(-1)?.version === 2)
      expect(await storedSlices(own, session)).toMatchObject([{ version: 1 }, { version: 2, value: { count: 2 } }])
      expect(await session.slice(doneLater)).toEqual({ count: 2 })
      expect(await session.slice(done)).toEqual({ items: ['one', 'two'], bytes: 11 })
    } finally {
      await own.stop()
    }
  })
})
