// The loop of an open session: calls `decide`, carries out the decision and records the outcome, until the session closes or continues as
// new.
import { condition, patched, sleep } from '@temporalio/workflow'
import { deadlinesInInbox } from '../session/deadlines.ts'
import type { SessionEvent } from '../session/events.ts'
import { decide, type SessionStep } from '../session/decide.ts'
import { scheduledIn } from '../session/fold/scheduled.ts'
import { hasEnded } from '../session/past/call-status.ts'
import { isHeldUp } from '../session/pause.ts'
import type { Start } from '../session/protocol/start.ts'
import type { CallState, RunState } from '../session/state.ts'
import { startContinuing } from './continuing.ts'
import { callModel, type Rides } from './model-call/model-call.ts'
import { endRun, failRun, hasRunInProgress, isTelling, mayTake, mayTakeAny, nextStep, type Session } from './session-parts.ts'
import { askFor, expire } from './calls/approvals.ts'
import { pauseForBudget } from './requests/raising.ts'
import { requestsFinished } from './requests/passed-on.ts'
import { recoverAutomatically } from './requests/restoring.ts'
import { runEndHooks } from './hooks.ts'
import { useRules } from './calls/standing.ts'
import { runToolCall } from './calls/tool-call.ts'
import { cutText, TEXT_BYTES } from '../session/protocol/texts.ts'
import { defined } from '../session/defined.ts'

const IDLE_TIMEOUT_MS = 24 * 3_600_000
/** How long an idle session waits for a message before it continues as new. */
const REST_MS = 1_000

/** Runs the session until it closes or continues as new. */
export async function serve(open: Session, start: Start): Promise<void> {
  const { journal, flushing, stopping, alarms, closing } = open
  const continuing = startContinuing({
    start,
    journal,
    flushing,
    stopping,
    closing: () => closing.wanted,
    inherited: open.inherited.left,
    late: open.late,
    isTelling: () => isTelling(open),
    mustStop: () => open.agents.mustStop(),
  })
  const idleTimeoutMs = start.settings?.idleTimeoutMs ?? IDLE_TIMEOUT_MS
  /** A paused session, or one in an error, waits for a person without a time limit; one with scheduled messages waits for these. */
  const waitWhileIdle = async (wakes: () => boolean): Promise<boolean> => {
    if (journal.state.status !== 'error' && !journal.state.paused && !hasScheduled(open)) return condition(wakes, idleTimeoutMs)
    await condition(wakes)
    return true
  }
  /** Before the session closes, it does the work that a pause delays. */
  const mayClose = (): boolean =>
    closing.wanted !== undefined &&
    !open.catchesUp &&
    (closing.wanted.when === 'now' || !(isHeldUp(journal.state, alarms.due) || hasScheduled(open)))
  /** Whether nothing is to be done but to wait or to close. A run that an earlier execution has begun is recorded first. */
  const rests = (step: SessionStep): step is SessionStep & { do: 'wait' | 'start_run' } =>
    step.do === 'wait' || (step.do === 'start_run' && closing.wanted?.when === 'now' && open.inherited.isUsedUp())
  if (journal.base.seq > 0 && deadlinesInInbox(journal.state).length > 0) {
    // Deadlines of messages may have passed while no execution was running. Their alarms fire before this timer.
    alarms.follow()
    await sleep(1)
  }
  /**
   * Whether something is to be done, after all, within a moment. A client often sends the next message as soon as a run has ended. If it
   * arrived while the session continues as new, the server would refuse that, and this execution would be replayed.
   */
  const isWokenFirst = async (): Promise<boolean> =>
    !closing.wanted && patched('rest-before-continuing') && condition(() => mayClose() || nextStep(open) !== 'wait', REST_MS)
  for (;;) {
    alarms.follow()
    followAgents(open)
    const decision = decide(journal.state, alarms.due)
    if (isBetweenTurns(decision) && continuing.isDue()) {
      if (!(rests(decision) && (await isWokenFirst()))) await continuing.attempt()
    } else if ((decision.do === 'start_run' || decision.do === 'end_hooks') && mayNotStart(open, decision.do)) {
      await condition(() => !mayNotStart(open, decision.do) || isNotNext(open, decision.do))
    } else if (STEPS.includes(decision.do) && isPauseDue(open)) {
      await condition(() => !isPauseDue(open))
    } else if (decision.do === 'wait' && hasRunInProgress(open)) {
      await waitForInput(open, () => continuing.isDue())
    } else if (rests(decision)) {
      flushing.nudge()
      const pauseChanges = watchPause(open)
      const scheduleChanges = watchScheduled(open)
      // After a recovery, a run may continue and then wait for a person, or until the session is unpaused.
      const wakes = () =>
        mayClose() ||
        nextStep(open) !== 'wait' ||
        hasRunInProgress(open) ||
        pauseChanges() ||
        scheduleChanges() ||
        continuing.isDue() ||
        isAgentDue(open)
      const isWoken = !mayClose() && (await waitWhileIdle(wakes))
      // Requests that were passed on may start a run.
      if (open.catchesUp) await condition(() => !open.catchesUp || !rests(decide(journal.state, alarms.due)))
      else if (!isWoken && !isAgentDue(open) && (await close(open))) return
    } else {
      await carryOut(open, decision)
    }
  }
}

