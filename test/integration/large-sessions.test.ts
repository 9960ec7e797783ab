// Sessions as large as clients, models and tools can make them: none of this ends a session, and nothing that was accepted is lost.
import type { WorkflowHandle } from '@temporalio/client'
import type { Agent, ToolContext } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { jsonBytes } from '../../src/session/json.ts'
import { MAX_CALLS, SNAPSHOT_BYTES } from '../../src/session/fold/snapshot.ts'
import type { SessionStart } from '../../src/session/protocol/protocol.ts'
import { codeOf } from '../support/codes.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type ApprovalStage, approvalStage, digestOf, once, pendingOf } from '../support/approvals.ts'
import { answersIn, inOrder, resultsIn, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { size } from '../support/sizes.ts'

const TIMEOUT = { timeout: 90_000 }
/** The most metadata that a message may have. */
const METADATA = { x: 'y'.repeat(15_900) }
/** With this many of them waiting, a state that held their metadata would exceed the limit of a state; in the soak, that of a blob. */
const MANY = size(30, 140)
/** Events of history at which sessions continue as new. */
const DUE = size(150, 1_000)

let here: Deployment
let player: Stage
let asker: ApprovalStage
const seen = new Map<string, ToolContext['metadata'][]>()

beforeAll(async () => {
  here = await deploy({ history: { events: DUE } })
  player = stage({ limits: { maxTurns: 1_000 } })
  asker = approvalStage()
  await here.startWorker({ agents: [player.agent as Agent, asker.agent] })
})
afterAll(() => here?.stop())

const workflowOf = (id: string, runId?: string): WorkflowHandle => here.temporal.workflow.getHandle(`pawl:${id}`, runId)
const texts = (n: number, prefix = 'm'): string[] => Array.from({ length: n }, (_, index) => `${prefix}${index}`)

/** Sends that many messages at once, each with all the metadata that it may have. */
function sendMany(session: SessionHandle, contents: readonly string[]): Promise<unknown> {
  return Promise.all(contents.map((content) => session.send(content, { messageId: content, metadata: { ...METADATA, content } })))
}

/** A session whose first run is held within a tool, and which has received many messages meanwhile. */
async function heldWithMany() {
  const held = gate()
  const played = player.play(here.pawl, {
    model: inOrder([use('look', 'first')], [use('look', 'second')], 'done'),
    async look({ what }, ctx) {
      seen.set(played.id, [...(seen.get(played.id) ?? []), ctx.metadata])
      if (what === 'first') await held.pass(ctx.signal)
      return 'looked'
    },
  })
  const run = await played.session.send('go', { messageId: 'go', metadata: { nth: 0 } })
  await held.reached
  await sendMany(played.session, texts(MANY))
  return { ...played, run, held }
}

/** The sizes in bytes of the input of each execution of a session, of its activities' results and of its updates' answers. */
async function payloadsOf(id: string): Promise<number[]> {
  const bytes: number[] = []
  let runId: string | undefined
  do {
    const { events } = await workflowOf(id, runId).fetchHistory()
    for (const event of events ?? []) {
      const payloads = [
        event.workflowExecutionStartedEventAttributes?.input,
        event.activityTaskCompletedEventAttributes?.result,
        event.workflowExecutionUpdateCompletedEventAttributes?.outcome?.success,
      ].flatMap((one) => one?.payloads ?? [])
      bytes.push(...payloads.map(({ data }) => data?.length ?? 0))
    }
    runId = events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId || undefined
  } while (runId)
  return bytes
}

/** The answer of the session's workflow to a query of its state. */
function answerOf({ id }: SessionHandle): Promise<unknown> {
  return here.temporal.workflow.getHandle(`pawl:${id}`).query('state')
}

describe.concurrent('messages with much metadata that wait for a run', () => {
  it('waiting messages with much metadata do not make the session’s answers large, and the run processes them all', async () => {
    const { session, id, run, held, requests } = await heldWithMany()
    const resumed = await session.resume()
    expect(resumed).toEqual({ sessionId: id, agent: 'player', status: 'running', seq: expect.any(Number), run: 1, turns: 1, error: null })
    expect(jsonBytes(await answerOf(session))).toBeLessThan(SNAPSHOT_BYTES.total)
    held.open()
    await run.result(TIMEOUT)
    expect(saidIn(requests.at(-1)!).sort()).toEqual(['go', ...texts(MANY)].sort())
    expect(Math.max(...(await payloadsOf(id)))).toBeLessThan(50_000)
  })

  it('waiting messages with much metadata survive a termination, and so do those sent afterwards', async () => {
    const { session, id, requests } = await heldWithMany()
    await workflowOf(id).terminate('by an operator')
    const after = await Promise.all(['after 1', 'after 2'].map((content) => session.send(content, { messageId: content })))
    // The run was cut off, not stopped: it continues, and makes its call again.
    await until('the call is made again', () => seen.get(id)?.length === 2, 60_000)
    await session.interrupt()
    for (const run of after) await run.settled(TIMEOUT)
    const accepted = ofType(await eventsOf(session), 'message_received').map(({ messageId }) => messageId)
    expect(accepted.sort()).toEqual(['go', ...texts(MANY), 'after 1', 'after 2'].sort())
    await until('the model has seen all of them', () => saidIn(requests.at(-1)!).length === MANY + 3, 60_000)
  })

  it('messages with much metadata that wait for a run pass the metadata of the first one to the run that it starts', async () => {
    const { session, id, run, held } = await heldWithMany()
    await session.interrupt()
    held.open()
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    // Messages that no turn had taken start the next run.
    expect(await session.run('m0').result(TIMEOUT)).toMatchObject({ run: 2 })
    const opener = ofType(await eventsOf(session), 'run_started')[1]?.messageId
    expect(seen.get(id)).toEqual([{ nth: 0 }, { ...METADATA, content: opener }])
  })
})

it('a session that cannot hold more messages refuses the next one, and accepts it once the agent has seen the others', {
  timeout: 180_000,
}, async () => {
  // What the session itself carries leaves the messages as little room as possible.
  const large = { context: { c: 'c'.repeat(99_000) }, tags: ['t'.repeat(15_900)] }
  const { session, id, requests } = asker.play(here.pawl, { model: once(['pay', 'it']) }, large)
  const run = await session.send('go')
  const digest = await digestOf(run, 't_1_1_0')
  const ids = Array.from({ length: 160 }, (_, index) => `${index}-`.padEnd(200, 'i'))
  for (const messageId of ids) await workflowOf(id).signal('message', { messageId, content: messageId, metadata: METADATA })
  const rejected = await until('all have arrived', async () => {
    const events = await eventsOf(session)
    const full = ofType(events, 'message_rejected')
    return full.length + ofType(events, 'message_received').length === ids.length + 1 && full
  })
  expect(new Set(rejected.map(({ code }) => code))).toEqual(new Set(['inbox_full']))
  expect(rejected.length).toBeGreaterThan(20)
  expect(rejected.length).toBeLessThan(70)
  const refused = rejected[0]?.messageId ?? expect.fail()
  expect(await session.run(refused).settled(TIMEOUT)).toMatchObject({ status: 'rejected', code: 'inbox_full' })
  expect(jsonBytes(await answerOf(session))).toBeLessThan(SNAPSHOT_BYTES.total)
  await session.approve('t_1_1_0', { digest })
  await run.result(TIMEOUT)
  expect(saidIn(requests.at(-1)!)).toHaveLength(ids.length - rejected.length + 1)
  // A handle of the old message reports its rejection; the session now accepts the message.
  await session.send('said again', { messageId: refused })
  await until('it is accepted', async () =>
    ofType(await eventsOf(session), 'message_received').some(({ messageId, content }) => messageId === refused && content === 'said again'),
  )
})

describe.concurrent('texts of two megabytes', () => {
  const HUGE = 'b'.repeat(2_000_000)

  it('texts of two megabytes are refused before they are sent', async () => {
    const { session } = player.play(here.pawl, { model: () => 'hello' })
    await (await session.send('hello')).result(TIMEOUT)
    const codes = await Promise.all(
      [
        session.close({ by: HUGE }),
        session.interrupt({ reason: HUGE }),
        session.recover({ strategy: 'abandon', by: HUGE }),
        session.checkpoint('here', { by: HUGE }),
        session.checkpoint(HUGE),
        session.rollback({ run: 1, reason: HUGE }),
        session.fork({ by: HUGE }),
        session.approve('t_1_1_0', { digest: 'd', note: HUGE }),
        session.deny('t_1_1_0', { digest: 'd', reason: HUGE }),
        session.resolve('t_1_1_0', 'skip', { by: HUGE }),
        session.answer('t_1_1_0', 1, { by: HUGE }),
      ].map(codeOf),
    )
    expect(codes).toEqual(codes.map(() => 'invalid_request'))
    expect(await (await session.send('and now')).result(TIMEOUT)).toMatchObject({ text: 'hello' })
  })

  it('texts of two megabytes that another client signals are truncated, and the session continues as new with them', async () => {
    const turns = DUE / 5 + 5
    const { session, id } = player.play(here.pawl, {
      model: (request) => (answersIn(request) < turns ? [use('look', `${answersIn(request)}`)] : 'done'),
    })
    const run = await session.send('go')
    await workflowOf(id).signal('close', { by: HUGE })
    await run.result(TIMEOUT)
    expect((await workflowOf(id).describe()).historyLength).toBeLessThan(1.1 * DUE)
    const closed = await until('it is closed', async () => ofType(await eventsOf(session), 'session_closed')[0])
    expect(jsonBytes(closed.by)).toBeLessThanOrEqual(1_000)
    expect(closed.by).toMatch(/^b+…$/)
  })

  it('texts of two megabytes in any request of another client are refused or truncated', async () => {
    const { session, id } = asker.play(here.pawl, { model: inOrder([use('pay', 'it')], 'one', 'two', 'three') })
    const run = await session.send('go')
    const digest = await digestOf(run, 't_1_1_0')
    const half = HUGE.slice(0, 1_000_000)
    const update = (name: string, request: object) => codeOfUpdate(workflowOf(id).executeUpdate(name, { args: [request] }))
    expect(await update('approve', { callId: HUGE, digest })).toBe('call_not_found')
    expect(await update('approve', { callId: 't_1_1_0', digest: HUGE })).toBe('digest_mismatch')
    expect(await update('resolve', { callId: HUGE, resolution: { happened: false } })).toBe('call_not_found')
    expect(await update('rollback', { target: { message: HUGE } })).toBe('invalid_target')
    expect(await update('rollback', { target: { run: 7, more: HUGE }, by: 'me' })).toBe('run_not_found')
    expect(await update('fork', { target: { message: HUGE }, interrupt: false })).toBe('invalid_target')
    expect(await update('recover', { strategy: HUGE })).toBe('not_in_error')
    expect(await update('checkpoint', { reason: 'here', by: half, note: half })).toBe('accepted')
    expect(await update('deny', { callId: 't_1_1_0', digest, by: half, reason: half })).toBe('accepted')
    await run.result(TIMEOUT)
    await workflowOf(id).signal('interrupt', { by: half, reason: half })
    await workflowOf(id).signal('message', { messageId: 'other', content: 'hi', agent: HUGE })
    await workflowOf(id).signal(`s${'x'.repeat(900)}`, 1)
    await (await session.send('and now')).result(TIMEOUT)
    const events = await eventsOf(session)
    for (const event of events) expect(jsonBytes(event)).toBeLessThan(20_000)
    expect(ofType(events, 'message_rejected').map(({ code }) => code)).toContain('invalid_message')
    expect(jsonBytes(ofType(events, 'approval_decided')[0]?.reason)).toBeLessThanOrEqual(4_000)
  })

  it('texts of two megabytes in a start are not carried along, and the message is answered', async () => {
    const { session, id } = player.play(here.pawl, { model: () => 'hello' })
    await here.temporal.workflow.signalWithStart('pawlSession', {
      workflowId: `pawl:${id}`,
      taskQueue: here.taskQueue,
      args: [{ agent: 'player', fork: { from: 'x', seq: 1, digest: HUGE.slice(0, 900_000), keys: 'carried', by: HUGE.slice(0, 900_000) } }],
      signal: 'message',
      signalArgs: [{ messageId: 'one', content: 'hi', agent: 'player' }],
    })
    expect(await session.run('one').result(TIMEOUT)).toMatchObject({ text: 'hello' })
    for (const event of await eventsOf(session)) expect(jsonBytes(event)).toBeLessThan(2_000)
  })
})

async function codeOfUpdate(work: Promise<unknown>): Promise<unknown> {
  try {
    await work
    return 'accepted'
  } catch (error) {
    const { cause } = error as { cause?: { type?: string; message?: string } }
    expect(jsonBytes(cause?.message)).toBeLessThan(10_000)
    return cause?.type ?? error
  }
}

describe('calls that wait with large arguments', () => {
  /** Three of them alone exceed the limit of what is carried. */
  const LARGE = 'a'.repeat(250_000)

  it('waiting calls with large arguments are carried through continue-as-new and a termination, and run with all of them', {
    timeout: 180_000,
  }, async () => {
    const { session, id, entries } = asker.play(here.pawl, {
      model: once(['pay', `1 ${LARGE}`], ['pay', `2 ${LARGE}`], ['pay', `3 ${LARGE}`], ['pay', 'small']),
      body: () => 'paid',
    })
    const run = await session.send('go')
    const pending = await pendingOf(run)
    expect(pending.map(({ input }) => jsonBytes(input) > 200_000)).toEqual([true, true, true, false])
    await untilContinued(session)
    const started = await startOf(id)
    expect(jsonBytes(started.carried?.state)).toBeLessThan(SNAPSHOT_BYTES.total)
    expect(started.carried?.state.current?.leftOut).toHaveLength(3)
    // The arguments are still reported.
    expect((await pendingOf(session.run(run.messageId))).map(({ input }) => input)).toEqual(pending.map(({ input }) => input))
    await session.approve('t_1_1_0', { digest: pending[0]?.digest ?? '' })
    await until('it is paid', () => entries.length === 1)
    await until('it is stored', () => isStored(id))
    await workflowOf(id).terminate('by an operator')
    await session.resume()
    for (const { callId, digest = '' } of pending.slice(1)) await session.approve(callId, { digest })
    await run.result(TIMEOUT)
    expect(entries.map(({ input }) => input.what.length)).toEqual([LARGE.length + 2, LARGE.length + 2, LARGE.length + 2, 5])
  })

  /** Signals the session, a few at a time, until it continues in a new execution. */
  async function untilContinued({ id }: SessionHandle): Promise<void> {
    const described = () => workflowOf(id).describe()
    const { runId: first } = await described()
    for (;;) {
      const { runId, historyLength } = await described()
      if (runId !== first) return
      await Promise.all(Array.from({ length: 20 }, () => workflowOf(id).signal('nonsense', 1)))
      await until('they have arrived', async () => {
        const now = await described()
        return now.runId !== first || now.historyLength > historyLength + 20
      })
      if (historyLength > 0.9 * DUE) await until('it is stored', async () => (await isStored(id)) || (await described()).runId !== first)
    }
  }

  async function isStored(id: string): Promise<boolean> {
    return (await here.pawl.sessions.get(id)).flushedSeq >= (await here.pawl.session(id).state()).seq
  }

  async function startOf(id: string): Promise<SessionStart> {
    const { events } = await workflowOf(id).fetchHistory()
    const payload = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads?.[0]
    return JSON.parse(Buffer.from(payload?.data ?? []).toString()) as SessionStart
  }

  it('waiting calls with large arguments may all be approved at once with replacements of the largest size', async () => {
    const count = 6
    const { session, entries } = asker.play(here.pawl, {
      model: once(...texts(count, 'p').map((what): ['peek', string] => ['peek', what])),
      body: () => 'seen',
    })
    const run = await session.send('go')
    const pending = await pendingOf(run)
    const large = 'i'.repeat(900_000)
    await Promise.all(
      pending.map(({ callId, digest = '' }, index) => session.approve(callId, { digest, input: { what: `${index}${large}` } })),
    )
    await run.result(TIMEOUT)
    expect(entries.map(({ input }) => input.what.length)).toEqual(texts(count).map(() => large.length + 1))
  })
})

it('reads with the largest context, tags, metadata and arguments run side by side', async () => {
  const reads = 20
  const played = player.play(
    here.pawl,
    {
      model: inOrder(
        texts(reads).map((what, n) => use('look', what + 'a'.repeat(45_000), n)),
        'done',
      ),
      look: (_input, ctx) => `${jsonBytes(ctx.context)} ${jsonBytes(ctx.tags)} ${jsonBytes(ctx.metadata)}`,
    },
    { context: { c: 'c'.repeat(99_000) }, tags: ['t'.repeat(15_900)] },
  )
  const run = await played.session.send('go', { metadata: METADATA })
  await run.result(TIMEOUT)
  expect(resultsIn(played.requests.at(-1)!).map(({ content }) => content)).toEqual(
    texts(reads).map(() => `${99_008} ${15_904} ${jsonBytes(METADATA)}`),
  )
  const { events } = await workflowOf(played.id).fetchHistory()
  expect(events?.filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([])
})

it('an answer with more calls than a turn may have ends its run; one with exactly that many is carried out', async () => {
  const { session, requests } = player.play(here.pawl, {
    model: (request) =>
      saidIn(request).length === 1
        ? texts(MAX_CALLS + 1).map((what) => use('look', what))
        : answersIn(request) === 0
          ? texts(MAX_CALLS).map((what) => use('look', what))
          : 'done',
  })
  expect(await (await session.send('too many')).settled(TIMEOUT)).toMatchObject({ status: 'failed', code: 'invalid_response' })
  expect(await (await session.send('many')).result(TIMEOUT)).toMatchObject({ text: 'done' })
  expect(resultsIn(requests.at(-1)!)).toHaveLength(MAX_CALLS)
})
