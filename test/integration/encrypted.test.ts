// What leaves the worker of a user with a payload codec: the raw histories of sessions that went through every command, every kind of
// refusal and every kind of failure have nothing of the user's in the clear.
import { randomUUID } from 'node:crypto'
import type { Info as ActivityInfo } from '@temporalio/activity'
import { Client, type WorkflowExecutionInfo } from '@temporalio/client'
import type { ActivityInterceptorsFactory } from '@temporalio/worker'
import { defineHook, ModelError, type ToolContext } from 'pawl'
import type { Pawl, SessionHandle } from 'pawl/client'
import { ask } from '../../src/client/session/updates.ts'
import { startPlain } from '../../src/connect/search-attributes.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SIGNALS, UPDATES, workflowIdOf } from '../../src/session/protocol/protocol.ts'
import { approvalStage, type ApprovalScene, type ApprovalStage, digestOf, once, pendingOf } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { pdfBlock, textDocument } from '../support/documents.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { dataConverter } from '../support/own/encrypting.ts'
import { inOrder, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

const SECRET = 'the-very-secret-word'
/** Who makes each request, and why. */
const SAID = { by: `by ${SECRET}`, reason: `because of ${SECRET}` }
const NOTED = { by: `by ${SECRET}`, note: `noted: ${SECRET}` }
const TIMEOUT = { timeout: 30_000 }

/** What user code throws: its class and its code may name someone, too. */
function leak(): never {
  throw Object.assign(new Error(`failed for ${SECRET}`, { cause: new Error(`caused by ${SECRET}`) }), { name: SECRET, code: SECRET })
}

/** A user's interceptor that fails: the first attempt of each kind of activity in a session, in place of whatever may fail in it. */
function faulty({ activityType, workflowExecution }: ActivityInfo): undefined {
  const kind = `${activityType} ${workflowExecution?.workflowId}`
  if (failedOnce.has(kind) || activityType === 'executeTool') return undefined
  failedOnce.add(kind)
  return leak()
}

const failedOnce = new Set<string>()

let here: Deployment
/** A client of another program, which has the codec. */
let foreign: Client
let pawl: Pawl
let player: ApprovalStage
/** Every session that was played or asked for. */
const ids = new Set<string>()

beforeAll(async () => {
  here = await deploy()
  pawl = await here.connect({ dataConverter })
  player = approvalStage({
    sessionLimits: { maxTotalTokens: 1_000_000 },
    hooks: [
      defineHook({
        on: 'preToolUse',
        name: 'strict',
        run({ args }) {
          const { what } = args as { what: string }
          if (what === 'refuse') return { deny: `not for ${SECRET}` }
          return what === 'change' ? { modify: { what: SECRET } } : undefined
        },
      }),
      defineHook({ on: 'postToolUse', name: 'faulty', run: leak }),
      defineHook({
        on: 'agentStart',
        name: 'stopper',
        run: ({ task }) => (task === 'stop' ? { stop: `stopped for ${SECRET}` } : { appendContext: SECRET }),
      }),
    ],
  })
  const activity: ActivityInterceptorsFactory[] = [({ info }) => ({ inbound: { execute: (input, next) => faulty(info) ?? next(input) } })]
  await here.startWorker({ agents: [player.agent], dataConverter, interceptors: { activity } })
  const { connection, options } = here.temporal
  foreign = new Client({ connection, namespace: options.namespace, dataConverter })
})
afterAll(() => here?.stop())

function play(scene: ApprovalScene): { session: SessionHandle; id: string } {
  const played = player.play(pawl, scene, { context: { name: SECRET }, tags: [SECRET] })
  ids.add(played.id)
  return played
}

/** A session that has answered once. */
async function answered(): Promise<{ session: SessionHandle; id: string }> {
  const played = play({ model: () => `answer with ${SECRET}` })
  await (await say(played.session)).result(TIMEOUT)
  return played
}

let messages = 0
const say = (session: SessionHandle, text = `tell ${SECRET}`) =>
  session.send(text, { messageId: `${SECRET}-${(messages += 1)}`, metadata: { note: SECRET }, by: SECRET })

/** Each request, with everything in it that a client may choose. */
const REQUESTS: Record<keyof typeof UPDATES, (session: SessionHandle) => Promise<unknown>> = {
  recover: (session) => session.recover({ strategy: 'selective', redo: [SECRET], ...SAID }),
  resume: (session) => session.resume(),
  checkpoint: (session) => session.checkpoint(`before ${SECRET}`, { by: SECRET }),
  rollback: (session) => session.rollback({ message: SECRET, ...SAID }),
  regenerate: (session) => session.regenerate(SAID),
  fork: (session) => session.fork({ message: SECRET, tags: [SECRET], by: SECRET }),
  approve: (session) => session.approve(SECRET, { digest: SECRET, input: { what: SECRET }, ...NOTED }),
  deny: (session) => session.deny(SECRET, { digest: SECRET, ...SAID }),
  resolve: (session) => session.resolve(SECRET, { happened: true, result: SECRET }, NOTED),
  answer: (session) => session.answer(SECRET, { secret: SECRET }, { by: SECRET }),
  pause: (session) => session.pause(SAID),
  unpause: (session) => session.unpause(SAID),
  unschedule: (session) => session.unschedule(SECRET, SAID),
  raise: (session) => session.raise({ maxTotalTokens: 1, scope: 'session', ...SAID }),
  revokeRule: ({ id: sessionId }) =>
    ask(
      { client: foreign, sessionId, taskQueue: here.taskQueue, settings: undefined, tell: undefined, shown: {}, indexed: startPlain },
      UPDATES.revokeRule,
      { rule: SECRET, ...SAID },
    ),
}

interface Raw {
  text: string
  /** The updates that were refused, with the types of their failures. */
  refused: string[]
  /** Names of updates and signals. */
  requested: string[]
  /** Types of the failures of activities. */
  failed: string[]
}

/** All text and bytes of a server's answer, as text. */
/** HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT: only the last event, once there is one. */
const CLOSE_EVENT = 2

function textIn(held: unknown): string {
  if (held instanceof Uint8Array) return Buffer.from(held).toString('latin1')
  return held !== null && typeof held === 'object' ? Object.values(held).map(textIn).join('\n') : String(held)
}

/** The histories and descriptions of all executions of the sessions, as the server holds them: nothing is decoded. */
async function rawHistories(): Promise<Raw> {
  const { temporal } = here
  const found: Raw = { text: '', refused: [], requested: [], failed: [] }
  const executions = await until('all executions are visible', async () => {
    const listed: WorkflowExecutionInfo[] = []
    for await (const info of temporal.workflow.list({ query: `TaskQueue = '${here.taskQueue}'` })) listed.push(info)
    const newest = await Promise.all([...ids].map(async (id) => (await temporal.workflow.getHandle(workflowIdOf(id)).describe()).runId))
    return newest.every((runId) => listed.some((info) => info.runId === runId)) && listed
  })
  for (const { workflowId, runId } of executions) {
    const handle = temporal.workflow.getHandle(workflowId, runId)
    const { events } = await handle.fetchHistory()
    found.text += textIn([events, (await handle.describe()).raw])
    const names = new Map<string, string>()
    for (const event of events ?? []) {
      const signal = event.workflowExecutionSignaledEventAttributes?.signalName
      if (signal) found.requested.push(signal)
      const update = event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest?.input?.name
      if (update) names.set(String(event.eventId), update)
      const ended = event.workflowExecutionUpdateCompletedEventAttributes
      const name = names.get(String(ended?.acceptedEventId))
      if (name) found.requested.push(name)
      const refusal = ended?.outcome?.failure?.applicationFailureInfo?.type
      if (refusal) found.refused.push(`${name} ${refusal}`)
      const failure = event.activityTaskFailedEventAttributes?.failure ?? event.activityTaskStartedEventAttributes?.lastFailure
      if (failure) found.failed.push(String(failure.applicationFailureInfo?.type))
    }
  }
  return found
}

/** A message with a file in history, and one whose history has the file's name and a reference. */
async function files(): Promise<void> {
  const { session } = play({ model: () => 'I have read it.' })
  const about = { title: `${SECRET}.pdf`, context: SECRET }
  for (const block of [textDocument(`It says ${SECRET}.`), pdfBlock({ size: 300_000, seed: SECRET })]) {
    const run = await session.send([
      { type: 'text', text: SECRET },
      { ...block, ...about },
    ])
    await run.result(TIMEOUT)
  }
  expect(ofType(await eventsOf(session), 'message_received')[1]).toMatchObject({ content: expect.stringContaining(SECRET), blob: {} })
}

describe('with a payload codec, the raw histories', () => {
  it('raw histories written with a payload codec contain none of the user’s data as plain text', async () => {
    // Not all at once: a run of twelve steps would share the machine with dozens of sessions that open and close.
    await Promise.all([everyCommand(), everyFailure()])
    await everyRefusal()
    await files()
    const { text, refused, requested, failed } = await rawHistories()
    // The scan has seen what it is about.
    expect(new Set(requested)).toEqual(new Set([...Object.values(UPDATES), SIGNALS.message, SIGNALS.interrupt, SIGNALS.close]))
    expect(new Set(refused.map((one) => one.split(' ')[0]))).toEqual(new Set(Object.values(UPDATES)))
    expect(new Set(failed)).toEqual(new Set(['AttemptThrew']))
    expect(text).toContain('See the details of this failure')
    expectEncoded(text)
  })

  it('raw histories written with a payload codec do not show who erased an open session', async () => {
    const { session, id } = await answered()
    const handle = here.temporal.workflow.getHandle(workflowIdOf(id))
    const { runId } = await handle.describe()
    // The server deletes it soon afterwards, and may archive it.
    const closing = here.temporal.workflowService.getWorkflowExecutionHistory({
      namespace: here.stack.namespace,
      execution: { workflowId: workflowIdOf(id), runId },
      waitNewEvent: true,
      historyEventFilterType: CLOSE_EVENT,
    })
    await pawl.erase(session.id, { ...SAID, force: true })
    const events = (await closing).history?.events
    expect(events?.at(-1)?.workflowExecutionTerminatedEventAttributes).toBeTruthy()
    expectEncoded(textIn(events))
  })
})

function expectEncoded(text: string): void {
  const at = text.indexOf(SECRET)
  expect(text.slice(Math.max(0, at - 200), at + 100)).not.toContain(SECRET)
}

/** Everything that a client can do, carried out. */
async function everyCommand(): Promise<void> {
  await Promise.all([movedAbout(), stopped(), decided()])
}

async function movedAbout(): Promise<void> {
  const { session } = await answered()
  await session.checkpoint(`at ${SECRET}`, { by: SECRET })
  await session.pause(SAID)
  await session.unpause(SAID)
  await session.raise({ maxTotalTokens: 2_000_000, scope: 'session', ...SAID })
  await (await session.regenerate(SAID)).result(TIMEOUT)
  const copy = await session.fork({ tags: [SECRET], by: SECRET })
  ids.add(copy.id)
  player.play(pawl, { model: () => SECRET }, { id: copy.id })
  await (await say(copy)).result(TIMEOUT)
  const second = await say(session)
  await second.result(TIMEOUT)
  await session.rollback({ message: second.messageId, ...SAID })
  await session.close({ by: SECRET })
}

async function stopped(): Promise<void> {
  const held = gate()
  const { session } = play({ model: once(['look', SECRET]), body: (_tool, _input, { signal }) => held.pass(signal) })
  const run = await say(session)
  await held.reached
  await session.interrupt(SAID)
  await run.settled(TIMEOUT)
  expect(await (await say(session, 'stop')).settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
}

async function decided(): Promise<void> {
  const { session } = play({ model: once(['pay', SECRET], ['pay', 'no'], ['form', SECRET], ['post', SECRET]), body })
  const run = await say(session)
  await session.approve('t_1_1_0', { digest: await digestOf(run, 't_1_1_0'), input: { what: `changed ${SECRET}` }, ...NOTED })
  await session.deny('t_1_1_1', { digest: await digestOf(run, 't_1_1_1'), ...SAID, note: SECRET })
  await session.answer('t_1_1_2', { agreed: true }, { by: SECRET })
  await until('its outcome is unknown', async () => (await pendingOf(run)).some((call) => call.kind === 'unknown'))
  await session.resolve('t_1_1_3', { happened: true, result: { receipt: SECRET } }, NOTED)
  await run.result(TIMEOUT)
}

function body(tool: string, _input: unknown, ctx: ToolContext): unknown {
  ctx.progress(SECRET)
  ctx.emit('said', SECRET)
  ctx.spend({ tokens: 1, note: SECRET })
  return tool === 'post' ? leak() : { result: SECRET }
}

/** Everything that a client can ask for, refused. */
async function everyRefusal(): Promise<void> {
  await Promise.all([...Object.keys(UPDATES).map((name) => refusedBefore(name as keyof typeof UPDATES)), refusedAnswers(), rejected()])
}

/** By a session that does not exist, by one that is open, and by one that reopens for the request. */
async function refusedBefore(name: keyof typeof UPDATES): Promise<void> {
  const request = REQUESTS[name]
  await expect(request(pawl.session(randomUUID(), { agent: player.agent.name })), name).rejects.toMatchObject({
    name: 'SessionNotFoundError',
  })
  const { session, id } = await answered()
  // Some requests need nothing that could be missing.
  await request(session).catch(() => undefined)
  await session.close({ by: SECRET })
  await here.workflowEnded(id)
  await request(session).catch(() => undefined)
}

async function refusedAnswers(): Promise<void> {
  const { session, id } = play({ model: once(['pay', SECRET], ['form', SECRET]), body })
  const digest = await digestOf(await say(session), 't_1_1_0')
  for (const input of [{ secret: SECRET }, { what: 'refuse' }, { what: 'change' }])
    await expect(session.approve('t_1_1_0', { digest, input, ...NOTED })).rejects.toMatchObject({ name: 'RequestRefusedError' })
  await expect(session.answer('t_1_1_1', { agreed: SECRET }, { by: SECRET })).rejects.toMatchObject({ code: 'invalid_answer' })
  await expect(session.fork({ id })).rejects.toMatchObject({ code: 'session_exists' })
  // The client reads what the failure does not say in the clear.
  const quoted = { code: 'message_not_found', message: expect.stringContaining(SECRET) }
  await expect(session.rollback({ message: SECRET, ...SAID })).rejects.toMatchObject(quoted)
}

/** What other programs send. */
async function rejected(): Promise<void> {
  const { session, id } = await answered()
  const handle = foreign.workflow.getHandle(workflowIdOf(id))
  await handle.signal(SIGNALS.message, { content: { secret: SECRET }, messageId: SECRET })
  await until('it is rejected', async () => ofType(await eventsOf(session), 'message_rejected').length > 0)
  for (const update of Object.values(UPDATES)) await handle.executeUpdate(update, { args: [[SECRET]] }).catch(() => undefined)
}

/** Everything that user code and models may do wrong. */
async function everyFailure(): Promise<void> {
  const calls = ['look', 'put', 'wire', 'post', 'mail', SECRET].map((tool) => use(tool, SECRET))
  const broken = play({ model: inOrder([...calls, use('pay', SECRET)], 'done'), body: leak, approval: leak, verify: leak })
  expect(await (await say(broken.session)).settled(TIMEOUT)).toMatchObject({ status: 'waiting' })
  const failures = ofType(await eventsOf(broken.session), 'tool_attempt_failed')
  expect(failures.length).toBeGreaterThan(1)
  expect(failures.filter(({ error }) => error.stack?.includes(`Caused by: Error: caused by ${SECRET}`))).toEqual(failures)
  await Promise.all([leak, refusal].map(failing))
}

const refusal = (): never => {
  throw new ModelError('refused', `not for ${SECRET}`, { retryable: false })
}

async function failing(model: () => never): Promise<void> {
  const { session } = play({ model })
  expect(await (await say(session)).settled(TIMEOUT)).toMatchObject({ status: 'failed' })
  await expect(REQUESTS.recover(session)).rejects.toMatchObject({ name: 'RequestRefusedError' })
  await session.recover({ strategy: 'abandon', ...SAID })
}