/** Closes the session if everything is stored, and nothing that arrives meanwhile keeps it open. Returns whether it did. */
export async function close(open: Session): Promise<boolean> {
  const { journal, flushing, closing } = open
  if (isTelling(open)) await condition(() => !isTelling(open))
  await flushing.drained()
  await condition(requestsFinished)
  const { wanted } = closing
  if (wanted?.when !== 'now' && (nextStep(open) !== 'wait' || isKeptOpen(open))) return false
  if (mustStopFirst(open)) return false
  const scheduled = scheduledIn(journal.state).length
  for (;;) {
    journal.append({ type: 'session_closed', reason: wanted ? 'requested' : 'idle', ...defined({ by: wanted?.by }) })
    // From here on, a client must request the close again, because whatever keeps the session open may end meanwhile.
    closing.wanted = undefined
    const closed = journal.watermark().seq
    await flushing.drained()
    await condition(requestsFinished)
    if (journal.watermark().seq === closed) return true
    // What has arrived meanwhile, such as a rejected message, may have left nothing to do.
    if (nextStep(open) !== 'wait' || hasRunInProgress(open) || journal.state.paused !== undefined) return false
    if (scheduledIn(journal.state).length > scheduled || mustStopFirst(open)) return false
  }
}

/** Whether a request has meanwhile removed calls whose sessions have yet to be stopped. */
function mustStopFirst({ agents }: Session): boolean {
  return agents.mustStop() && patched('stops-before-closing')
}

/** Asks and stops the sessions that answer this one's calls, and tells the session whose call this one answers. */
function followAgents({ agents, answering }: Session): void {
  agents.follow()
  answering.follow()
}

function isAgentDue({ agents, answering }: Session): boolean {
  return agents.isDue() || answering.isDue()
}

/** Whether the session that called this one's agent now lets it spend more. */
function isAllowedMore(since: readonly SessionEvent[]): boolean {
  return since.some((event) => event.type === 'allowance_raised' && event.callId === undefined)
}

/** Steps that a pause holds up. */
const STEPS: readonly SessionStep['do'][] = ['start_turn', 'call_model', 'run_calls']

/** Whether a pause or its end that was passed on must be carried out before the run takes another step. */
function isPauseDue({ catchesUp }: Session): boolean {
  return catchesUp?.isHeld === false && catchesUp.comesFirst?.() === true
}

/** Whether a rollback, a fork, or another update that came before the queued messages must finish before the next run starts. */
function mayNotStart(session: Session, step: 'start_run' | 'end_hooks'): boolean {
  const { runHolds, catchesUp } = session
  if (runHolds > 0 || catchesUp?.isHeld) return true
  if (catchesUp?.isHeld === false && catchesUp.isBeforeRuns && catchesUp.comesFirst?.()) return true
  // The session may have to end the hooks before it can carry out an update that waits.
  return (catchesUp !== undefined || step === 'start_run') && !mayTakeAny(session)
}

/** Whether the step is not the next one any more: a rollback may have removed the messages that a run was to take. */
function isNotNext(session: Session, step: SessionStep['do']): boolean {
  return nextStep(session) !== step && patched('decides-again')
}

/** Whether scheduled messages or a pause keep the session open: it has work to do afterwards, or only its idle time has expired. */
function isKeptOpen(session: Session): boolean {
  const { journal, alarms, closing } = session
  if (hasScheduled(session)) return true
  return closing.wanted ? isHeldUp(journal.state, alarms.due) : journal.state.paused !== undefined
}

/** Whether messages wait until they are due. */
function hasScheduled({ journal }: Session): boolean {
  return scheduledIn(journal.state).length > 0
}

/** Returns a function that tells whether the session has since had its first scheduled message, or lost its last one. */
function watchScheduled(session: Session): () => boolean {
  const had = hasScheduled(session)
  return () => hasScheduled(session) !== had
}

/** Returns a function that tells whether the session has since been paused or unpaused. */
function watchPause({ journal }: Session): () => boolean {
  const isPaused = (): boolean => journal.state.paused !== undefined
  const wasPaused = isPaused()
  return () => isPaused() !== wasPaused
}

/** Waits for the decision, answer or expiry that the run needs to continue. */
async function waitForInput(session: Session, isDue: () => boolean): Promise<void> {
  const { stopping, flushing } = session
  if (stopping.isRequested()) return stopBetweenSteps(session)
  flushing.nudge()
  const pauseChanges = watchPause(session)
  const wakes = (): boolean => stopping.isRequested() || nextStep(session) !== 'wait' || pauseChanges() || isDue() || isAgentDue(session)
  // Alarms cover everything else that the run waits for.
  await condition(wakes)
}

