// The session workflow: opens its session, handles signals, queries and updates, and runs the loop until it closes or continues as new.
import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  defineQuery,
  defineUpdate,
  setDefaultSignalHandler,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import type { UpdateDefinition } from '@temporalio/common'
import { QUERIES, sessionIdOf, SIGNALS, UPDATES } from '../session/protocol/protocol.ts'
import type {
  AnswerRequest,
  ApproveRequest,
  CheckpointMade,
  CheckpointRequest,
  DenyRequest,
  EventsPage,
  EventsQuery,
  ForkPoint,
  ForkRequest,
  Moved,
  PauseAnswer,
  PauseRequest,
  RaiseAnswer,
  RaiseRequest,
  RecoverRequest,
  Regenerated,
  RegenerateRequest,
  ResolveRequest,
  RollbackRequest,
  SessionStart,
  SessionSummary,
  StopSignal,
  UnpauseAnswer,
  Unopened,
} from '../session/protocol/protocol.ts'
import { requestOf } from '../session/protocol/requests.ts'
import { snapshotOf, summaryOf } from '../session/fold/snapshot.ts'
import { Undecodable } from '../session/protocol/undecodable.ts'
import { currentDetailsOf } from '../session/watching/current-details.ts'
import type { SessionState } from '../session/state.ts'
import { startAlarms } from './alarms.ts'
import { describeBy } from './current-details.ts'
import { startFlushing } from './flushing.ts'
import { receive } from './inbox.ts'
import { startLateResults } from './calls/late-results.ts'
import { startInheriting } from './inherited.ts'
import { forkPoint, makeCheckpoint, regenerate, rollBack } from './requests/rollback-fork.ts'
import { type Opened, openSession, reopenSession } from './opening/open.ts'
import { startOpening } from './opening/opening.ts'
import { startPacing } from './pacing.ts'
import { hasRunInProgress, nextStep, refuse, type Session, stopDetails } from './open-session.ts'
import { answer, approve, checkAnswerRequest, checkDecision, checkResolution, deny, resolve } from './calls/approvals.ts'
import { pause, unpause } from './requests/pausing.ts'
import { raise } from './requests/raising.ts'
import { checkIsInError, checkRecovery, choosesCalls, recover, recoverRequestOf } from './requests/recovery.ts'
import { recoverRestoring, restores } from './requests/restoring.ts'
import { recoverCalls } from './requests/selective.ts'
import { watchResets } from './resets.ts'
import { serve } from './session-loop.ts'
import { NOT_SERVED_AFTER_MS, startServing } from './awaiting-worker.ts'
import { readStart } from './opening/start.ts'
import { startStopping } from './stopping.ts'
import { defined } from '../session/defined.ts'

/** Why a run was interrupted by a message. */
const REPLACED = 'replaced by a later message'
/** Maximum bytes of an answer to the query `events`; the server's limit is 2 MB. */
const PAGE_BYTES = 1_000_000

const stateQuery = defineQuery<SessionState | Unopened>(QUERIES.state)
const eventsQuery = defineQuery<EventsPage | { status: 'loading' }, [EventsQuery?]>(QUERIES.events)
const recoverUpdate = defineUpdate<SessionSummary | Unopened, [RecoverRequest]>(UPDATES.recover)
const resumeUpdate = defineUpdate<SessionSummary>(UPDATES.resume)
const checkpointUpdate = defineUpdate<CheckpointMade, [CheckpointRequest]>(UPDATES.checkpoint)
const rollbackUpdate = defineUpdate<Moved, [RollbackRequest]>(UPDATES.rollback)
const regenerateUpdate = defineUpdate<Regenerated, [RegenerateRequest]>(UPDATES.regenerate)
const forkUpdate = defineUpdate<ForkPoint, [ForkRequest]>(UPDATES.fork)
const approveUpdate = defineUpdate<{ digest: string }, [ApproveRequest]>(UPDATES.approve)
const denyUpdate = defineUpdate<void, [DenyRequest]>(UPDATES.deny)
const resolveUpdate = defineUpdate<void, [ResolveRequest]>(UPDATES.resolve)
const answerUpdate = defineUpdate<void, [AnswerRequest]>(UPDATES.answer)
const pauseUpdate = defineUpdate<PauseAnswer, [PauseRequest]>(UPDATES.pause)
const raiseUpdate = defineUpdate<RaiseAnswer, [RaiseRequest]>(UPDATES.raise)
const unpauseUpdate = defineUpdate<UnpauseAnswer, [PauseRequest]>(UPDATES.unpause)

