// The recorded sessions: together they cover every kind of event and every way that a workflow can go.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import type { SessionEvent } from 'pawl'
import type { Pawl, RunHandle, SessionHandle } from 'pawl/client'

/** What a session is recorded with. */
export interface Recorder {
  /** A Temporal client that knows nothing of pawl. */
  temporal: Client
  taskQueue: string
  pawl: Pawl
  /** Starts a worker that serves the agent. */
  serveLate(agent: 'late' | 'later'): Promise<void>
}

/** Plays a session; `id` is its session id. */
export type Play = (id: string, recorder: Recorder, session: SessionHandle) => Promise<void>

/** Sends the text and waits for the answer. */
async function say(session: SessionHandle, text: string): Promise<void> {
  const run = await session.send(text)
  await run.settled({ timeout: 60_000 })
}

/** Waits until the run has ended, even if it waits for a person in between. */
async function ended(run: RunHandle): Promise<void> {
  await run.result({ timeout: 60_000 }).catch(() => undefined)
}

/** Waits until the session has such an event. */
async function seen(session: SessionHandle, is: (event: SessionEvent) => boolean): Promise<void> {
  const stop = new AbortController()
  for await (const event of session.events({ follow: true, signal: stop.signal })) if (is(event)) stop.abort()
}

/** Waits until the run of this message has issued a call. */
async function begun(session: SessionHandle, messageId: string): Promise<void> {
  let ours = false
  await seen(session, (event) => {
    ours ||= event.type === 'run_started' && event.messageId === messageId
    return ours && event.type === 'tool_issued'
  })
}

const workflowIdOf = (id: string): string => `pawl:${id}`

