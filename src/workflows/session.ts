// The session workflow: a thin shell around the pure core. It decides by `decide`, carries out, and records what came of it.
import {
  allHandlersFinished,
  CancellationScope,
  condition,
  defineQuery,
  defineUpdate,
  setDefaultSignalHandler,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import type { UpdateDefinition } from '@temporalio/common'
import { decide, type Decision } from '../session/decide.ts'
import { QUERIES, SIGNALS, UPDATES } from '../session/protocol.ts'
import type {
  AnswerRequest,
  ApproveRequest,
  CheckpointRequest,
  Closing,
  DenyRequest,
  EventsPage,
  EventsQuery,
  ForkPoint,
  ForkRequest,
  Moved,
  RecoverRequest,
  ResolveRequest,
  RollbackRequest,
  SessionStart,
  SessionSummary,
  StopSignal,
  Unopened,
} from '../session/protocol.ts'
import { requestOf } from '../session/requests.ts'
import { snapshotOf, summaryOf } from '../session/snapshot.ts'
import { Undecodable } from '../session/undecodable.ts'
import type { RunState, SessionState } from '../session/state.ts'
import { CLOCK, startAlarms } from './alarms.ts'
import { startContinuing } from './continuing.ts'
import { startFlushing } from './flushing.ts'
import { receive } from './inbox.ts'
import { startLateResults } from './late-results.ts'
import { callModel } from './model-call.ts'
import { forkPoint, makeCheckpoint, rollBack } from './moving.ts'
import { openSession } from './open.ts'
import { startOpening } from './opening.ts'
import { startPacing } from './pacing.ts'
import { endRun, failRun, isGoingOn, nextStep, refuse, type Session, stopDetails } from './parts.ts'
import { answer, approve, askFor, checkAnswerRequest, checkDecision, checkResolution, deny, expire, resolve } from './people.ts'
import { checkRecovery, recover } from './recovery.ts'
import { NOT_SERVED_AFTER_MS, startServing } from './serving.ts'
import { readStart } from './start.ts'
import { startStopping } from './stopping.ts'
import { runToolCall } from './tool-call.ts'

const IDLE_TIMEOUT_MS = 24 * 3_600_000
/** What one answer of the query `events` may hold at most; the server's limit is 2 MB. */
const PAGE_BYTES = 1_000_000
/** Longer than that a timer need not be: the session decides anew then. */
const LONGEST_WAIT_MS = 30 * 24 * 3_600_000

const stateQuery = defineQuery<SessionState | Unopened>(QUERIES.state)
const eventsQuery = defineQuery<EventsPage | { status: 'loading' }, [EventsQuery?]>(QUERIES.events)
const recoverUpdate = defineUpdate<SessionSummary | Unopened, [RecoverRequest]>(UPDATES.recover)
const resumeUpdate = defineUpdate<SessionSummary>(UPDATES.resume)
const checkpointUpdate = defineUpdate<{ version: number }, [CheckpointRequest]>(UPDATES.checkpoint)
const rollbackUpdate = defineUpdate<Moved, [RollbackRequest]>(UPDATES.rollback)
const forkUpdate = defineUpdate<ForkPoint, [ForkRequest]>(UPDATES.fork)
const approveUpdate = defineUpdate<{ digest: string }, [ApproveRequest]>(UPDATES.approve)
const denyUpdate = defineUpdate<void, [DenyRequest]>(UPDATES.deny)
const resolveUpdate = defineUpdate<void, [ResolveRequest]>(UPDATES.resolve)
const answerUpdate = defineUpdate<void, [AnswerRequest]>(UPDATES.answer)

/** One durable conversation: Temporal workflow `pawlSession`, id `pawl:<sessionId>`. */
export async function pawlSession(given?: SessionStart): Promise<void> {
  const start = readStart(given)
  let session: Session | undefined
  let refused: { code: string; reason: string } | undefined
  let closing: Closing | undefined = start.carried?.closing
  const opening = startOpening()
  /** Messages that come before the session is open, and what else is to be done then, in order. */
  const early: unknown[] = []
  const onceOpen: (() => void)[] = []

  setDefaultSignalHandler(signalled)
  setHandler(stateQuery, () => (session ? snapshotOf(session.journal.state) : opening.state()))
  setHandler(eventsQuery, (raw) => (session ? eventsPage(session, requestOf(raw)) : { status: 'loading' }))
  setHandler(resumeUpdate, async () => summaryOf((await opened()).journal.state))
  setHandler(
    recoverUpdate,
    async (raw) => {
      const request = requestOf<RecoverRequest>(raw)
      return opening.trouble ? opening.recover(request) : recoverSession(await opened(), request)
    },
    { validator: (raw) => session && checkRecovery(session.journal.state, requestOf<RecoverRequest>(raw)) },
  )
  onUpdate(checkpointUpdate, makeCheckpoint)
  onUpdate(rollbackUpdate, rollBack)
  onUpdate(forkUpdate, forkPoint)
  onUpdate(approveUpdate, approve, (request) => checkDecision(session, request, Date.now()))
  onUpdate(denyUpdate, deny, (request) => checkDecision(session, request, Date.now()))
  onUpdate(resolveUpdate, resolve, (request) => checkResolution(session, request))
  onUpdate(answerUpdate, answer, (request) => checkAnswerRequest(session, request))
  // Cancelled from outside, a session closes like one that is asked to: nothing of it may be lost.
  CancellationScope.current().cancelRequested.catch(() => {
    closing = { ...closing, when: 'now' }
    interrupt({ reason: 'cancelled' })
  })

  await CancellationScope.nonCancellable(async () => {
    let open = await openSession(start, early, opening)
    while ('refused' in open) {
      refused = open.refused
      await condition(allHandlersFinished)
      if (early.length === 0) return
      // It received a message meanwhile: the session of that id is opened as any other is, perhaps the one that a fork must not replace.
      const { fork: _, mustExist: __, ...plain } = start
      open = await openSession(plain, early, opening)
    }
    const { journal, previous } = open
    const { coreVersion } = journal
    const flushing = startFlushing(journal, start.carried ? journal.base.seq : 0)
    const serving = startServing(journal, flushing, start.settings?.notServedAfterMs ?? NOT_SERVED_AFTER_MS)
    const stopping = startStopping(coreVersion)
    const alarms = coreVersion > 1 ? startAlarms(journal, stopping) : CLOCK
    const late = startLateResults()
    session = { journal, flushing, serving, stopping, alarms, late, pacing: startPacing(), previous, holds: 0 }
    for (const act of onceOpen) act()
    await serve(session)
  })

  /** Anyone may send an update with anything in it. `check` is its validator: what it refuses leaves nothing in history. */
  function onUpdate<R, A extends object>(
    update: UpdateDefinition<R, [A]>,
    carryOut: (open: Session, request: A) => R | Promise<R>,
    check?: (request: A) => void,
  ): void {
    const handler = async (raw: A): Promise<R> => carryOut(await opened(), requestOf<A>(raw))
    setHandler(update, handler, { validator: (raw) => check?.(requestOf<A>(raw)) })
  }

  /** The session, once it is open; a request for one that cannot be, or not soon, is refused. */
  async function opened(): Promise<Session> {
    if (!session) await CancellationScope.nonCancellable(whenOpen)
    const { code, reason } = refused ?? opening.trouble ?? { code: 'session_not_found', reason: 'There is no such session.' }
    return session ?? refuse(code, reason)
  }

  async function whenOpen(): Promise<void> {
    await condition(() => session !== undefined || refused !== undefined || opening.trouble !== undefined)
    // What is overdue goes off first: its alarm was set before this timer.
    if (session?.alarms.areSet()) await sleep(1)
  }

  /** One handler for all signals: with one for each, those of an execution's first task would come by their names, not in their order. */
  function signalled(name: string, raw: unknown): void {
    switch (name) {
      case SIGNALS.message:
        return receiveMessage(raw)
      case SIGNALS.interrupt:
        return interrupt(stopDetails(requestOf(raw)))
      case SIGNALS.close: {
        const { by } = stopDetails(requestOf(raw))
        closing ??= { when: 'idle', ...(by !== undefined && { by }) }
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
    const { journal, stopping, flushing } = session
    receive(journal, raw)
    // No model call is about to store it: one is going on, which may take long, or the message was rejected.
    if (stopping.isActive() || nextStep(session) === 'wait') flushing.nudge()
  }

  function receiveLateResult(raw: unknown): void {
    if (!session) return void onceOpen.push(() => receiveLateResult(raw))
    session.late.receive(raw, session.journal)
    session.flushing.nudge()
  }

  function interrupt(details: StopSignal): void {
    if (!session) onceOpen.push(() => interrupt(details))
    // A message that was accepted has a run, also in the moment before it starts.
    else if (isGoingOn(session) || nextStep(session) === 'start_run') session.stopping.request({ why: 'interrupt', ...details })
  }

  function recoverSession(open: Session, request: RecoverRequest): SessionSummary {
    checkRecovery(open.journal.state, request)
    if (open.stopping.isActive()) interrupt({ reason: 'abandoned', ...stopDetails(request) })
    else recover(open.journal, request)
    open.flushing.nudge()
    return summaryOf(open.journal.state)
  }

  /** Serves the session until it closes or goes on in a new execution. */
  async function serve(open: Session): Promise<void> {
    const { journal, flushing, stopping, alarms } = open
    const continuing = startContinuing({ start, journal, flushing, stopping, closing: () => closing })
    const idleTimeoutMs = start.settings?.idleTimeoutMs ?? IDLE_TIMEOUT_MS
    for (;;) {
      alarms.follow()
      const decision = decide(journal.state, alarms.due)
      if (isBetweenTurns(decision) && continuing.isDue()) {
        await continuing.attempt()
      } else if (decision.do === 'start_run' && open.holds > 0) {
        await condition(() => open.holds === 0)
      } else if (decision.do === 'wait' && isGoingOn(open)) {
        await waitForSomebody(open, decision, () => continuing.isDue())
      } else if (decision.do === 'wait' || (decision.do === 'start_run' && closing?.when === 'now')) {
        flushing.nudge()
        const spoken =
          !closing && (await condition(() => closing !== undefined || nextStep(open) !== 'wait' || continuing.isDue(), idleTimeoutMs))
        if (!spoken && (await close(open))) return
      } else {
        await carryOut(open, decision)
      }
    }
  }

  /** Whether the session is closed: everything is stored, and nobody spoke to it meanwhile. */
  async function close(open: Session): Promise<boolean> {
    const { journal, flushing } = open
    await flushing.drained()
    await condition(allHandlersFinished)
    if (closing?.when !== 'now' && nextStep(open) !== 'wait') return false
    const by = closing?.by
    journal.append({ type: 'session_closed', reason: closing ? 'requested' : 'idle', ...(by !== undefined && { by }) })
    const closed = journal.watermark().seq
    await flushing.drained()
    await condition(allHandlersFinished)
    closing = undefined
    return journal.watermark().seq === closed
  }
}

/** The run cannot go on before somebody has said something, or nobody has in time. */
async function waitForSomebody(session: Session, { until }: Decision & { do: 'wait' }, isDue: () => boolean): Promise<void> {
  const { journal, stopping, flushing } = session
  // A stop finds no step here that it could end.
  if (stopping.isRequested()) return inRun(session, async () => undefined)
  flushing.nudge()
  const wakes = (): boolean => stopping.isRequested() || nextStep(session) !== 'wait' || isDue()
  // What else it waits for has an alarm.
  if (journal.coreVersion > 1) await condition(wakes)
  else await condition(wakes, Math.max(1, Math.min((until ?? Number.POSITIVE_INFINITY) - Date.now(), LONGEST_WAIT_MS)))
}

/** Nothing of the run is pending. */
function isBetweenTurns(decision: Decision): boolean {
  return decision.do === 'wait' || decision.do === 'start_run' || decision.do === 'start_turn'
}

async function carryOut(session: Session, decision: Exclude<Decision, { do: 'wait' }>): Promise<void> {
  const { journal, serving, pacing, alarms, late } = session
  switch (decision.do) {
    case 'start_run':
      journal.append({ type: 'run_started', run: decision.run, messageId: decision.message.messageId })
      return
    case 'start_turn': {
      const { run, turn, takes } = decision
      // A run that is to be stopped takes in what opened it and no more: messages that no model sees open the next run.
      const opener = journal.state.current?.messageId
      const seen = session.stopping.isRequested() ? takes.filter((messageId) => messageId === opener) : takes
      journal.append({ type: 'turn_started', run, turn, takes: seen })
      return
    }
    case 'call_model':
      return inRun(session, async (run) => {
        const called = await callModel(journal, serving, run)
        if (called.end === 'failed') failRun(session, run.run, called.code, called.reason)
      })
    case 'ask':
      return askFor(session, decision.calls)
    case 'expire':
      return expire(session, decision.call)
    case 'run_calls':
      return inRun(session, async (run) => {
        await Promise.all(decision.calls.map((call) => runToolCall({ journal, serving, pacing, run, alarms, late }, call)))
      })
    case 'complete_run': {
      const { run, turns, stopReason, usage } = decision
      journal.append({ type: 'run_completed', run, turns, stopReason, usage })
      endRun(session)
      return
    }
    case 'fail_run':
      failRun(session, decision.run, decision.code, decision.reason)
  }
}

/** Carries out a step of the run that is going on; an interrupt or its deadline stops the step, and then the run. */
async function inRun(session: Session, step: (run: RunState) => Promise<void>): Promise<void> {
  const run = session.journal.state.current
  if (!run) return
  const stopped = await session.stopping.step(run, () => step(run))
  if (!stopped || !isGoingOn(session)) return
  if (stopped.why === 'deadline') {
    failRun(session, run.run, 'deadline_exceeded', `The run took longer than ${stopped.limitMs} ms, its limit (limits.deadline).`)
    return
  }
  const { why: _, ...details } = stopped
  session.journal.append({ type: 'run_interrupted', run: run.run, ...details })
  endRun(session)
}

function eventsPage({ journal, previous }: Session, { after, maxBytes }: EventsQuery): EventsPage {
  const from = typeof after === 'number' && after > 0 ? Math.trunc(after) : 0
  const page = journal.page(from, typeof maxBytes === 'number' && maxBytes > 0 ? Math.min(maxBytes, PAGE_BYTES) : PAGE_BYTES)
  return {
    epoch: journal.state.epoch,
    executionId: workflowInfo().runId,
    ...page,
    ...(previous !== undefined && { previous }),
  }
}
