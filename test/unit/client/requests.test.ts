// What the methods of a session's handle refuse before they send anything: a typo must not turn a request into another one.
import { Client, Connection } from '@temporalio/client'
import { startPlain } from '../../../src/connect/search-attributes.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { apiKeysOf, openApiKeys } from '../../../src/client/admin/api-keys.ts'
import { openQueries } from '../../../src/client/queries/queries.ts'
import { checkSession } from '../../../src/client/session/options.ts'
import { sessionHandle } from '../../../src/client/session/session.ts'
import type { RunHandle, SessionHandle } from '../../../src/client/types.ts'
import { defineSlice } from '../../../src/agent/define-slice.ts'
import { z } from 'zod'

/** Nothing listens there: a request that is sent does not return in time. */
const NOWHERE = '127.0.0.1:1'
const AT_ONCE = { timeout: 2_000 }

let connection: Connection
let session: SessionHandle
let run: RunHandle
beforeAll(() => {
  connection = Connection.lazy({ address: NOWHERE })
  session = handle({ agent: 'support' })
  run = session.run('m1')
})
afterAll(() => connection.close())

const handle = (options: object): SessionHandle =>
  sessionHandle(
    { client: new Client({ connection }), store: undefined, taskQueue: 'pawl', closed: new AbortController().signal, indexed: startPlain },
    's',
    checkSession(options),
    { isNew: false },
  )

const refusal = (message: string) =>
  expect.objectContaining({ name: 'InvalidOptionError', code: 'invalid_option', message: expect.stringContaining(message) })

/** What is given must be an object; most methods show an example of one. */
const shapeOf = (given: unknown): RegExp => new RegExp(`^The options must be an object.*, not ${JSON.stringify(given)}\\.$`)

/** Begins what was called: a promise, or the first step of an iteration. */
async function begun(make: () => unknown): Promise<unknown> {
  const made = make()
  const isStream = typeof made === 'object' && made !== null && Symbol.asyncIterator in made
  return isStream ? (made as AsyncIterable<unknown>)[Symbol.asyncIterator]().next() : made
}

const slice = defineSlice({ name: 'n', version: 1, schema: z.number(), initial: 0, on: {} } as never) as never

type Call = (given: never) => unknown
interface Method {
  call: Call
  /** Options that the method accepts. */
  valid?: object
  /** Members with a wrong type. */
  wrong: object
}

const SAID = { by: 5, reason: ['x'] }
const TARGET = { checkpoint: '3', message: 7, run: '1' }
const METHODS: Record<string, Method> = {
  toolCalls: { call: (given) => session.toolCalls(given), wrong: { status: 'over', tool: 5, run: 'one' } },
  pending: { call: (given) => session.pending(given), wrong: { tree: 'all' } },
  usage: { call: (given) => session.usage(given), wrong: { tree: 1, by: 'turn' } },
  send: { call: (given) => session.send('hi', given), wrong: { by: 7, isNew: 'yes', interrupt: 1, deadline: 'soon', traceparent: 'x' } },
  events: { call: (given) => session.events(given), wrong: { after: '5', follow: 'yes', signal: 1 } },
  watch: { call: (given) => session.watch(given), wrong: { after: -1, signal: {} } },
  slice: { call: (given) => session.slice(slice, given), wrong: { at: '1', all: 1 } },
  plan: { call: (given) => session.plan(given), wrong: { at: '1' } },
  memory: { call: (given) => session.memory(given), wrong: { at: 0 } },
  budgets: { call: (given) => session.budgets(given), wrong: { at: null } },
  messagesUpTo: { call: (given) => session.messagesUpTo(given), valid: { run: 1 }, wrong: TARGET },
  interrupt: { call: (given) => session.interrupt(given), wrong: SAID },
  recover: {
    call: (given) => session.recover(given),
    wrong: { ...SAID, strategy: 'abandn', keep: 't_1_1_0', skip: [1], redo: {}, force: 'yes' },
  },
  regenerate: { call: (given) => session.regenerate(given), wrong: SAID },
  pause: { call: (given) => session.pause(given), wrong: SAID },
  unpause: { call: (given) => session.unpause(given), wrong: SAID },
  raise: {
    call: (given) => session.raise(given),
    valid: { maxUsd: 5 },
    wrong: { ...SAID, maxUsd: '5', maxTotalTokens: null, scope: 'agent' },
  },
  close: { call: (given) => session.close(given), wrong: { by: 5, unschedule: 'yes' } },
  unschedule: { call: (given) => session.unschedule('m1', given), wrong: SAID },
  checkpoint: { call: (given) => session.checkpoint('before the deploy', given), wrong: { by: 5 } },
  rollback: { call: (given) => session.rollback(given), valid: { checkpoint: 1 }, wrong: { ...SAID, ...TARGET, keys: 'forgoten' } },
  fork: { call: (given) => session.fork(given), wrong: { ...TARGET, by: 5, keys: 'kept', interrupt: 'no' } },
  approve: {
    call: (given) => session.approve('t_1_1_0', given),
    valid: { digest: 'd' },
    wrong: { digest: 5, by: 5, note: 5, input: () => 'not JSON' },
  },
  deny: { call: (given) => session.deny('t_1_1_0', given), valid: { digest: 'd' }, wrong: { ...SAID, digest: 5, note: 5 } },
  resolve: { call: (given) => session.resolve('t_1_1_0', 'retry', given), wrong: { by: 5, note: 5 } },
  answer: { call: (given) => session.answer('t_1_1_0', 'yes', given), wrong: { by: 5 } },
  'run.result': { call: (given) => run.result(given), wrong: { timeout: 'soon', signal: 5 } },
  'run.settled': { call: (given) => run.settled(given), wrong: { timeout: 'soon', signal: 5 } },
  'run.events': { call: (given) => run.events(given), wrong: { signal: 5 } },
  'run.stream': { call: (given) => run.stream(given), wrong: { signal: 5 } },
}
/** Methods whose arguments are not options. */
const POSITIONAL = ['run', 'runReport', 'blob']
const WITHOUT_OPTIONS = [
  'state',
  'status',
  'messages',
  'plans',
  'scheduled',
  'memoryVersions',
  'resume',
  'checkpoints',
  'latestCheckpoint',
  'compactions',
  'errors',
  'archivedMessages',
] as const