/** The sessions by name. Each starts with the agent `recorded` unless `OPTIONS` names another. */
export const SESSIONS: Record<string, Play> = {
  async plain(_id, _recorder, session) {
    await say(session, 'hello')
    await say(session, 'think')
    await say(session, 'nothing')
    await say(session, 'pause')
  },

  async effects(_id, _recorder, session) {
    await say(session, 'look a + look b + set c + pay d / set c / mail e + look f')
    await say(session, 'missing a + look misfit / set c')
  },

  async retries(_id, _recorder, session) {
    await say(session, 'overload')
    await say(session, 'look flaky + set flaky / look broken + set broken')
    await say(session, 'pay never / mail never')
  },

  async unknown(_id, _recorder, session) {
    await say(session, 'pay lost / pay lost')
    await say(session, 'pay maybe / pay maybe')
    await say(session, 'pay undone')
    await say(session, 'mail maybe + mail maybe')
  },

  async deaths(_id, _recorder, session) {
    await say(session, 'look die')
    await say(session, 'set die')
    await say(session, 'pay die')
    await say(session, 'die')
  },

  async steering(_id, _recorder, session) {
    const run = await session.send('look hold / look a', { messageId: 'first' })
    await begun(session, run.messageId)
    await session.send('look b', { messageId: 'second', metadata: { urgent: true } })
    await session.send('and this', { messageId: 'third' })
    await session.send('and this', { messageId: 'third' })
    await run.settled({ timeout: 60_000 })
  },

  async interrupt(_id, _recorder, session) {
    for (const tool of ['look', 'set', 'pay']) {
      const run = await session.send(`${tool} endless + look a`)
      await begun(session, run.messageId)
      if (tool === 'set') await session.checkpoint('within a turn', { by: 'a person' })
      await session.interrupt({ reason: 'enough', by: 'a person' })
      await run.settled({ timeout: 60_000 })
    }
    await say(session, 'hello')
  },

  async recovery(_id, _recorder, session) {
    const run = await session.send('fail once')
    await run.settled({ timeout: 60_000 })
    await session.recover({ strategy: 'restart_run', by: 'a person' })
    await seen(session, (event) => event.type === 'run_completed')
    await say(session, 'set a / fail')
    await session.recover({ strategy: 'abandon' })
    await say(session, 'fail')
    await say(session, 'hello')
  },

  async turns(_id, _recorder, session) {
    await say(session, 'look a / look b / look c')
    await say(session, 'hello')
  },

  async deadline(_id, _recorder, session) {
    await say(session, 'look a / look endless')
    await say(session, 'set endless')
  },

  /** The history fills up in the middle of a run while a message waits: the session continues in another execution. */
  async long(id, { temporal }, session) {
    await say(session, 'set a + pay maybe')
    const run = await session.send('look linger / set b / set b', { messageId: 'opener', metadata: { n: 1 } })
    await begun(session, run.messageId)
    const handle = temporal.workflow.getHandle(workflowIdOf(id))
    for (let batch = 0; batch < 25; batch++) {
      await Promise.all(Array.from({ length: 40 }, () => handle.signal('message', { messageId: 'again', content: 'set c / pay maybe' })))
    }
    await run.settled({ timeout: 60_000 })
    await say(session, 'hello')
  },

  async resumed(_id, _recorder, session) {
    await say(session, 'set a')
    await session.close({ by: 'a person' })
    await seen(session, (event) => event.type === 'session_closed')
    await say(session, 'set b')
    await session.close()
    await seen(session, (event) => event.type === 'session_resumed')
    await untilClosed(_recorder, _id)
    await say(session, 'fail')
    await session.close()
    await untilClosed(_recorder, _id)
    await say(session, 'hello')
  },

  async not_served(_id, { serveLate }, session) {
    const run = await session.send('look a')
    await seen(session, (event) => event.type === 'error_entered')
    await serveLate('late')
    await run.settled({ timeout: 60_000 })
  },

  /** Messages arrive all the time, even while the history is full: the newest are carried over. */
  async steady(id, { temporal }, session) {
    const handle = temporal.workflow.getHandle(workflowIdOf(id))
    const first = await session.send('look a / look b', { messageId: 'first' })
    await first.settled({ timeout: 60_000 })
    const { runId } = await handle.describe()
    let sent = 0
    for (let full = false; !full; full = (await handle.describe()).runId !== runId) {
      for (let n = 0; n < 20; n++, sent++) {
        await handle.signal(
          'message',
          sent % 100 === 0 ? { messageId: `look ${sent}`, content: `look ${sent}` } : { messageId: 'first', content: '' },
        )
      }
    }
    await say(session, 'hello')
  },

  async timely(_id, _recorder, session) {
    await say(session, 'look a / look hold / look b / set hold / look c')
    await say(session, 'look hold / look d')
  },

  /** Terminated from outside during a call that pawl cannot verify before its timeout has passed. */
  async overdue(id, { temporal }, session) {
    const run = await session.send('post endless', { messageId: 'cut' })
    await seen(session, (event) => event.type === 'tool_issued')
    await temporal.workflow.getHandle(workflowIdOf(id)).terminate('recorded')
    await session.send('hello', { messageId: 'on' })
    await run.settled({ timeout: 60_000 })
    const again = await session.send('post endless')
    await again.settled({ timeout: 60_000 })
  },

  async checkpoints(_id, _recorder, session) {
    await say(session, 'look a / set b + look milestone / look c')
    await session.checkpoint('by hand', { by: 'a person' })
  },

  async moved(_id, _recorder, session) {
    await say(session, 'set a / mail b')
    await say(session, 'hello')
    await session.rollback({ checkpoint: 1, by: 'a person', reason: 'too far' })
    const run = await session.send('look endless', { messageId: 'waiting' })
    await begun(session, run.messageId)
    const moved = session.rollback({ run: 3 })
    await session.send('hello again')
    await moved
    await session.rollback({ checkpoint: 99 }).catch(() => undefined)
    await say(session, 'pay maybe')
  },

  async forked(id, { pawl }, session) {
    const source = pawl.session(`${id}-source`, { agent: 'recorded' })
    await say(source, 'set a')
    await say(source, 'set b')
    await source.fork({ run: 2, id, by: 'a person', tags: ['copy'] })
    await say(session, 'set c')
  },

  /** Terminated from outside in the middle of a turn. */
  async cut_off(id, recorder, session) {
    const run = await session.send('set a + look endless + pay b', { messageId: 'cut' })
    await seen(session, (event) => event.type === 'tool_issued' && event.tool === 'look')
    await recorder.temporal.workflow.getHandle(workflowIdOf(id)).terminate('recorded')
    await session.send('set a', { messageId: 'on' })
    await run.settled({ timeout: 60_000 })
    await say(session, 'hello')
  },

  async asked(_id, _recorder, session) {
    const first = await session.send('sign a + look b + sign freely + sign c + ask d')
    await seen(session, (event) => event.type === 'answer_requested')
    const digests = await digestsOf(session)
    await session.approve('t_1_1_0', { digest: digests.t_1_1_0 ?? '', by: 'a person', input: { how: 'other' } })
    await session.deny('t_1_1_3', { digest: digests.t_1_1_3 ?? '', by: 'a person', reason: 'not today' })
    await session.answer('t_1_1_4', 'here', { by: 'a person' })
    await ended(first)
    await ended(await session.send('sign late + ask late'))
    const asked = await session.send('wire lost + look b / wire never')
    await seen(session, (event) => event.type === 'tool_unknown')
    await session.resolve('t_3_1_0', 'retry', { by: 'a person' })
    await seen(session, (event) => event.type === 'tool_unknown' && event.attempt > 1)
    await session.resolve('t_3_1_0', { happened: true, result: 'found' }, { by: 'a person', note: 'looked' })
    await ended(asked)
    const skipped = await session.send('wire maybe')
    await seen(session, (event) => event.type === 'tool_unknown' && event.run === 4)
    await session.resolve('t_4_1_0', 'skip', { by: 'a person' })
    await ended(skipped)
  },

  /** Hooks stop a run, refuse and change calls, fail, die, report, and run after the end of a run. */
  async hooked(_id, _recorder, session) {
    await say(session, 'closed')
    await say(session, 'look telling + set too_much + pay forbidden / set report + look broken / look fatal')
    await say(session, 'check')
    const asked = await session.send('pay unclear + sign a')
    await seen(session, (event) => event.type === 'approval_requested' && event.callId === 't_4_1_1')
    const first = await digestsOf(session)
    await session.approve('t_4_1_0', { digest: first.t_4_1_0 ?? '', by: 'a person', input: { how: 'forbidden' } }).catch(() => undefined)
    await session.approve('t_4_1_0', { digest: first.t_4_1_0 ?? '', by: 'a person', input: { how: 'too_much' } }).catch(() => undefined)
    await seen(session, (event) => event.type === 'approval_requested' && event.digest !== first.t_4_1_0 && event.callId === 't_4_1_0')
    const second = await digestsOf(session)
    await session.approve('t_4_1_0', { digest: second.t_4_1_0 ?? '', by: 'a person' })
    await session.deny('t_4_1_1', { digest: second.t_4_1_1 ?? '', by: 'a person' })
    await ended(asked)
    const cut = await session.send('look fatal + look endless')
    await seen(session, (event) => event.type === 'tool_completed' && event.run === 5)
    await session.interrupt({ by: 'a person' })
    await ended(cut)
    await seen(session, (event) => event.type === 'hooks_ended')
    await say(session, 'hello')
  },

  /** A budget triggers a warning, runs out, is raised, and stays with a restarted run; attempts fail and die. */
  async budgeted(_id, _recorder, session) {
    await say(session, 'look costly / look costly / die')
    await say(session, 'look costly / look costly / look a')
    await session.raise({ maxUsd: 2, by: 'a person' })
    await seen(session, (event) => event.type === 'run_completed' && event.run === 2)
    await say(session, 'look costly / fail')
    await session.recover({ strategy: 'restart_run', by: 'a person' })
    await seen(session, (event) => event.type === 'error_entered' && event.run === 4)
    await session.recover({ strategy: 'abandon', by: 'a person' })
    const held = await session.send('look hold / look hold')
    await seen(session, (event) => event.type === 'tool_issued' && event.run === 5)
    await session.raise({ scope: 'session', maxUsd: 9, by: 'a person' })
    await session.interrupt({ by: 'a person' })
    await ended(held)
    await session.rollback({ run: 5, by: 'a person' })
    await say(session, 'hello')
  },

  async foreign(id, { temporal, taskQueue }, session) {
    const handle = await temporal.workflow.start('pawlSession', { workflowId: workflowIdOf(id), taskQueue, args: [] })
    await signalRaw(temporal, id, 'message', { metadata: { encoding: bytes('json/protobuf') }, data: bytes('{"no":"message"}') })
    await signalRaw(temporal, id, 'message', { metadata: { encoding: bytes('of its own') }, data: bytes('?') })
    await signalRaw(temporal, id, 'message', { metadata: { encoding: bytes('json/plain') }, data: bytes('{"content": "cut of') })
    await handle.signal('there_is_no_such_signal', 1)
    await handle.signal('message', { content: 'hello', agent: 'recorded', context: { tenant: 'é\u0000' }, messageId: 'first' })
    await handle.signal('message', { content: '' })
    await handle.signal('message', { content: 'hello', agent: 'another' })
    await handle.signal('message', { content: 'a\u0000b\ud800', messageId: 'odd' })
    await handle.signal('interrupt', 'no object')
    await session.run('odd').settled({ timeout: 60_000 })
  },

  /** Summaries: one of a conversation that fills its window, one that fails, one that a provider forces; and a rollback. */
  async compacted(_id, _recorder, session) {
    await say(session, 'one')
    await say(session, 'two')
    await say(session, 'three')
    await session.rollback({ run: 2 })
    await say(session, 'four')
  },

  /** Reads that ride: some end, some throw, one is interrupted, and one takes too long. Record it on a quiet machine: `replay.test.ts`. */
  async riding(id, recorder, session) {
    await ridesFrom(recorder, `${id}-1`)
    await say(session, 'look a + look report / look flaky + look broken / look milestone + look costly')
    await ridesFrom(recorder, `${id}-2`)
    const run = await session.send('look endless + look a')
    await sleep(WITHIN_RIDE_MS)
    await session.interrupt()
    await run.settled({ timeout: 60_000 })
    await ridesFrom(recorder, `${id}-3`)
    await say(session, 'look a + look linger')
  },

  /** Must come last: another worker serves the queue from then on. */
  async not_served_early(_id, { serveLate }, session) {
    const run = await session.send('look a / set b')
    await seen(session, (event) => event.type === 'error_entered')
    await serveLate('later')
    await run.settled({ timeout: 60_000 })
    await say(session, 'look c')
  },
}

