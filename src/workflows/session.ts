// The session workflow: opens its session, handles signals, queries and updates, and runs the loop until it closes or continues as new.
import {
  CancellationScope,
  condition,
  continueAsNew,
  defineQuery,
  defineUpdate,
  patched,
  setDefaultSignalHandler,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import { HEARTBEAT_TIMEOUT_MS } from './scheduling.ts'
import type { UpdateDefinition } from '@temporalio/common'
import type { RepeatedRequests } from '../calls/activities.ts'
import {
  QUERIES,
  sessionIdOf,
  UPDATES,
  type AnswerRequest,
  type ApproveAnswer,
  type ApproveRequest,
  type CheckpointAnswer,
  type CheckpointRequest,
  type DenyRequest,
  type EventsPage,
  type EventsQuery,
  type ForkPoint,
  type ForkRequest,
  type RollbackReport,
  type PauseAnswer,
  type PauseRequest,
  type RaiseAnswer,
  type RaiseRequest,
  type RecoverRequest,
  type RegenerateAnswer,
  type RegenerateRequest,
  type ResolveRequest,
  type RevokeRuleRequest,
  type RollbackRequest,
  type SessionStart,
  type SessionSummary,
  type UnpauseAnswer,
  type UnscheduleAnswer,
  type UnscheduleRequest,
  type QueriedState,
  type UnopenedState,
} from '../session/protocol/protocol.ts'
import type { ClosedSession } from '../session/protocol/answered.ts'
import { requestOf } from '../session/protocol/requests.ts'
import { scheduledIn } from '../session/fold/scheduled.ts'
import { snapshotOf, summaryOf } from '../session/fold/snapshot.ts'
import { currentDetailsOf } from '../session/watching/current-details.ts'
import { startAgentCalls } from './agents/agent-calls.ts'
import { startAnswering } from './agents/answering.ts'
import { startAlarms } from './alarms.ts'
import { describeBy } from './current-details.ts'
import { startFlushing } from './flushing.ts'
import { startLateResults } from './calls/late-results.ts'
import { startInheriting } from './inherited.ts'
import { forkPoint, makeCheckpoint, regenerate, rollBack } from './requests/rollback-fork.ts'
import { type OpenedSession, openSession, reopenSession } from './opening/open.ts'
import { opened, ready } from './opening/when-open.ts'
import { startOpening } from './opening/loading.ts'
import { startPacing } from './pacing.ts'
import { hasCaughtUp, hasRunInProgress, nextStep, type Session, stopDetails, untilRunsReleased } from './session-parts.ts'
import { answer, approve, checkAnswerRequest, checkApprove, checkDecision, checkResolveRequest, deny, resolve } from './calls/approvals.ts'
import { startReleasing } from './calls/releasing.ts'
import { revokeRule } from './calls/standing.ts'
import { answeredRequests, continueAnswered } from './requests/answered.ts'
import { carryOutOnce, type UpdateAction, carryOutPassedOn, isAnswered, requestsFinished, type Updates } from './requests/passed-on.ts'
import { checkNotMoved, refuseIfMoved, unlessMoved } from './requests/moved.ts'
import { pause, unpause } from './requests/pausing.ts'
import { raise } from './requests/raising.ts'
import { checkIsInError, checkRecovery, choosesCalls, recover, recoverRequestOf } from './requests/recovery.ts'
import { recoverRestoring, restores } from './requests/restoring.ts'
import { recoverCalls } from './requests/selective.ts'
import { type Resets, watchResets } from './resets.ts'
import { cancel, type CurrentExecution, doWaiting, interrupt, signalled, readStart } from './signals.ts'
import { deliverDue, unschedule } from './scheduled.ts'
import { close, serve } from './session-loop.ts'
import { NOT_SERVED_AFTER_MS, startServing } from './awaiting-worker.ts'
import { startCallWaits } from './calls/call-waits.ts'
import { startStopping } from './stopping.ts'
import { defined } from '../session/defined.ts'

/** Maximum bytes of an answer to the query `events`; the server's limit is 2 MB. */
const PAGE_BYTES = 1_000_000

const NOTHING_REPEATED: RepeatedRequests = { signals: [], updates: [] }

const stateQuery = defineQuery<QueriedState | UnopenedState>(QUERIES.state)
const eventsQuery = defineQuery<EventsPage | { status: 'loading' }, [EventsQuery?]>(QUERIES.events)
const recoverUpdate = defineUpdate<SessionSummary | UnopenedState, [RecoverRequest]>(UPDATES.recover)
const resumeUpdate = defineUpdate<SessionSummary>(UPDATES.resume)
const checkpointUpdate = defineUpdate<CheckpointAnswer, [CheckpointRequest]>(UPDATES.checkpoint)
const rollbackUpdate = defineUpdate<RollbackReport, [RollbackRequest]>(UPDATES.rollback)
const regenerateUpdate = defineUpdate<RegenerateAnswer, [RegenerateRequest]>(UPDATES.regenerate)
const forkUpdate = defineUpdate<ForkPoint, [ForkRequest]>(UPDATES.fork)
const approveUpdate = defineUpdate<ApproveAnswer, [ApproveRequest]>(UPDATES.approve)
const revokeRuleUpdate = defineUpdate<{ rule: string }, [RevokeRuleRequest]>(UPDATES.revokeRule)
const denyUpdate = defineUpdate<void, [DenyRequest]>(UPDATES.deny)
const resolveUpdate = defineUpdate<void, [ResolveRequest]>(UPDATES.resolve)
const answerUpdate = defineUpdate<void, [AnswerRequest]>(UPDATES.answer)
const pauseUpdate = defineUpdate<PauseAnswer, [PauseRequest]>(UPDATES.pause)
const raiseUpdate = defineUpdate<RaiseAnswer, [RaiseRequest]>(UPDATES.raise)
const unscheduleUpdate = defineUpdate<UnscheduleAnswer, [UnscheduleRequest]>(UPDATES.unschedule)
const unpauseUpdate = defineUpdate<UnpauseAnswer, [PauseRequest]>(UPDATES.unpause)

/** One durable conversation: Temporal workflow `pawlSession`, id `pawl:<sessionId>`. */
export async function pawlSession(given?: SessionStart): Promise<ClosedSession | void> {
  const start = readStart(given)
  continueAnswered(start.carried?.answered)
  const resets = watchResets()
  const execution: CurrentExecution = {
    start,
    opening: startOpening(),
    closing: { wanted: start.carried?.closing },
    early: [],
    hasCarriedOut: false,
    signals: 0,
    onceOpen: [],
    repeated: NOTHING_REPEATED,
  }
  describeBy(() => {
    const shown = shownOf(execution)
    if (shown) return currentDetailsOf(shown.journal.state, shown.waits.all())
    const { trouble } = execution.opening
    return trouble ? `- loads its past (${trouble.code})` : '- loads its past'
  })
  setDefaultSignalHandler((name, raw) => signalled(execution, name, raw))
  answerQueries(execution)
  const updates = acceptUpdates(execution)
  CancellationScope.current().cancelRequested.catch(() => cancel(execution))
  await CancellationScope.nonCancellable(() => openAndServe(execution, updates, resets))
  const answered = answeredRequests()
  if (answered.length > 0) return { answered }
}

/** The state shown to clients; while the session is being reopened, or may stay closed, its previous state. */
const shownOf = ({ session, before, mayStayClosed }: CurrentExecution): Session | undefined =>
  mayStayClosed ? before : (session ?? before)

function answerQueries(execution: CurrentExecution): void {
  setHandler(stateQuery, () => {
    const shown = shownOf(execution)
    if (!shown) return execution.opening.state()
    const callWaits = shown.waits.all()
    const stopping = shown.stopping.isComing() && hasRunInProgress(shown)
    return { ...snapshotOf(shown.journal.state), ...(callWaits.length > 0 && { callWaits }), ...(stopping && { stopping }) }
  })
  setHandler(eventsQuery, (raw) => {
    const query = requestOf<EventsQuery>(raw)
    const shown = query.lasting ? shownOf(execution) : (execution.session ?? execution.before)
    return shown ? eventsPage(shown, query) : { status: 'loading' }
  })
}

function acceptUpdates(execution: CurrentExecution): Updates {
  const updates: Updates = new Map()
  setHandler(resumeUpdate, async () => {
    const { journal } = await opened(execution)
    execution.hasCarriedOut = true
    return summaryOf(journal.state)
  })
  const recoverOpen = (open: Session, raw: RecoverRequest, receivedAt?: number) => {
    refuseIfMoved(open, raw, receivedAt)
    return recoverSession(execution, open, recoverRequestOf(raw))
  }
  updates.set(UPDATES.recover, recoverOpen as UpdateAction<unknown, unknown>)
  setHandler(
    recoverUpdate,
    async (raw) => {
      const request = recoverRequestOf(raw)
      return execution.opening.trouble ? execution.opening.recover(request) : carryOutOnce(execution, raw, recoverOpen)
    },
    {
      validator: (raw) => {
        const session = ready(execution)
        // A request that is refused here leaves nothing in history, so its execution could not tell that there was one.
        if (!session || isAnswered()) return
        recoverRequestOf(raw)
        checkIsInError(session.journal.state)
        checkNotMoved(session, raw)
      },
    },
  )
  onUpdate(checkpointUpdate, makeCheckpoint)
  onUpdate(rollbackUpdate, unlessMoved(rollBack), (request) => checkNotMoved(ready(execution), request))
  onUpdate(regenerateUpdate, unlessMoved(regenerate), (request) => checkNotMoved(ready(execution), request))
  onUpdate(forkUpdate, unlessMoved(forkPoint), (request) => checkNotMoved(ready(execution), request))
  onUpdate(approveUpdate, approve, (request) => checkApprove(ready(execution), request, Date.now()))
  onUpdate(denyUpdate, deny, (request) => checkDecision(ready(execution), request, Date.now()))
  onUpdate(resolveUpdate, resolve, (request) => checkResolveRequest(ready(execution), request))
  onUpdate(answerUpdate, answer, (request) => checkAnswerRequest(ready(execution), request))
  onUpdate(pauseUpdate, pause)
  onUpdate(unpauseUpdate, unpause)
  onUpdate(raiseUpdate, raiseLimits)
  onUpdate(revokeRuleUpdate, revokeRule)
  onUpdate(unscheduleUpdate, unschedule)
  return updates

  /** Any client may send an update with any content. `check` is its validator: a refused update leaves nothing in history. */
  function onUpdate<R, A extends object>(
    update: UpdateDefinition<R, [A]>,
    carryOut: UpdateAction<A, R>,
    check?: (request: A) => void,
  ): void {
    const carryOutRaw: UpdateAction<A, R> = (open, raw, receivedAt) => carryOut(open, requestOf<A>(raw), receivedAt)
    updates.set(update.name, carryOutRaw as UpdateAction<unknown, unknown>)
    setHandler(update, (raw: A) => carryOutOnce(execution, raw, carryOutRaw), {
      validator: (raw) => {
        if (!isAnswered()) check?.(requestOf<A>(raw))
      },
    })
  }
}

/** Opens the session and serves it until it ends. After a reset, opens it again from an earlier point. */
async function openAndServe(execution: CurrentExecution, updates: Updates, resets: Resets): Promise<void> {
  const { start, opening, early } = execution
  let first = await openSession(start, early, opening)
  while ('refused' in first) {
    execution.refused = first.refused
    await condition(requestsFinished)
    if (early.length === 0) return
    // A message has arrived in the meantime, so the session with that id opens like any other. A fork must not replace that session.
    const { fork: _, mustExist: __, ...plain } = start
    first = await openSession(plain, early, opening)
  }
  let open: OpenedSession = first
  for (;;) {
    const session = sessionOf(execution, open)
    const leave = (): void => {
      session.journal.end()
      execution.before = session
      execution.session = undefined
      execution.mayStayClosed = false
    }
    const how = await resets.unlessReset(
      async () => {
        execution.session = session
        execution.repeated = open.repeated ?? NOTHING_REPEATED
        carryOutPassedOn(execution, session, updates, open.requests ?? [])
        const receive = (): void => doWaiting(execution, session)
        if (!open.closed) receive()
        else if (await staysClosed(execution, session, open.closed, receive)) return
        await serve(session, start)
      },
      leave,
      () => session.isForeign,
    )
    if (how === 'done') return
    leave()
    if (how === 'foreign') return startAgain(execution)
    open = await reopenSession(start, session, resets, opening)
  }
}

/** Opens a closed session. Returns whether it stays closed, because nothing that arrived needs it: requests were refused, messages rejected. */
async function staysClosed(
  execution: CurrentExecution,
  session: Session,
  { journal: past }: NonNullable<OpenedSession['closed']>,
  receive: () => void,
): Promise<boolean> {
  const { journal, flushing } = session
  const { seq } = journal.watermark()
  const accepted = (): number => journal.state.inbox.length + scheduledIn(journal.state).length
  const before = accepted()
  // Clients query the newest execution, even after it has ended. They must not see an event that is then never stored.
  execution.mayStayClosed = true
  execution.before = past && sessionOf(execution, { journal: past })
  const staysOpen = (): false => {
    execution.mayStayClosed = false
    execution.before = undefined
    return false
  }
  receive()
  const isNeeded = (): boolean => execution.hasCarriedOut || hasRunInProgress(session) || accepted() > before
  // Whoever starts a workflow without a request may send one later.
  if (execution.signals === 0 && requestsFinished()) return staysOpen()
  await condition(() => isNeeded() || requestsFinished())
  // A refusal may have been recorded.
  if (!isNeeded() && journal.watermark().seq === seq && flushing.storedSeq() < seq) {
    execution.session = undefined
    return true
  }
  const isOpen = isNeeded()
  staysOpen()
  return isOpen ? false : close(session)
}

/** The session already exists and receives the messages: the next execution loads it, and the messages are sent to it again. */
async function startAgain(execution: CurrentExecution): Promise<void> {
  execution.refused = {
    code: 'session_exists',
    reason: 'The session was started as a new one, but it already exists. It resumes with the messages that were sent. Repeat the request.',
  }
  await condition(requestsFinished)
  const { isNew: _, undecodable: __, ...plain } = execution.start
  return continueAsNew<(next: SessionStart) => Promise<void>>({ sessionId: sessionIdOf(workflowInfo().workflowId), ...plain })
}

function sessionOf(
  { start, before, closing }: CurrentExecution,
  { journal, previous, inherited = startInheriting({}, undefined) }: OpenedSession,
): Session {
  const foreign = (): void => {
    session.isForeign = true
  }
  const flushing = startFlushing(journal, start.carried && !before ? journal.base.seq : 0, foreign)
  const serving = startServing(journal, flushing, start.settings?.notServedAfterMs ?? NOT_SERVED_AFTER_MS)
  const stopping = startStopping()
  const caughtUp = (): boolean => hasCaughtUp(session)
  const alarms = startAlarms(journal, stopping, caughtUp, (dueAt) => deliverDue(session, dueAt))
  const session: Session = {
    journal,
    flushing,
    serving,
    stopping,
    alarms,
    late: startLateResults(caughtUp, inherited),
    waits: startCallWaits(),
    pacing: startPacing(),
    agents: startAgentCalls({
      journal,
      settings: start.settings,
      isHeld: () => session.runHolds > 0,
      onDetached: () => flushIfWaiting(session),
    }),
    answering: startAnswering(journal, flushing, () => session.runHolds > 0),
    releasing: startReleasing(journal, flushing),
    closing,
    previous,
    inherited,
    heartbeatTimeoutMs: start.settings?.heartbeatTimeoutMs ?? HEARTBEAT_TIMEOUT_MS,
    runHolds: 0,
    catchesUp: undefined,
    waiting: new Set(),
    isForeign: false,
  }
  return session
}

/** A turn that follows would store the call. While the session waits for other agents, nothing would. */
function flushIfWaiting(session: Session): void {
  if (nextStep(session) === 'wait' && patched('flush-after-detaching')) session.flushing.nudge()
}

async function recoverSession(execution: CurrentExecution, open: Session, request: RecoverRequest): Promise<SessionSummary> {
  // A rollback that has seen the run end must not find it in progress again.
  if (open.runHolds > 0) await untilRunsReleased(open)
  checkIsInError(open.journal.state)
  const before = open.journal.watermark().seq
  try {
    if (choosesCalls(open.journal.state, request)) await recoverCalls(open, request)
    else await recoverRun(execution, open, request)
  } finally {
    // Refusals are recorded, too.
    if (open.journal.watermark().seq > before) open.flushing.nudge()
  }
  return summaryOf(open.journal.state)
}

async function recoverRun(execution: CurrentExecution, open: Session, request: RecoverRequest): Promise<void> {
  checkRecovery(open.journal, request)
  if (open.stopping.isActive()) interrupt(execution, { reason: 'abandoned', ...stopDetails(request) })
  else if (restores(open.journal, request)) await recoverRestoring(open, request)
  else recover(open.journal, request)
}

async function raiseLimits(open: Session, request: RaiseRequest): Promise<RaiseAnswer> {
  // A recovery, which this update may start, must also wait for rollbacks.
  if (open.runHolds > 0) await untilRunsReleased(open)
  return raise(open, request)
}

function eventsPage({ journal, previous }: Session, { after, maxBytes }: EventsQuery): EventsPage {
  const from = typeof after === 'number' && after > 0 ? Math.trunc(after) : 0
  const page = journal.page(from, typeof maxBytes === 'number' && maxBytes > 0 ? Math.min(maxBytes, PAGE_BYTES) : PAGE_BYTES)
  return {
    epoch: journal.state.epoch,
    executionId: workflowInfo().runId,
    ...page,
    ...defined({ previous }),
  }
}
