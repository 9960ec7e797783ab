// The sessions that are recorded: between them, every kind of event and every way a workflow can go.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import type { SessionEvent } from 'pawl'
import type { SessionHandle } from 'pawl/client'

/** What a session is recorded with. */
export interface Recorder {
  /** A Temporal client that knows nothing of pawl. */
  temporal: Client
  taskQueue: string
  /** Starts a worker that serves the agent `late`. */
  serveLate(): Promise<void>
}

/** Plays a session; `id` is its session id. */
export type Play = (id: string, recorder: Recorder, session: SessionHandle) => Promise<void>

/** Says it and waits for the answer. */
async function say(session: SessionHandle, text: string): Promise<void> {
  const run = await session.send(text)
  await run.settled({ timeoutMs: 60_000 })
}

/** Waits until the session has an event such as this. */
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

/** The sessions by name. Unless `OPTIONS` has others, each is started with the agent `recorded`. */
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
    await run.settled({ timeoutMs: 60_000 })
  },

  async interrupt(_id, _recorder, session) {
    for (const tool of ['look', 'set', 'pay']) {
      const run = await session.send(`${tool} endless + look a`)
      await begun(session, run.messageId)
      await session.interrupt({ reason: 'enough', by: 'a person' })
      await run.settled({ timeoutMs: 60_000 })
    }
    await say(session, 'hello')
  },

  async recovery(_id, _recorder, session) {
    const run = await session.send('fail once')
    await run.settled({ timeoutMs: 60_000 })
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

  /** A history that is full in the middle of a run, with a message waiting: it goes on in another execution. */
  async long(id, { temporal }, session) {
    await say(session, 'set a + pay maybe')
    const run = await session.send('look linger / set b / set b', { messageId: 'opener', metadata: { n: 1 } })
    await begun(session, run.messageId)
    const handle = temporal.workflow.getHandle(workflowIdOf(id))
    for (let batch = 0; batch < 25; batch++) {
      await Promise.all(Array.from({ length: 40 }, () => handle.signal('message', { messageId: 'again', content: 'set c / pay maybe' })))
    }
    await run.settled({ timeoutMs: 60_000 })
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
    await serveLate()
    await run.settled({ timeoutMs: 60_000 })
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
    await session.run('odd').settled({ timeoutMs: 60_000 })
  },
}

/** What the sessions are started with. */
export const OPTIONS: Record<string, { agent: string; notServedAfter?: number }> = {
  turns: { agent: 'bounded' },
  deadline: { agent: 'hurried' },
  not_served: { agent: 'late', notServedAfter: 500 },
}

async function untilClosed({ temporal }: Recorder, id: string): Promise<void> {
  while ((await temporal.workflow.getHandle(workflowIdOf(id)).describe()).status.name === 'RUNNING') await sleep(20)
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

/** A signal with a payload that no converter of ours has made. */
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
