// The loop of an open session: calls `decide`, carries the decision out and records the outcome, until the session closes or continues as new.
import { allHandlersFinished, condition } from '@temporalio/workflow'
import { decide, type Decision } from '../session/decide.ts'
import type { Start } from '../session/start.ts'
import type { RunState } from '../session/state.ts'
import { startContinuing } from './continuing.ts'
import { callModel } from './model-call.ts'
import { endRun, failRun, isGoingOn, nextStep, type Session } from './open-session.ts'
import { askFor, expire } from './approvals.ts'
import { runToolCall } from './tool-call.ts'
import { defined } from '../session/defined.ts'

const IDLE_TIMEOUT_MS = 24 * 3_600_000

/** Runs the session until it closes or continues as new. */
export async function serve(open: Session, start: Start): Promise<void> {
  const { journal, flushing, stopping, alarms, closing } = open
  const continuing = startContinuing({ start, journal, flushing, stopping, closing: () => closing.wanted })
  const idleTimeoutMs = start.settings?.idleTimeoutMs ?? IDLE_TIMEOUT_MS
  /** A session in an error waits for a person, however long that takes. */
  const spokenTo = async (wakes: () => boolean): Promise<boolean> => {
    if (journal.state.status !== 'error') return condition(wakes, idleTimeoutMs)
    await condition(wakes)
    return true
  }
  for (;;) {
    alarms.follow()
    const decision = decide(journal.state, alarms.due)
    if (isBetweenTurns(decision) && continuing.isDue()) {
      await continuing.attempt()
    } else if (decision.do === 'start_run' && open.holds > 0) {
      await condition(() => open.holds === 0)
    } else if (decision.do === 'wait' && isGoingOn(open)) {
      await waitForSomebody(open, () => continuing.isDue())
    } else if (decision.do === 'wait' || (decision.do === 'start_run' && closing.wanted?.when === 'now')) {
      flushing.nudge()
      const spoken =
        !closing.wanted && (await spokenTo(() => closing.wanted !== undefined || nextStep(open) !== 'wait' || continuing.isDue()))
      if (!spoken && (await close(open))) return
    } else {
      await carryOut(open, decision)
    }
  }
}

/** Closes the session if everything is stored and no message arrived meanwhile. Returns whether it did. */
async function close(open: Session): Promise<boolean> {
  const { journal, flushing, closing } = open
  await flushing.drained()
  await condition(allHandlersFinished)
  if (closing.wanted?.when !== 'now' && nextStep(open) !== 'wait') return false
  const by = closing.wanted?.by
  journal.append({ type: 'session_closed', reason: closing.wanted ? 'requested' : 'idle', ...defined({ by }) })
  const closed = journal.watermark().seq
  await flushing.drained()
  await condition(allHandlersFinished)
  closing.wanted = undefined
  return journal.watermark().seq === closed
}

/** Waits for a decision, an answer or an expiry, without which the run cannot continue. */
async function waitForSomebody(session: Session, isDue: () => boolean): Promise<void> {
  const { stopping, flushing } = session
  // A stop finds no step to end here.
  if (stopping.isRequested()) return inRun(session, async () => undefined)
  flushing.nudge()
  const wakes = (): boolean => stopping.isRequested() || nextStep(session) !== 'wait' || isDue()
  // Alarms cover everything else that it waits for.
  await condition(wakes)
}

/** Whether nothing of the run is pending. */
function isBetweenTurns(decision: Decision): boolean {
  return decision.do === 'wait' || decision.do === 'start_run' || decision.do === 'start_turn'
}

async function carryOut(session: Session, decision: Exclude<Decision, { do: 'wait' }>): Promise<void> {
  const { journal, serving, pacing, alarms, late } = session
  switch (decision.do) {
    case 'start_run': {
      const { messageId, intent } = decision.message
      journal.append({ type: 'run_started', run: decision.run, messageId, ...defined({ intent }) })
      return
    }
    case 'start_turn': {
      const { run, turn, takes } = decision
      // A run that is about to be stopped takes only its opening message: messages that no model sees open the next run.
      const opener = journal.state.current?.messageId
      const seen = session.stopping.isRequested() ? takes.filter((messageId) => messageId === opener) : takes
      journal.append({ type: 'turn_started', run, turn, takes: seen })
      return
    }
    case 'call_model':
      return inRun(session, async (run) => {
        const called = await callModel(journal, serving, run)
        if (called.end === 'failed') failRun(session, run.run, called)
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
      failRun(session, decision.run, decision)
  }
}

/** Carries out a step of the current run; an interrupt or the deadline stops the step, and then the run. */
async function inRun(session: Session, step: (run: RunState) => Promise<void>): Promise<void> {
  const run = session.journal.state.current
  if (!run) return
  const stopped = await session.stopping.step(() => step(run))
  if (!stopped || !isGoingOn(session)) return
  if (stopped.why === 'deadline') {
    failRun(session, run.run, {
      code: 'deadline_exceeded',
      reason: `The run took longer than its limit of ${stopped.limitMs} ms (limits.deadline).`,
    })
    return
  }
  const { why: _, ...details } = stopped
  session.journal.append({ type: 'run_interrupted', run: run.run, ...details })
  endRun(session)
}
