// The handle of a session.
import { randomUUID } from 'node:crypto'
import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import type { Slice } from '../../agent/slice.ts'
import type { Logger } from '../../agent/tool.ts'
import { onTemporal } from '../../connect/deadline.ts'
import type { TellWait } from '../../connect/waits.ts'
import type { UserBlock } from '../../session/content.ts'
import type { SessionStatus, Target } from '../../session/events.ts'
import type { Json } from '../../session/json.ts'
import {
  type MessageSignal,
  type SessionStart,
  SIGNALS,
  UPDATES,
  WORKFLOW_TASK_TIMEOUT_MS,
  WORKFLOW_TYPE,
  workflowIdOf,
  type RegenerateAnswer,
  type SessionSummary,
} from '../../session/protocol/protocol.ts'
import { TARGET_REQUIRED } from '../../session/protocol/requests.ts'
import type { Store } from '../../store/store.ts'
import { sessionQueriesOf, transcriptOf } from '../queries/queries.ts'
import { checkSessionId } from './session-id.ts'
import { type UpdateTarget, ask, inTurn, type StartLabels, startShown } from './updates.ts'
import type { StartIndexed } from '../../connect/search-attributes.ts'
import { InvalidMessageError, RequestRefusedError, SessionNotFoundError } from '../errors.ts'
import { fork, targetOf } from './forking.ts'
import { readBudgets } from './budget.ts'
import {
  checkRaise,
  checkApproval,
  checkAnswering,
  checkBy,
  checkCallId,
  checkCheckpointReason,
  checkDenial,
  checkFork,
  checkAt,
  checkMessageId,
  checkNoted,
  checkRaiseOptions,
  checkReasoned,
  checkRecover,
  checkReportedOutcome,
  checkResult,
  checkRollback,
  checkRunNumber,
  checkSha256,
  checkTargetOptions,
  withoutOptions,
} from './request-options.ts'
import { checkOpening, readBlob, signalOf } from './large-content.ts'
import { inTime } from '../../waiting/in-time.ts'
import { activeTraceparent } from './active-span.ts'
import { checkEvents, checkSend, checkWatch, type SessionOpening } from './options.ts'
import { orItsFate } from './late-decision.ts'
import { memoryOf, readMemoryVersions, readPlans } from './versions.ts'
import { runHandle } from './run.ts'
import { sayingIfErased, sayingIfGone } from './erased.ts'
import { warnOfOtherContext } from './kept-context.ts'
import { allEvents, type SessionSource, readEvents, readMessages } from './events.ts'
import { followBatches, STORE_PATIENCE_MS, watchBatches } from './follow.ts'
import { readRunReport } from './run-report.ts'
import type { SessionState } from '../../session/state.ts'
import { viewOf } from '../../session/watching/view.ts'
import { readState, readStateAndFacts } from './state.ts'
import { noteSource } from './stored-past.ts'
import { checkReading, readMoments, readSlice } from './slice.ts'
import { readReport } from './status.ts'
import { pastOf, stateAt } from './at-checkpoint.ts'
import type { ForkOptions, RunHandle, SendOptions, SessionHandle } from '../types.ts'
import { defined } from '../../session/defined.ts'

/** What a session handle needs. */
export interface SessionParts {
  client: Client
  store: Store | undefined
  taskQueue: string
  /** See `EventSource`. */
  closed: AbortSignal
  /** Called with what a request waits for. */
  tell?: TellWait | undefined
  /** Logs events that a slice skipped. */
  logger?: Logger | undefined
  /** Starts workflows with search attributes, if they are in use. */
  indexed: StartIndexed
}

