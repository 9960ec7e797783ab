// The handle of a session.
import { randomUUID } from 'node:crypto'
import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import type { Slice } from '../../agent/slice.ts'
import type { Logger } from '../../agent/tool.ts'
import { signalSession } from '../../connect/signal-session.ts'
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
  workflowIdOf,
  type RegenerateAnswer,
  type SessionSummary,
} from '../../session/protocol/protocol.ts'
import { TARGET_REQUIRED } from '../../session/protocol/requests.ts'
import type { Store } from '../../store/store.ts'
import { sessionQueriesOf, transcriptOf } from '../queries/queries.ts'
import { checkSessionId } from './session-id.ts'
import { type UpdateTarget, ask, inTurn, type StartLabels, startShown, updateIdOf } from './updates.ts'
import type { StartIndexed } from '../../connect/search-attributes.ts'
import { InvalidMessageError, RequestRefusedError, SessionNotFoundError } from '../errors.ts'
import { fork, targetOf } from './forking.ts'
import { readBudgets } from './budget.ts'
import {
  checkRaise,
  checkApproval,
  checkAnswering,
  checkClosing,
  checkCallId,
  checkCheckpointReason,
  checkDenial,
  checkFork,
  checkAt,
  checkMessageId,
  checkNoted,
  checkRaiseOptions,
  checkInterrupt,
  checkReasoned,
  checkRecover,
  checkRegenerate,
  checkRepeatable,
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
import { checkEvents, checkSend, checkTreeWatch, checkWatch, type SessionOpening } from './options.ts'
import { watchTree } from './tree-watch.ts'
import { orItsFate } from './late-decision.ts'
import { memoryOf, readMemoryVersions, readPlans } from './versions.ts'
import { runHandle } from './run.ts'
import { requireSameMessage } from './same-message.ts'
import { sayingIfErased, sayingIfGone } from './erased.ts'
import { warnOfOtherContext } from './kept-context.ts'
import { allEvents, noteSeen, readEvents, readMessages, type SessionSource, STORE_PATIENCE_MS, storedEvents } from './events.ts'
import { followBatches, watchBatches } from './follow.ts'
import { readRunReport } from './run-report.ts'
import type { SessionState } from '../../session/state.ts'
import { viewOf } from '../../session/watching/view.ts'
import type { WatchItem } from '../../session/watching/watching.ts'
import { countScheduled, hasScheduled, readScheduled } from './scheduled.ts'
import { readState, readStateAndFacts } from './state.ts'
import { noteSource } from './stored-past.ts'
import { checkReading, readMoments, readSlice } from './slice.ts'
import { readReport } from './status.ts'
import { pastOf, stateAt } from './at-checkpoint.ts'
import type { ForkOptions, Repeatable, RunHandle, SendOptions, SessionHandle, TreeItem } from '../types.ts'
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
  const source: SessionSource = { sessionId: id, client, store, closed, seen: { seq: 0 }, ...defined({ agent: options.agent }) }
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
    const { messageId = randomUUID(), metadata, deadlineMs, at, isNew = takeNew(), interrupt, by } = sent
    const traceparent = sent.traceparent ?? (await activeTraceparent())
    const message: MessageSignal = {
      messageId: sendable(messageId),
      content,
      // JSON drops functions, so the message would be sent without them.
      ...(metadata !== undefined && metadata !== null && { metadata: sendable(metadata) }),
      ...defined({ agent: options.agent, deadlineMs, at, by, traceparent }),
      ...(interrupt && { interrupt }),
    }
    checkOpening(options)
    if (sent.messageId !== undefined && !isNew) await requireSameMessage(source, message)
    const signal = await signalOf(store, id, message, requireReceiver)
    if (options.agent === undefined) return signalOnly(signal)
    const opening = { sessionId: id, taskQueue, start: startOf(id, options, isNew), signal: SIGNALS.message, value: signal }
    await startShown(parts.indexed, shown, (view) => onTemporal(client, () => signalSession(client, opening, view)))
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
  async function request<R>(update: string, given: Repeatable & Record<string, unknown>): Promise<R> {
    const { requestId, ...details } = given
    return sayingIfErased(source, () => inTurn(client, id, details, () => ask(asked, update, details, requestId)))
  }

  async function decideOn<R>(update: string, given: unknown, details: Repeatable & Record<string, unknown>): Promise<R> {
    const callId = checkCallId(given)
    return orItsFate(store, id, callId, () => request<R>(update, { callId, ...details }))
  }

  async function stop(signal: string, { requestId, ...given }: Repeatable): Promise<void> {
    const details = requestId === undefined ? given : { ...given, id: updateIdOf(signal, requestId) }
    try {
      await onTemporal(client, () => workflow.signal(signal, details))
    } catch (cause) {
      if (cause instanceof WorkflowNotFoundError) throw new SessionNotFoundError(id, { cause })
      throw cause
    }
  }

  /**
   * A session that has already closed needs no signal. Without a worker, its scheduled messages are not known: the session then stays open
   * until they have been delivered.
   */
  async function close({ unschedule, ...given }: Repeatable & { by?: string; unschedule?: boolean }): Promise<void> {
    const scheduled = await inTime(
      countScheduled(source).catch(() => 0),
      STORE_PATIENCE_MS,
    )
    if (scheduled && !unschedule) throw hasScheduled(id, scheduled)
    if (scheduled) await request(UPDATES.unschedule, { all: true, reason: 'closed', ...given })
    try {
      await stop(SIGNALS.close, given)
    } catch (cause) {
      const status = await statusOnceEnded(cause)
      if (status === 'closed') return
      const text = `The workflow of session "${id}" ended while the session was ${status}. Open it again with resume, then close it.`
      throw new RequestRefusedError('not_open', text, { cause })
    }
  }

  async function interrupt(given: Repeatable): Promise<void> {
    try {
      await sayingIfErased(source, () => stop(SIGNALS.interrupt, given))
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

  async function* watch(given?: object): AsyncGenerator<WatchItem | TreeItem> {
    const tree = checkTreeWatch(given)
    if (tree) {
      const needs = { source, start: tree.after, signal: tree.signal, readState: () => readState(source) }
      for await (const items of watchTree(needs)) yield* items
      return
    }
    const { after, signal } = checkWatch(given)
    for await (const batch of watchBatches(source, after, signal)) {
      yield* batch
      const last = batch.findLast((item) => item.type === 'event')
      if (last?.event.type === 'session_closed') return
    }
  }

  const stateThen = (at: number | undefined): Promise<SessionState> =>
    sayingIfGone(source, () => (at === undefined ? readState(source) : stateAt(pastOf(source), at)))

  const queries = sessionQueriesOf(store, id)
  const handle: SessionHandle = {
    id,
    send,
    run: (messageId) => runHandle(source, checkMessageId(messageId)),
    ...withoutOptions({
      async state() {
        const { state, facts } = await sayingIfGone(source, () => readStateAndFacts(source))
        noteSeen(source, state.seq)
        return viewOf(state, facts)
      },
      status: () => readReport(source),
      messages: () => readMessages(source),
      scheduled: () => sayingIfGone(source, () => readScheduled(source)),
      plans: () => sayingIfGone(source, () => readPlans(id, (after) => readEvents(source, after))),
      memoryVersions: () => sayingIfGone(source, () => readMemoryVersions(id, (after) => readEvents(source, after))),
      resume: () => sayingIfErased(source, () => ask<SessionSummary>(asked, UPDATES.resume)),
      ...queries,
    }),
    toolCalls: queries.toolCalls,
    pending: queries.pending,
    usage: queries.usage,
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
      const { after, follow, stored, signal } = checkEvents(given)
      if (follow) {
        for await (const batch of followBatches(source, after, signal)) {
          yield* batch
          // If the session was reopened since, its later events follow.
          if (batch.at(-1)?.type === 'session_closed') return
        }
        return
      }
      yield* stored ? storedEvents(source, after) : allEvents(source, after)
    },
    watch: watch as SessionHandle['watch'],
    checkpoint: async (reason, given) => request(UPDATES.checkpoint, { reason: checkCheckpointReason(reason), ...checkRepeatable(given) }),
    async rollback(given) {
      const { by, reason, keys, seenSeq, requestId, ...named } = checkRollback(given)
      const target = targetOf(named)
      if (!target) throw new RequestRefusedError('invalid_target', TARGET_REQUIRED)
      return request(UPDATES.rollback, { target, ...defined({ keys, seenSeq, by, reason, requestId }) })
    },
    async regenerate(given) {
      const { messageId, seq } = await request<RegenerateAnswer>(UPDATES.regenerate, checkRegenerate(given))
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
    interrupt: async (given) => interrupt(checkInterrupt(given)),
    unschedule: async (messageId, given) => {
      await request(UPDATES.unschedule, { messageId: checkMessageId(messageId), ...checkReasoned(given) })
    },
    close: async (given) => close(checkClosing(given)),
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