/** One durable conversation: Temporal workflow `pawlSession`, id `pawl:<sessionId>`. */
export async function pawlSession(given?: SessionStart): Promise<void> {
  const start = readStart(given)
  const resets = watchResets()
  let session: Session | undefined
  /** The previous state of the session, while it is being reopened. */
  let before: Session | undefined
  let refused: { code: string; reason: string } | undefined
  const closing: Session['closing'] = { wanted: start.carried?.closing }
  const opening = startOpening()
  /** Work to do in order once the session is open, such as messages that arrived before. */
  const early: unknown[] = []
  const onceOpen: (() => void)[] = []

  describeBy(() => {
    const shown = session ?? before
    if (shown) return currentDetailsOf(shown.journal.state)
    return opening.trouble ? `- loads its past (${opening.trouble.code})` : '- loads its past'
  })
  setDefaultSignalHandler(signalled)
  setHandler(stateQuery, () => {
    const shown = session ?? before
    return shown ? snapshotOf(shown.journal.state) : opening.state()
  })
  setHandler(eventsQuery, (raw) => {
    const shown = session ?? before
    return shown ? eventsPage(shown, requestOf(raw)) : { status: 'loading' }
  })
  setHandler(resumeUpdate, async () => summaryOf((await opened()).journal.state))
  setHandler(
    recoverUpdate,
    async (raw) => {
      const request = recoverRequestOf(raw)
      return opening.trouble ? opening.recover(request) : recoverSession(await opened(), request)
    },
    {
      validator: (raw) => {
        recoverRequestOf(raw)
        if (session) checkIsInError(session.journal.state)
      },
    },
  )
  onUpdate(checkpointUpdate, makeCheckpoint)
  onUpdate(rollbackUpdate, rollBack)
  onUpdate(regenerateUpdate, regenerate)
  onUpdate(forkUpdate, forkPoint)
  onUpdate(approveUpdate, approve, (request) => checkDecision(session, request, Date.now()))
  onUpdate(denyUpdate, deny, (request) => checkDecision(session, request, Date.now()))
  onUpdate(resolveUpdate, resolve, (request) => checkResolution(session, request))
  onUpdate(answerUpdate, answer, (request) => checkAnswerRequest(session, request))
  onUpdate(pauseUpdate, pause)
  onUpdate(unpauseUpdate, unpause)
  onUpdate(raiseUpdate, raiseLimits)
  // A workflow that an operator cancelled closes as if a client had requested it, so that nothing is lost.
  CancellationScope.current().cancelRequested.catch(() => {
    closing.wanted = { ...closing.wanted, when: 'now' }
    interrupt({ reason: 'cancelled' })
  })

  await CancellationScope.nonCancellable(async () => {
    let first = await openSession(start, early, opening)
    while ('refused' in first) {
      refused = first.refused
      await condition(allHandlersFinished)
      if (early.length === 0) return
      // A message arrived meanwhile. The session with that id opens like any other. It may be the one that a fork must not replace.
      const { fork: _, mustExist: __, ...plain } = start
      first = await openSession(plain, early, opening)
    }
    let open: Opened = first
    for (;;) {
      const opened = sessionOf(open)
      const leave = (): void => {
        opened.journal.end()
        before = opened
        session = undefined
      }
      const how = await resets.unlessReset(
        async () => {
          session = opened
          for (const act of onceOpen.splice(0)) act()
          await serve(opened, start)
        },
        leave,
        () => opened.isForeign,
      )
      if (how === 'done') return
      leave()
      if (how === 'foreign') return startAgain()
      open = await reopenSession(start, opened, resets, opening)
    }
  })

  /** The existing session receives the messages: the next execution loads it, and they are sent to it again. */
  async function startAgain(): Promise<void> {
    refused = {
      code: 'session_exists',
      reason: 'The session was started as a new one, but exists already. It resumes with the messages that were sent: repeat the request.',
    }
    await condition(allHandlersFinished)
    const { isNew: _, undecodable: __, ...plain } = start
    return continueAsNew<(next: SessionStart) => Promise<void>>({ sessionId: sessionIdOf(workflowInfo().workflowId), ...plain })
  }

  function sessionOf({ journal, previous, inherited = startInheriting({}, undefined) }: Opened): Session {
    const foreign = (): void => {
      opened.isForeign = true
    }
    const flushing = startFlushing(journal, start.carried && !before ? journal.base.seq : 0, foreign)
    const serving = startServing(journal, flushing, start.settings?.notServedAfterMs ?? NOT_SERVED_AFTER_MS)
    const stopping = startStopping()
    const alarms = startAlarms(journal, stopping)
    const parts = {
      journal,
      flushing,
      serving,
      stopping,
      alarms,
      late: startLateResults(),
      pacing: startPacing(),
      closing,
      previous,
      inherited,
    }
    const opened: Session = { ...parts, holds: 0, isForeign: false }
    return opened
  }

  /** Any client may send an update with any content. `check` is its validator: a refused update leaves nothing in history. */
  function onUpdate<R, A extends object>(
    update: UpdateDefinition<R, [A]>,
    carryOut: (open: Session, request: A) => R | Promise<R>,
    check?: (request: A) => void,
  ): void {
    const handler = async (raw: A): Promise<R> => carryOut(await opened(), requestOf<A>(raw))
    setHandler(update, handler, { validator: (raw) => check?.(requestOf<A>(raw)) })
  }

  /** The session, once it is open. Refuses the request if the session cannot open, or cannot open soon. */
  async function opened(): Promise<Session> {
    if (!session) await CancellationScope.nonCancellable(whenOpen)
    const { code, reason } = refused ?? opening.trouble ?? { code: 'session_not_found', reason: 'There is no such session: check the id.' }
    return session ?? refuse(code, reason)
  }

  async function whenOpen(): Promise<void> {
    await condition(() => session !== undefined || refused !== undefined || opening.trouble !== undefined)
    // An overdue alarm fires first, because it was set before this timer.
    if (session?.alarms.areSet()) await sleep(1)
  }

  /** One handler for all signals: with one handler each, an execution's first task would deliver them by name, not in order. */
  function signalled(name: string, raw: unknown): void {
    switch (name) {
      case SIGNALS.message:
        return receiveMessage(raw)
      case SIGNALS.interrupt:
        return interrupt(stopDetails(requestOf(raw)))
      case SIGNALS.close: {
        const { by } = stopDetails(requestOf(raw))
        closing.wanted ??= { when: 'idle', ...defined({ by }) }
        return
      }
      case SIGNALS.lateResult:
        return receiveLateResult(raw)
      default:
        return receiveMessage(new Undecodable(`there is no signal ${JSON.stringify(name)}`))
    }
  }

  function receiveMessage(raw: unknown): void {
    if (!session) {
      early.push(raw)
      onceOpen.push(() => receiveMessage(raw))
      return
    }
    const { journal, stopping, alarms, flushing } = session
    const message = receive(journal, raw)
    // A run that has not begun is not interrupted: it will see this message, too.
    if (message?.interrupt && hasRunInProgress(session))
      stopping.request({ why: 'interrupt', reason: REPLACED, ...defined({ by: message.by }) })
    // A step in progress must not delay the deadline.
    if (message?.deadlineMs !== undefined) alarms.follow()
    // No model call is about to store the message, because one is in progress and may take long, or because the message was rejected.
    if (stopping.isActive() || nextStep(session) === 'wait') flushing.nudge()
  }

  function receiveLateResult(raw: unknown): void {
    if (!session) return void onceOpen.push(() => receiveLateResult(raw))
    session.late.receive(raw, session.journal)
    session.flushing.nudge()
  }

  function interrupt(details: StopSignal): void {
    if (!session) onceOpen.push(() => interrupt(details))
    // An accepted message counts as having a run, even just before that run starts.
    else if (hasRunInProgress(session) || nextStep(session) === 'start_run') session.stopping.request({ why: 'interrupt', ...details })
  }

  async function recoverSession(open: Session, request: RecoverRequest): Promise<SessionSummary> {
    // If a rollback saw the run as ended, it must not find it in progress when it goes back.
    if (open.holds > 0) await condition(() => open.holds === 0)
    checkIsInError(open.journal.state)
    try {
      if (choosesCalls(open.journal.state, request)) await recoverCalls(open, request)
      else await recoverRun(open, request)
    } finally {
      // A refusal is recorded, too.
      open.flushing.nudge()
    }
    return summaryOf(open.journal.state)
  }

  async function raiseLimits(open: Session, request: RaiseRequest): Promise<RaiseAnswer> {
    // As for a recovery, which this update may start.
    if (open.holds > 0) await condition(() => open.holds === 0)
    return raise(open, request)
  }

  async function recoverRun(open: Session, request: RecoverRequest): Promise<void> {
    checkRecovery(open.journal, request)
    if (open.stopping.isActive()) interrupt({ reason: 'abandoned', ...stopDetails(request) })
    else if (restores(open.journal, request)) await recoverRestoring(open, request)
    else recover(open.journal, request)
  }
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
