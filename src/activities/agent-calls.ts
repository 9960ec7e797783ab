// The activities between a session and the sessions that answer its calls: questions go down, reports come up.
import { Context } from '@temporalio/activity'
import { type Client, type WorkflowHandle, WorkflowNotFoundError } from '@temporalio/client'
import type { ChildAsk, ReportInput } from '../calls/activities.ts'
import { readTarget } from '../calls/reads.ts'
import { labelledSignals, signalSession } from '../connect/signal-session.ts'
import { answerOf } from '../session/agents/answer.ts'
import { defined } from '../session/defined.ts'
import type { SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import { type AskSignal, type ReportSignal, SIGNALS, workflowIdOf } from '../session/protocol/protocol.ts'
import type { Store } from '../store/store.ts'
import { currentSession } from './current-session.ts'
import { heartbeating } from './heartbeating.ts'
import type { ActivityNeeds } from './needs.ts'
import type { SessionReader } from './session-reader.ts'

export function agentCallActivities({ store, client }: Pick<ActivityNeeds, 'store' | 'client'>, reader: SessionReader) {
  const signal = labelledSignals(client)

  /** Returns the sessions that cannot be asked, because they were erased. */
  async function askChildren({ asks }: { asks: ChildAsk[] }): Promise<{ erased: string[] }> {
    const own = currentSession()
    const isFirst = Context.current().info.attempt === 1
    const asked = await heartbeating(() => Promise.all(asks.map((one) => askChild({ client: own.client, store, signal }, one, isFirst))))
    return { erased: asks.flatMap(({ child }, at) => (asked[at] === 'erased' ? [child] : [])) }
  }

  async function reportToCaller(input: ReportInput): Promise<{ delivered: boolean }> {
    const { client: own } = currentSession()
    return heartbeating(async () => {
      const { caller, key, child, agent, call, as, code, reason, spent } = input
      const value = as === 'answered' && input.run !== undefined ? await answerIn(input, input.run, reader) : undefined
      const report: ReportSignal = { key, child, agent, call, as, ...defined({ value, code, reason }), spent }
      return { delivered: (await signalExisting({ client: own, store }, caller, SIGNALS.report, report)) === 'delivered' }
    })
  }

  return { askChildren, reportToCaller }
}

interface AskNeeds {
  client: Client
  store: Store
  signal: ReturnType<typeof labelledSignals>
}

/** Whether a session had a signal, or why not. */
type Delivery = 'delivered' | 'erased' | 'unknown'

async function askChild({ client, store, signal }: AskNeeds, asked: ChildAsk, isFirst: boolean): Promise<Delivery> {
  const { child, taskQueue, start, ask } = asked
  const handle = client.workflow.getHandle(workflowIdOf(child))
  if (!start) {
    if (await ifOpen(handle.signal(SIGNALS.ask, ask))) return 'delivered'
    // Its run may continue, because it has not closed. A session that is closed does nothing.
    const isCutOff = await statusOf(handle).then((status) => status !== undefined && CUT_OFF.includes(status))
    if (!isCutOff) return 'unknown'
  }
  if (!start || start.mustExist) return signalExisting({ client, store }, { sessionId: child, taskQueue }, SIGNALS.ask, ask)
  const isNew = isFirst && (await isUnknown(client, store, child))
  // Begun anew, it would not know what it has done.
  if (!isNew && (await isGone(client, store, child))) return 'erased'
  const begin = { sessionId: child, ...start, ...(isNew && { isNew }) }
  await signal({ sessionId: child, taskQueue, start: begin, signal: SIGNALS.ask, value: ask }, start)
  return 'delivered'
}

/** How an execution ends that did not decide to. */
const CUT_OFF: readonly string[] = ['TERMINATED', 'FAILED', 'TIMED_OUT', 'CANCELLED']

/** The status of the newest execution; undefined if Temporal does not know it any more. */
async function statusOf(handle: WorkflowHandle): Promise<string | undefined> {
  try {
    return (await handle.describe()).status.name
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined
    throw error
  }
}

/** Whether neither Temporal nor the store knows the session. If one of them does not answer, it may exist. */
async function isUnknown(client: Client, store: Store, child: string): Promise<true | undefined> {
  const isAbsent = client.workflow
    .getHandle(workflowIdOf(child))
    .describe()
    .then(
      () => false,
      (error: unknown) => error instanceof WorkflowNotFoundError,
    )
  const isUnstored = store.head(child).then(
    (head) => !head,
    () => false,
  )
  const [absent, unstored] = await Promise.all([isAbsent, isUnstored])
  return absent && unstored ? true : undefined
}

/** Whether the session was erased, and has not been started again since. If Temporal or the store does not answer, it may exist. */
async function isGone(client: Client, store: Store, child: string): Promise<boolean> {
  const row = await store.lists.session(child).catch(() => null)
  if (!row?.erasedAt) return false
  const handle = client.workflow.getHandle(workflowIdOf(child))
  return handle.describe().then(
    ({ status }) => status.name !== 'RUNNING',
    (error: unknown) => error instanceof WorkflowNotFoundError,
  )
}

async function answerIn(input: ReportInput, run: number, reader: SessionReader): Promise<Json> {
  const session = currentSession()
  const from = input.from ?? input.origin ?? { seq: 0, digest: '' }
  const entries = await reader.entries(readTarget(session, input), from, session.client)
  return answerOf(
    entries.map(({ json }) => JSON.parse(json) as SessionEvent),
    run,
  )
}

/** Signals a session that has existed; the signal never starts one. */
async function signalExisting(
  { client, store }: Omit<AskNeeds, 'signal'>,
  { sessionId, taskQueue }: ReportInput['caller'],
  signal: string,
  value: AskSignal | ReportSignal,
): Promise<Delivery> {
  if (await ifOpen(client.workflow.getHandle(workflowIdOf(sessionId)).signal(signal, value))) return 'delivered'
  // Its workflow has ended: it closed, or was terminated or erased. Nothing may be written under the id of an erased session.
  const row = await store.lists.session(sessionId)
  if (!row) return 'unknown'
  if (row.erasedAt) return 'erased'
  await signalSession(client, { sessionId, taskQueue, start: { sessionId, mustExist: true }, signal, value })
  return 'delivered'
}

/** Returns false if the workflow is not open. */
async function ifOpen(signal: Promise<void>): Promise<boolean> {
  try {
    await signal
    return true
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false
    throw error
  }
}