/** The handle of a session. `known`: whether its id was just generated, so the session cannot exist yet. */
export function sessionHandle(parts: SessionParts, id: string, options: SessionOpening, known: { isNew: boolean }): SessionHandle {
  checkSessionId(id)
  const { client, store, closed, tell } = parts
  const source: SessionSource = { sessionId: id, client, store, closed, ...defined({ agent: options.agent }) }
  const workflow = client.workflow.getHandle(workflowIdOf(id))
  const { agent, tags, priority } = options
  const shown: StartLabels = defined({ agent, tags, priority })
  const { taskQueue = parts.taskQueue, settings } = options
  const asked: UpdateTarget = { client, sessionId: id, taskQueue, settings, tell, shown, indexed: parts.indexed }

  let mayBeNew = known.isNew

  /** Whether the session cannot exist yet. Only the first message can know this; after it, the session may exist. */
  function takeNew(): boolean {
    const isNew = mayBeNew
    mayBeNew = false
    return isNew
  }

  async function send(content: string | UserBlock[], sendOptions?: SendOptions): Promise<RunHandle> {
    const sent = checkSend(sendOptions)
    const { messageId = randomUUID(), metadata, deadlineMs, isNew = takeNew(), interrupt, by } = sent
    const traceparent = sent.traceparent ?? (await activeTraceparent())
    const message: MessageSignal = {
      messageId: sendable(messageId),
      content,
      // JSON drops functions, so the message would be sent without them.
      ...(metadata !== undefined && metadata !== null && { metadata: sendable(metadata) }),
      ...defined({ agent: options.agent, deadlineMs, by, traceparent }),
      ...(interrupt && { interrupt }),
    }
    checkOpening(options)
    const signal = await signalOf(store, id, message, requireReceiver)
    if (options.agent === undefined) return signalOnly(signal)
    const opening = {
      workflowId: workflowIdOf(id),
      taskQueue,
      workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
      args: [startOf(id, options, isNew)],
      signal: SIGNALS.message,
      signalArgs: [signal],
    }
    await startShown(parts.indexed, shown, (view) =>
      onTemporal(client, () => client.workflow.signalWithStart(WORKFLOW_TYPE, { ...opening, ...view })),
    )
    if (store && options.context !== undefined && !isNew) void warnOfOtherContext(store, id, options.context as Json, parts.logger)
    return runHandle(source, messageId, { isSent: true })
  }

  /** Without an agent's name, only an open session can receive a message. */
  async function requireReceiver(): Promise<void> {
    if (options.agent !== undefined) return
    const { status } = await onOpenSession(() => workflow.describe())
    if (status.name !== 'RUNNING') throw noAgent()
  }

  async function signalOnly(message: MessageSignal): Promise<RunHandle> {
    await onOpenSession(() => workflow.signal(SIGNALS.message, message))
    return runHandle(source, message.messageId ?? '', { isSent: true })
  }

  async function onOpenSession<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await onTemporal(client, call)
    } catch (cause) {
      throw cause instanceof WorkflowNotFoundError ? noAgent() : cause
    }
  }

  const noAgent = (): InvalidMessageError =>
    new InvalidMessageError('no_agent', `Session "${id}" is not open. Name the agent, pawl.session(id, { agent }), to start or resume it.`)

  /** Sends an update with checked details. */
  async function request<R>(update: string, details: object): Promise<R> {
    return sayingIfErased(source, () => inTurn(client, id, details, () => ask(asked, update, details)))
  }

  async function decideOn<R>(update: string, given: unknown, details: object): Promise<R> {
    const callId = checkCallId(given)
    return orItsFate(store, id, callId, () => request<R>(update, { callId, ...details }))
  }

  async function stop(signal: string, details: object): Promise<void> {
    try {
      await onTemporal(client, () => workflow.signal(signal, details))
    } catch (cause) {
      if (cause instanceof WorkflowNotFoundError) throw new SessionNotFoundError(id, { cause })
      throw cause
    }
  }

  /** A session that has already closed needs no signal. */
  async function close(details: object): Promise<void> {
    try {
      await stop(SIGNALS.close, details)
    } catch (cause) {
      const status = await statusOnceEnded(cause)
      if (status === 'closed') return
      const text = `The workflow of session "${id}" ended while the session was ${status}. Open it again with resume, then close it.`
      throw new RequestRefusedError('not_open', text, { cause })
    }
  }

  async function interrupt(details: object): Promise<void> {
    try {
      await sayingIfErased(source, () => stop(SIGNALS.interrupt, details))
    } catch (cause) {
      const status = await statusOnceEnded(cause)
      const text =
        status === 'closed'
          ? `Session "${id}" is closed: no run is in progress, so there is nothing to interrupt.`
          : `The workflow of session "${id}" ended while the session was ${status}. Open it again with resume, then interrupt it.`
      throw new RequestRefusedError('not_open', text, { cause })
    }
  }

  /** The stored status of a session whose workflow has ended. @throws `cause`, if that is not why the request failed. */
  async function statusOnceEnded(cause: unknown): Promise<SessionStatus> {
    const isMissing = cause instanceof SessionNotFoundError && cause.erasedAt === undefined
    const stored = isMissing ? await store?.lists.session(id).catch(() => null) : null
    if (!stored) throw cause
    return stored.status
  }

  async function slice(definition: Slice, given?: object): Promise<unknown> {
    const { at, all } = checkReading(definition, given)
    const from = { ...source, logger: parts.logger }
    return sayingIfGone<unknown>(source, () => (all ? readMoments(from, definition) : readSlice(from, definition, at)))
  }

  const stateThen = (at: number | undefined): Promise<SessionState> =>
    sayingIfGone(source, () => (at === undefined ? readState(source) : stateAt(pastOf(source), at)))

  const handle: SessionHandle = {
    id,
    send,
    run: (messageId) => runHandle(source, checkMessageId(messageId)),
    ...withoutOptions({
      async state() {
        const { state, facts } = await sayingIfGone(source, () => readStateAndFacts(source))
        return viewOf(state, facts)
      },
      status: () => readReport(source),
      messages: () => readMessages(source),
      plans: () => sayingIfGone(source, () => readPlans(id, (after) => readEvents(source, after))),
      memoryVersions: () => sayingIfGone(source, () => readMemoryVersions(id, (after) => readEvents(source, after))),
      resume: () => sayingIfErased(source, () => ask<SessionSummary>(asked, UPDATES.resume)),
      ...sessionQueriesOf(store, id),
    }),
    plan: async (given) => (await stateThen(checkAt(given))).plan?.current ?? null,
    memory: async (given) => memoryOf(await stateThen(checkAt(given))),
    async budgets(given) {
      const at = checkAt(given)
      return sayingIfGone(source, () => readBudgets(source, at))
    },
    async runReport(given) {
      const run = checkRunNumber(given)
      return sayingIfGone(source, () => readRunReport(source, run))
    },
    async messagesUpTo(given) {
      const target = checkTargetOptions(given) as Target
      return sayingIfGone(source, () => transcriptOf(store, id, (after) => readEvents(source, after), target))
    },
    blob: async (sha256) => readBlob(store, id, checkSha256(sha256)),
    slice: slice as SessionHandle['slice'],
    async *events(given) {
      const { after, follow, signal } = checkEvents(given)
      if (follow) {
        for await (const batch of followBatches(source, after, signal)) {
          yield* batch
          // If the session was reopened since, its later events follow.
          if (batch.at(-1)?.type === 'session_closed') return
        }
        return
      }
      yield* allEvents(source, after)
    },
    async *watch(given) {
      const { after, signal } = checkWatch(given)
      for await (const batch of watchBatches(source, after, signal)) {
        yield* batch
        const last = batch.findLast((item) => item.type === 'event')
        if (last?.event.type === 'session_closed') return
      }
    },
    checkpoint: async (reason, given) => request(UPDATES.checkpoint, { reason: checkCheckpointReason(reason), ...checkBy(given) }),
    async rollback(given) {
      const { by, reason, keys, ...named } = checkRollback(given)
      const target = targetOf(named)
      if (!target) throw new RequestRefusedError('invalid_target', TARGET_REQUIRED)
      return request(UPDATES.rollback, { target, ...defined({ keys, by, reason }) })
    },
    async regenerate(given) {
      const { messageId, seq } = await request<RegenerateAnswer>(UPDATES.regenerate, checkReasoned(given))
      return runHandle(source, messageId, { after: seq })
    },
    async fork(given) {
      // If the store does not answer soon, the fork waits for it, and may be refused then.
      const isStored = async (other: string): Promise<boolean> => {
        const head = store?.head(other).catch(() => null)
        return Boolean(head && (await inTime(head, STORE_PATIENCE_MS)))
      }
      const copy = await sayingIfErased(source, () => fork(asked, checkFork(given) as ForkOptions, () => allEvents(source), isStored))
      return sessionHandle(parts, copy, options, { isNew: false })
    },
    approve: async (callId, decision) => decideOn(UPDATES.approve, callId, checkApproval(decision)),
    deny: async (callId, decision) => decideOn(UPDATES.deny, callId, checkDenial(decision)),
    resolve: async (callId, resolution, given) =>
      decideOn(UPDATES.resolve, callId, { resolution: checkReportedOutcome(resolution), ...checkNoted(given) }),
    answer: async (callId, result, given) => decideOn(UPDATES.answer, callId, { result: checkResult(result), ...checkAnswering(given) }),
    pause: async (given) => request(UPDATES.pause, checkReasoned(given)),
    unpause: async (given) => request(UPDATES.unpause, checkReasoned(given)),
    raise: async (limits) => request(UPDATES.raise, checkRaise(checkRaiseOptions(limits))),
    interrupt: async (given) => interrupt(checkReasoned(given)),
    close: async (given) => close(checkBy(given)),
    recover: async (given) => {
      await request(UPDATES.recover, checkRecover(given))
    },
  }
  noteSource(handle, source)
  return handle
}

/** The value, or null for one that JSON omits; the message's checks then refuse it. */
function sendable<T>(value: T): T {
  return typeof value === 'function' || typeof value === 'symbol' ? (null as T) : value
}

function startOf(sessionId: string, { agent, context, tags, settings }: SessionOpening, isNew: boolean): SessionStart {
  return { sessionId, ...defined({ agent, context, tags }), ...(isNew && { isNew: true as const }), settings }
}