/** Messages that came after an update that is not carried out yet are not part of the run that precedes it. */
function takesNow(session: Session, takes: string[]): string[] {
  const { inbox } = session.journal.state
  const later = new Set(inbox.filter((message) => !mayTake(session, message)).map(({ messageId }) => messageId))
  return takes.filter((messageId) => !later.has(messageId))
}

/** Whether nothing of the run is pending. */
function isBetweenTurns(decision: SessionStep): boolean {
  return decision.do === 'wait' || decision.do === 'start_run' || decision.do === 'start_turn'
}

async function carryOut(session: Session, decision: Exclude<SessionStep, { do: 'wait' }>): Promise<void> {
  const { journal, flushing } = session
  switch (decision.do) {
    case 'start_run': {
      const { messageId, intent } = decision.message
      journal.append({ type: 'run_started', run: decision.run, messageId, ...defined({ intent }) })
      return
    }
    case 'start_turn': {
      const { run, turn, takes } = decision
      // A run that is about to be stopped accepts only its opening message. Messages that no model sees open the next run.
      const opener = journal.state.current?.messageId
      const seen = session.stopping.isComing() ? takes.filter((messageId) => messageId === opener) : takesNow(session, takes)
      journal.append({ type: 'turn_started', run, turn, takes: seen })
      return
    }
    case 'call_model':
      return inRun(session, async (run) => {
        const before = journal.watermark().seq
        const called = await callModel(session, run)
        // The caller has allowed more since the call was found too expensive: it is asked for again.
        if (called.end === 'failed' && called.code === 'budget_exhausted' && isAllowedMore(journal.since(before))) return
        if (called.end === 'failed') failRun(session, run.run, called)
        if (called.end === 'stopped' && called.by) stopByHook(session, run.run, called.by)
        if (called.end === 'held_up') pauseForBudget(session, called)
        // This also applies to a run that is being stopped, because the calls have ended.
        if (called.end === 'completed' && called.rides.size > 0) await recordRides(session, called.rides)
      })
    case 'ask':
      return askFor(session, decision.calls)
    case 'use_rules':
      return inRun(session, () => useRules(session, decision.calls))
    case 'expire':
      return expire(session, decision.call)
    case 'run_calls':
      return inRun(session, (run) => runCalls(session, run, decision.calls))
    case 'end_hooks':
      return runEndHooks(session, decision)
    case 'complete_run': {
      const { do: _, ...completed } = decision
      journal.append({ type: 'run_completed', ...completed })
      endRun(session)
      return
    }
    case 'fail_run':
      failRun(session, decision.run, decision)
      return
    case 'recover':
      if ((await recoverAutomatically(session, decision.strategy)) === 'overtaken' && session.stopping.isRequested()) {
        return stopBetweenSteps(session)
      }
      flushing.nudge()
  }
}

async function runCalls(session: Session, run: RunState, calls: readonly CallState[], rides?: Rides): Promise<void> {
  const needs = { ...session, run }
  await Promise.all(calls.map((call) => runToolCall(needs, call, rides?.get(call.index))))
}

/** Records the calls that ran as part of the model call. Those without a result continue as activities. */
async function recordRides(session: Session, rides: Rides): Promise<void> {
  const { current: run } = session.journal.state
  if (!run) return
  const calls = run.calls.filter(({ index }) => rides.has(index))
  await runCalls(session, run, calls, rides)
}

/** Stops a run between two steps, when there is no step to end. */
function stopBetweenSteps(session: Session): Promise<void> {
  return inRun(session, async () => undefined)
}

function stopByHook(session: Session, run: number, { hook, reason }: { hook: string; reason: string }): void {
  session.journal.append({ type: 'run_interrupted', run, reason: cutText(reason, TEXT_BYTES.reason), by: `hook ${hook}` })
  endRun(session)
}

/**
 * Carries out a step of the current run. An interrupt or the deadline stops the step and then the run. Calls that an execution had made that
 * could not be replayed have happened, so their outcomes are recorded first.
 */
async function inRun(session: Session, step: (run: RunState) => Promise<void>): Promise<void> {
  const { journal, inherited, stopping } = session
  const run = journal.state.current
  if (!run) return
  const stopped = await stopping.step(() => step(run))
  if (!stopped || !hasRunInProgress(session)) return
  inherited.settle(
    journal,
    (journal.state.current?.calls ?? []).filter((call) => call.status !== 'requested' && !hasEnded(call)),
  )
  if (stopped.why === 'deadline') {
    failRun(session, run.run, { code: 'deadline_exceeded', reason: stopped.reason })
    return
  }
  const { why: _, ...details } = stopped
  journal.append({ type: 'run_interrupted', run: run.run, ...details })
  endRun(session)
}