it('all methods of the handles are covered', () => {
  const named = [...Object.keys(METHODS), ...POSITIONAL, ...WITHOUT_OPTIONS]
  const methods = (of: object) => Object.entries(of).flatMap(([name, value]) => (typeof value === 'function' ? [name] : []))
  expect(named.sort()).toEqual([...methods(session), ...methods(run).map((name) => `run.${name}`)].sort())
})

describe.each(Object.entries(METHODS))('%s', (_, { call, valid = {}, wrong }) => {
  it('a request with an unknown option is refused', AT_ONCE, async () => {
    await expect(begun(() => call({ ...valid, stranger: 1 } as never))).rejects.toEqual(refusal('There is no option stranger'))
  })

  it.each(['stop now', null, 7])('a request with %j in place of options is refused', AT_ONCE, async (given) => {
    await expect(begun(() => call(given as never))).rejects.toThrow(shapeOf(given))
  })

  it.each(Object.entries(wrong))('a request is refused with %s: %j', AT_ONCE, async (name, value) => {
    await expect(begun(() => call({ ...valid, [name]: value } as never))).rejects.toEqual(refusal(`\`${name}\` must be `))
  })
})

it.each(WITHOUT_OPTIONS)('the method %s refuses options, because it has none', AT_ONCE, async (name) => {
  const call = session[name] as (given: object) => Promise<unknown>
  await expect(begun(() => call({ limit: 5 }))).rejects.toEqual(refusal(`${name}() has no options`))
})