/** What the sessions are started with. */
export const OPTIONS: Record<string, { agent: string; notServedAfter?: number }> = {
  turns: { agent: 'bounded' },
  hooked: { agent: 'hooked' },
  compacted: { agent: 'forgetful' },
  budgeted: { agent: 'budgeted' },
  deadline: { agent: 'hurried' },
  not_served: { agent: 'late', notServedAfter: 500 },
  not_served_early: { agent: 'later', notServedAfter: 500 },
  timely: { agent: 'timely' },
  checkpoints: { agent: 'careful' },
}

/** Less than riding reads may take. */
const WITHIN_RIDE_MS = 400

/** Has both executors measure the tool, in other sessions, until its reads ride. */
async function ridesFrom({ pawl, temporal }: Recorder, id: string): Promise<void> {
  const many = Array.from({ length: 20 }, () => 'look a').join(' + ')
  const rode = async (warmId: string): Promise<boolean> => {
    await say(pawl.session(warmId, { agent: 'recorded', context: { tenant: 'a' } }) as SessionHandle, `${many} / ${many}`)
    const { events } = await temporal.workflow.getHandle(workflowIdOf(warmId)).fetchHistory()
    return !events?.some((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'executeTool')
  }
  for (let round = 1; ; round += 1) {
    const all = await Promise.all([1, 2, 3, 4].map((n) => rode(`${id}-warm-${round}-${n}`)))
    if (all.every(Boolean)) return
  }
}

/** The digests of the arguments that a person has to look at. */
async function digestsOf(session: SessionHandle): Promise<Record<string, string>> {
  const { current } = await session.state()
  return Object.fromEntries((current?.calls ?? []).flatMap(({ callId, digest }) => (digest === undefined ? [] : [[callId, digest]])))
}

async function untilClosed({ temporal }: Recorder, id: string): Promise<void> {
  while ((await temporal.workflow.getHandle(workflowIdOf(id)).describe()).status.name === 'RUNNING') await sleep(20)
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

/** Sends a signal with a payload that none of our converters made. */
async function signalRaw(
  temporal: Client,
  id: string,
  signalName: string,
  payload: { metadata: Record<string, Uint8Array>; data: Uint8Array },
): Promise<void> {
  await temporal.workflowService.signalWorkflowExecution({
    namespace: temporal.options.namespace,
    workflowExecution: { workflowId: workflowIdOf(id) },
    signalName,
    input: { payloads: [payload] },
  })
}
