// Any text and JSON comes out as it went in: for models and tools, in events, in rows, and for clients. Seeds are printed.
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import {
  defineAgent,
  defineTool,
  type Json,
  type JsonObject,
  type ModelRequest,
  type SessionEvent,
  type ToolContext,
  ToolError,
} from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { defined } from '../../src/session/defined.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, resultsIn } from '../support/scenes.ts'
import { seed, size, variants } from '../support/sizes.ts'
import { until } from '../support/until.ts'

const RUNS = size(6, 25)

/** What a session receives and says. */
interface Script {
  message: string
  messageId: string
  metadata: JsonObject
  context: Json
  tags: string[]
  /** What the model says, passes to the tool, and receives. */
  thought: string
  input: Json
  result: Json
  effectId: string
  progress: Json
  milestone: string
  failure: string
  answer: string
}

/** What the process that plays a session's script saw of it. */
interface Seen {
  requests: ModelRequest[]
  instructed?: Pick<ToolContext, 'context' | 'metadata' | 'tags'>
  tool?: { input: unknown; ctx: Pick<ToolContext, 'context' | 'metadata' | 'tags'> }
}

let here: Deployment
let live: Awaited<ReturnType<Deployment['connect']>>
const scripts = new Map<string, Script>()
const seen = new Map<string, Seen>()

function played(sessionId: string): { script: Script; saw: Seen } {
  const [script, saw] = [scripts.get(sessionId), seen.get(sessionId)]
  if (!script || !saw) throw new Error(`no script for session ${sessionId}`)
  return { script, saw }
}

/** By the JSON of the result, because `effectId` gets a copy. */
const idOf = new Map<string, string>()
const echo = defineTool({
  name: 'echo',
  description: 'Answers what the script says.',
  input: z.object({ json: z.unknown() }),
  effect: 'idempotent',
  execute({ json }, ctx) {
    const { script, saw } = played(ctx.sessionId)
    const { context, metadata, tags } = ctx
    saw.tool = { input: json, ctx: { context, metadata, tags } }
    ctx.progress(script.progress)
    ctx.milestone(script.milestone)
    const result = { result: script.result }
    idOf.set(JSON.stringify(result), script.effectId)
    return result
  },
  effectId: (result) => idOf.get(JSON.stringify(result)) ?? '',
})
const fail = defineTool({
  name: 'fail',
  description: 'Fails as the script says.',
  input: z.object({}),
  effect: 'read',
  execute(_input, ctx) {
    throw new ToolError(played(ctx.sessionId).script.failure, { retryable: false })
  },
})
const agent = defineAgent({
  name: 'mirror',
  instructions(_state, { sessionId, context, metadata, tags }) {
    played(sessionId).saw.instructed = structuredClone({ context, metadata, tags })
    return 'Mirror.'
  },
  model: scripted((request) => {
    const { script, saw } = played(request.sessionId)
    saw.requests.push(structuredClone(request))
    const said = { type: 'text' as const, text: script.thought }
    if (answersIn(request) === 0) return [said, { type: 'tool_use', id: 'a', name: 'echo', input: { json: script.input } }]
    if (answersIn(request) === 1) return [{ type: 'tool_use', id: 'b', name: 'fail', input: {} }]
    return script.answer
  }),
  tools: [echo, fail],
})

beforeAll(async () => {
  here = await deploy()
  live = await here.connect({ postgres: false })
  await here.startWorker({ agents: [agent] })
})
afterAll(() => here?.stop())

const NASTY = [
  '\u0000',
  '\ud800',
  '\udfff',
  '"',
  '\\',
  '\\u0000',
  '\\ud83d',
  '\u2028',
  '\ufeff',
  '\ufffd',
  '\u007f',
  'é',
  '😀',
  '\n',
  '__proto__',
  '\u{10ffff}',
  ' ',
]
const text = fc.string({
  unit: fc.oneof(fc.constantFrom(...NASTY), fc.string({ minLength: 1, maxLength: 1, unit: 'binary' })),
  maxLength: 30,
})
const spoken = text.map((said) => `x${said}`)
const key = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'toJSON', 'prototype', '', '0', '10', '2', 'length', 'hasOwnProperty'),
  text,
)
const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.oneof(text, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer(), fc.boolean(), fc.constant(null)),
    fc.array(tie('json'), { maxLength: 4 }),
    // Own keys of any name: assigning to `__proto__` would not create one.
    fc.array(fc.tuple(key, tie('json')), { maxLength: 4 }).map((entries) => Object.fromEntries(entries) as JsonObject),
  ),
}))
/** A value nested in `levels` lists and objects. */
const deep = fc.tuple(json, fc.constantFrom(0, 0, 0, 7, 120, 480)).map(([value, levels]) => {
  let nested = value
  for (let level = 0; level < levels; level++) nested = level % 2 ? [nested] : Object.fromEntries([['__proto__', nested]])
  // `JSON.stringify` turns minus zero into zero.
  return JSON.parse(JSON.stringify(nested)) as Json
})
const object = fc.array(fc.tuple(key, deep), { maxLength: 4 }).map((entries) => Object.fromEntries(entries) as JsonObject)
const script: fc.Arbitrary<Script> = fc.record({
  message: spoken,
  messageId: spoken.map((said) => `${said}-${randomUUID()}`.slice(-200)),
  metadata: object,
  context: deep,
  tags: fc.array(text, { maxLength: 4 }),
  thought: spoken,
  input: deep,
  result: deep,
  effectId: spoken,
  progress: deep,
  // Queries filter by this name, so Postgres must store it unchanged.
  milestone: spoken.map((said) => said.replace(/\0|\p{Surrogate}/gu, '')),
  failure: spoken,
  answer: spoken,
})