it.each<[string, () => unknown, string]>([
  ['approve without a decision', () => session.approve('t_1_1_0', undefined as never), 'must be an object such as { digest, by: '],
  ['approve without a digest', () => session.approve('t_1_1_0', {} as never), '`digest` is required'],
  ['approve with a misspelt input', () => session.approve('t_1_1_0', { digest: 'd', inputs: 1 } as never), 'did you mean input?'],
  ['deny without a digest', () => session.deny('t_1_1_0', { reason: 'no' } as never), '`digest` is required'],
  ['approve without a call', () => session.approve(undefined as never, { digest: 'd' }), '`callId` is required'],
  ['deny with another call', () => session.deny(5 as never, { digest: 'd' }), '`callId` must be '],
  ['resolve without a call', () => session.resolve({} as never, 'retry'), '`callId` must be '],
  ['a misspelt resolution', () => session.resolve('t_1_1_0', { happend: true } as never), 'did you mean happened?'],
  ['a result of an effect that did not happen', () => session.resolve('t_1_1_0', { happened: false, by: 'me' } as never), 'no option by'],
  ['a result that is not JSON', () => session.resolve('t_1_1_0', { happened: true, result: 1n } as never), '`result` must be '],
  ['answer without a call', () => session.answer(null as never, 'yes' as never), '`callId` must be '],
  ['an answer that is not JSON', () => session.answer('t_1_1_0', (() => 1) as never), '`result` must be '],
  ['checkpoint without a reason', () => session.checkpoint(undefined as never), '`reason` is required'],
  ['checkpoint with an object', () => session.checkpoint({ by: 'me' } as never), ', not {"by":"me"}'],
  ['raise without limits', () => session.raise(undefined as never), 'must be an object such as { maxUsd: 5 }, not undefined'],
  ['rollback without a target', () => session.rollback(undefined as never), 'must be an object such as { checkpoint: 3 }'],
  ['run without an id', () => session.run(undefined as never), '`messageId` is required'],
  ['run with a number', () => session.run(7 as never), '`messageId` must be '],
  ['runReport with text', () => session.runReport('1' as never), '`run` must be '],
  ['blob with a number', () => session.blob(1 as never), '`sha256` must be '],
  ['slice with text', () => session.slice('orders' as never), 'is not a slice'],
])('%s is refused', AT_ONCE, async (_, call, message) => {
  await expect(begun(async () => call())).rejects.toEqual(refusal(message))
})

describe('limits have codes of their own', () => {
  it.each<[string, () => Promise<unknown>, string]>([
    ['a long by', () => session.close({ by: 'x'.repeat(2_000) }), 'invalid_request'],
    ['a long reason', () => session.pause({ reason: 'x'.repeat(5_000) }), 'invalid_request'],
    ['a long note', () => session.resolve('t_1_1_0', 'skip', { note: 'x'.repeat(5_000) }), 'invalid_request'],
    ['no target', () => session.rollback({} as never), 'invalid_target'],
    ['two targets', () => session.fork({ run: 1, checkpoint: 2 }), 'invalid_target'],
    ['checkpoint 0', () => session.rollback({ checkpoint: 0 }), 'invalid_target'],
    ['a limit of NaN', () => session.raise({ maxUsd: Number.NaN }), 'invalid_raise'],
    ['a long id', () => session.fork({ id: 'x'.repeat(300) }), 'invalid_session_id'],
    ['tags that are not text', () => session.fork({ tags: [1] as never }), 'invalid_tags'],
    ['an id that is not text', () => session.send('hi', { messageId: (() => 'm') as never }), 'invalid_message_id'],
    ['metadata that is not an object', () => session.send('hi', { metadata: (() => ({})) as never }), 'invalid_metadata'],
    ['empty metadata', () => session.send('hi', { metadata: '' as never }), 'invalid_metadata'],
    ['a context that is a function', () => handle({ agent: 'a', context: () => ({ user: 1 }) }).send('hi'), 'invalid_context'],
    ['a context that is a symbol', () => handle({ agent: 'a', context: Symbol('user') }).send('hi'), 'invalid_context'],
    ['a context that is a bigint', () => handle({ agent: 'a', context: 1n }).send('hi'), 'invalid_context'],
  ])('%s is refused with a code of its own', AT_ONCE, async (_, call, code) => {
    await expect(call()).rejects.toMatchObject({ code })
  })
})

describe('API keys and queries of a store', () => {
  it.each<[string, () => unknown, string]>([
    ['a misspelt option of revoke', () => apiKeysOf(undefined).revoke('abc', { byy: 'me' } as never), 'did you mean by?'],
    ['text in place of its options', () => apiKeysOf(undefined).revoke('abc', 'me' as never), 'The options must be an object'],
    ['a number as its `by`', () => apiKeysOf(undefined).revoke('abc', { by: 5 } as never), '`by` must be '],
    ['no id', () => apiKeysOf(undefined).revoke(undefined as never), '`id` is required'],
    ['a misspelt option of openQueries', () => openQueries({ postgress: 'x' } as never), 'did you mean postgres?'],
    ['a misspelt option of openApiKeys', () => openApiKeys({ shema: 'x' } as never), 'did you mean schema?'],
  ])('API keys and queries of a store %s is refused', async (_, call, message) => {
    await expect(begun(async () => call())).rejects.toEqual(refusal(message))
  })
})