/** Throws on a difference. fast-check then shows the whole script, so the error has only the beginning of the values. */
function same(what: string, came: unknown, went: unknown): void {
  if (!isDeepStrictEqual(came, went))
    throw new Error(`${what} differs: ${JSON.stringify(came)?.slice(0, 300)} came of ${JSON.stringify(went)?.slice(0, 300)}`)
}

async function play(given: Script): Promise<SessionHandle> {
  const session = here.pawl.session(`mirror-${randomUUID()}`, { agent: 'mirror', context: given.context, tags: given.tags })
  scripts.set(session.id, given)
  seen.set(session.id, { requests: [] })
  const { message, messageId, metadata } = given
  const run = await session.send(message, { messageId, metadata, isNew: true })
  const { text: answer } = await run.result({ timeout: 60_000 })
  same('the answer', answer, given.answer)
  return session
}

function checkProcess(given: Script, { requests, instructed, tool }: Seen): void {
  const about = { context: given.context, metadata: given.metadata, tags: given.tags }
  same('what instructions are given', instructed, about)
  same('what the tool is given', tool, { input: given.input, ctx: about })
  same('the message for the model', requests[0]?.messages, [{ role: 'user', content: given.message }])
  const echoed = { id: 't_1_1_0', content: JSON.stringify({ result: given.result }), isError: false }
  same('the result for the model', requests[1] && resultsIn(requests[1]), [echoed])
  same('the failure for the model', requests[2] && resultsIn(requests[2]), [{ id: 't_1_2_0', content: given.failure, isError: true }])
  const [first] = requests[2]?.messages.filter(({ role }) => role === 'assistant') ?? []
  same('what the model said', first?.content, [
    { type: 'text', text: given.thought },
    { type: 'tool_use', id: 't_1_1_0', name: 'echo', input: { json: given.input } },
  ])
}

function checkEvents(given: Script, events: readonly SessionEvent[]): void {
  const [started] = ofType(events, 'session_started')
  same('context and tags', [started?.context, started?.tags], [given.context, given.tags])
  const [received] = ofType(events, 'message_received')
  same('the message', [received?.content, received?.messageId, received?.metadata], [given.message, given.messageId, given.metadata])
  same('the input', ofType(events, 'tool_issued')[0]?.input, { json: given.input })
  const [completed] = ofType(events, 'tool_completed')
  same('the result', [completed?.value, completed?.effectId], [{ result: given.result }, given.effectId])
  same('progress', ofType(events, 'tool_progress')[0]?.value, given.progress)
  same('the milestone', ofType(events, 'milestone_reached')[0]?.name, given.milestone)
  same('the failure', ofType(events, 'tool_failed')[0]?.message, given.failure)
  same('the failed attempt', ofType(events, 'tool_attempt_failed')[0]?.error.message, given.failure)
}

async function checkRows(given: Script, session: SessionHandle): Promise<void> {
  const row = await here.pawl.sessions.get(session.id)
  same('context and tags of the row', [row.context, row.tags], [given.context, given.tags])
  const messages = await session.messages()
  const [user, , , , results] = messages
  same('the row of the message', [user?.content, user?.messageId, user?.metadata], [given.message, given.messageId, given.metadata])
  same('the row of the failure', results?.content, [
    { type: 'tool_result', tool_use_id: 't_1_2_0', content: given.failure, is_error: true },
  ])
  same('the row of the answer', messages.at(-1)?.content, [{ type: 'text', text: given.answer }])
  const [echoed, failed] = await session.toolCalls()
  same('the ledger', [echoed?.input, echoed?.result, echoed?.effectId], [{ json: given.input }, { result: given.result }, given.effectId])
  same('progress in the ledger', [echoed?.progress, echoed?.milestones], [given.progress, [given.milestone]])
  same('the failure in the ledger', failed?.error?.message, given.failure)
  const [error] = await session.errors()
  same('the row of errors', error?.message, given.failure)
  const withoutStore = await live.session(session.id).messages()
  same('rows with and without the store', messages.map(stripped), withoutStore.map(stripped))
}

const stripped = ({ messageId, content, metadata, run, turn }: Awaited<ReturnType<SessionHandle['messages']>>[number]): object => ({
  messageId,
  content,
  metadata,
  run,
  turn,
})

describe(`any text and JSON (seed ${seed}, again with PAWL_SEED)`, () => {
  it('any text and JSON comes out as it went in, for models, tools, events, rows and readers', async () => {
    console.log(`exactness: seed ${seed}`)
    const property = fc.asyncProperty(script, async (given) => {
      const session = await play(given)
      checkProcess(given, played(session.id).saw)
      const events = await eventsOf(live.session(session.id))
      checkEvents(given, events)
      const last = events.at(-1)?.seq ?? 0
      await until('it is stored', async () => (await here.pawl.sessions.get(session.id)).flushedSeq >= last)
      const stored = await eventsOf(here.pawl.session(session.id))
      same('the stored events', stored, events)
      await checkRows(given, session)
    })
    await fc.assert(property, { seed, numRuns: RUNS, endOnFailure: true })
  })
})

const MB5 = 'x\u0000\ud800'.repeat(5_000_000 / 13)

describe('5 MB of text', () => {
  const plain: Script = {
    message: 'hello',
    messageId: 'm',
    metadata: {},
    context: null,
    tags: [],
    thought: 'hm',
    input: 1,
    result: 1,
    effectId: 'e',
    progress: 1,
    milestone: 'half',
    failure: 'no',
    answer: 'done',
  }

  const PLACES: [string, Partial<Script>][] = [
    ['a message', { message: MB5 }],
    ['a tool result', { result: MB5 }],
    ['both', { message: MB5, result: [MB5] }],
  ]
  it.each(variants(PLACES, 1))(`5 MB of text as %s comes out as it went in (seed ${seed}, again with PAWL_SEED)`, async (_, more) => {
    const given = { ...plain, ...more }
    const session = await play(given)
    checkProcess(given, played(session.id).saw)
    await until('it is stored', async () => (await here.pawl.sessions.get(session.id)).status === 'idle')
    const [message] = await session.messages()
    same('the row of the message', message?.content, given.message)
    const [echoed] = await session.toolCalls()
    same('the ledger', echoed?.result, { result: given.result })
  })

  it.each<[string, Partial<Script>, string]>([
    ['metadata', { metadata: { a: MB5 } }, 'invalid_metadata'],
    ['context', { context: [MB5] }, 'invalid_context'],
    ['a tag', { tags: [MB5] }, 'invalid_tags'],
    ['a message id', { messageId: MB5 }, 'invalid_message_id'],
  ])('5 MB of text as %s is refused before anything is recorded', async (_, more, code) => {
    const given = { ...plain, ...more }
    await expect(play(given)).rejects.toMatchObject({ name: 'InvalidMessageError', code })
    const [id = ''] = [...scripts].find(([, one]) => one === given) ?? []
    await expect(here.temporal.workflow.getHandle(`pawl:${id}`).describe()).rejects.toMatchObject({ name: 'WorkflowNotFoundError' })
  })

  it.each<[string, Partial<Script>]>([
    ['arguments of a call', { input: MB5 }],
    ['an answer', { answer: MB5 }],
  ])('5 MB of text as %s fails the run with a reason, and the session still answers the next message', async (_, more) => {
    const given = { ...plain, ...more }
    const session = here.pawl.session(`mirror-${randomUUID()}`, { agent: 'mirror' })
    scripts.set(session.id, given)
    seen.set(session.id, { requests: [] })
    await expect((await session.send('hello')).result({ timeout: 60_000 })).rejects.toMatchObject({ code: 'invalid_response' })
    scripts.set(session.id, plain)
    expect(await (await session.send('again')).result({ timeout: 60_000 })).toMatchObject({ text: 'done' })
  })

  it('5 MB of text is cut in an error message or an effect id, and refused as progress when the tool reports it', async () => {
    const events = await eventsOf(await play({ ...plain, failure: MB5, effectId: MB5 }))
    expect(ofType(events, 'tool_failed')[0]?.message).toBe(MB5.slice(0, 4_000))
    expect(ofType(events, 'tool_completed')[0]?.effectId).toBe(MB5.slice(0, 1_000))
    const noisy = await play({ ...plain, progress: MB5 })
    expect(ofType(await eventsOf(noisy), 'tool_failed')[0]?.message).toMatch(/ctx\.progress accepts at most/)
    const nameless = await play({ ...plain, milestone: 'a\u0000' })
    expect(ofType(await eventsOf(nameless), 'tool_failed')[0]?.message).toMatch(/A milestone's name must be a string/)
  })
})

describe('JSON nested deeper than 500 levels', () => {
  let tooDeep: Json = 1
  for (let level = 0; level < 20_000; level++) tooDeep = [tooDeep]

  it.each<[string, { context?: Json; metadata?: JsonObject }, string]>([
    ['context', { context: tooDeep }, 'invalid_context'],
    ['metadata', { metadata: { a: tooDeep } }, 'undecodable'],
  ])('JSON nested deeper than 500 levels as %s is refused before anything is recorded', async (_, { context, metadata }, code) => {
    const session = here.pawl.session(`mirror-${randomUUID()}`, { agent: 'mirror', ...defined({ context }) })
    await expect(session.send('hello', { ...(metadata && { metadata }) })).rejects.toMatchObject({ name: 'InvalidMessageError', code })
    await expect(session.state()).rejects.toMatchObject({ name: 'SessionNotFoundError' })
  })
})
