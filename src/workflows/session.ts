// The session workflow: a thin shell around the pure core. It decides by `decide`, carries out, and records what came of it.
import {
  allHandlersFinished,
  CancellationScope,
  condition,
  defineQuery,
  defineSignal,
  defineUpdate,
  setDefaultSignalHandler,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import { hasEffects } from '../session/fold.ts'
import { decide, type Decision } from '../session/decide.ts'
import { QUERIES, SIGNALS, UNDECODABLE, UPDATES } from '../session/protocol.ts'
import type { Closing, EventsPage, EventsQuery, RecoverRequest, SessionStart, StopSignal } from '../session/protocol.ts'
import type { RunState, SessionState } from '../session/state.ts'
import { startContinuing } from './continuing.ts'
import { type Flushing, startFlushing } from './flushing.ts'
import { receive } from './inbox.ts'
import type { Journal } from './journal.ts'
import { callModel } from './model-call.ts'
import { openSession } from './open.ts'
import { checkRecovery, recover } from './recovery.ts'
import { NOT_SERVED_AFTER_MS, type Serving, startServing } from './serving.ts'
import { readStart } from './start.ts'
import { startStopping, type Stopping } from './stopping.ts'
import { runToolCall } from './tool-call.ts'

const IDLE_TIMEOUT_MS = 24 * 3_600_000
/** What one answer of the query `events` may hold at most; the server's limit is 2 MB. */
const PAGE_BYTES = 1_000_000

const messageSignal = defineSignal<[unknown]>(SIGNALS.message)
const interruptSignal = defineSignal<[StopSignal?]>(SIGNALS.interrupt)
const closeSignal = defineSignal<[StopSignal?]>(SIGNALS.close)
const stateQuery = defineQuery<SessionState | { status: 'loading' }>(QUERIES.state)
const eventsQuery = defineQuery<EventsPage | { status: 'loading' }, [EventsQuery?]>(QUERIES.events)
const recoverUpdate = defineUpdate<SessionState, [RecoverRequest]>(UPDATES.recover)

/** What the parts of an open session share. */
interface Session {
  journal: Journal
  flushing: Flushing
  serving: Serving
  stopping: Stopping
  previous: string | undefined
}

/** One durable conversation: Temporal workflow `pawlSession`, id `pawl:<sessionId>`. */
export async function pawlSession(given?: SessionStart): Promise<void> {
  const start = readStart(given)
  let session: Session | undefined
  let closing: Closing | undefined = start.carried?.closing
  /** Messages that come before the session is open, and what else is to be done then, in order. */
  const early: unknown[] = []
  const onceOpen: (() => void)[] = []

  setHandler(messageSignal, receiveMessage)
  setHandler(interruptSignal, (signal) => interrupt(stopDetails(signal)))
  setHandler(closeSignal, (signal) => {
    const { by } = stopDetails(signal)
    closing ??= { when: 'idle', ...(by !== undefined && { by }) }
  })
  setDefaultSignalHandler((name) => receiveMessage({ [UNDECODABLE]: `there is no signal "${name}"` }))
  setHandler(stateQuery, () => session?.journal.state ?? { status: 'loading' })
  setHandler(eventsQuery, (query) => (session ? eventsPage(session, query) : { status: 'loading' }))
  setHandler(recoverUpdate, recoverSession, { validator: (request) => checkRecovery(session?.journal.state, request) })
  // Cancelled from outside, a session closes like one that is asked to: nothing of it may be lost.
  CancellationScope.current().cancelRequested.catch(() => {
    closing = { ...closing, when: 'now' }
    interrupt({ reason: 'cancelled' })
  })

  await CancellationScope.nonCancellable(async () => {
    const { journal, previous } = await openSession(start, early)
    const flushing = startFlushing(journal, start.carried ? journal.watermark().seq : 0)
    const serving = startServing(journal, flushing, start.settings?.notServedAfterMs ?? NOT_SERVED_AFTER_MS)
    session = { journal, flushing, serving, stopping: startStopping(), previous }
    for (const act of onceOpen) act()
    await serve(session)
  })

  function receiveMessage(raw: unknown): void {
    if (!session) {
      early.push(raw)
      onceOpen.push(() => receiveMessage(raw))
      return
    }
    const { journal, stopping, flushing } = session
    receive(journal, raw)
    // No model call is about to store it: one is going on, which may take long, or the message was rejected.
    if (stopping.isActive() || nextStep(journal) === 'wait') flushing.nudge()
  }

  function interrupt(details: StopSignal): void {
    if (!session) onceOpen.push(() => interrupt(details))
    // A message that was accepted has a run, also in the moment before it starts.
    else if (isGoingOn(session) || nextStep(session.journal) === 'start_run') session.stopping.request({ why: 'interrupt', ...details })
  }

  function recoverSession(request: RecoverRequest): SessionState {
    const open = session as Session
    if (open.stopping.isActive()) interrupt({ reason: 'abandoned', ...stopDetails(request) })
    else recover(open.journal, request)
    open.flushing.nudge()
    return open.journal.state
  }

  /** Serves the session until it closes or goes on in a new execution. */
  async function serve(open: Session): Promise<void> {
    const { journal, flushing, stopping } = open
    const continuing = startContinuing({ start, journal, flushing, stopping, closing: () => closing })
    const idleTimeoutMs = start.settings?.idleTimeoutMs ?? IDLE_TIMEOUT_MS
    for (;;) {
      const decision = decide(journal.state, Date.now())
      if (isBetweenTurns(decision) && continuing.isDue()) {
        await continuing.attempt()
        continue
      }
      if (decision.do === 'wait' || (decision.do === 'start_run' && closing?.when === 'now')) {
        flushing.nudge()
        const spoken =
          !closing && (await condition(() => closing !== undefined || nextStep(journal) !== 'wait' || continuing.isDue(), idleTimeoutMs))
        if (!spoken && (await close(open))) return
        continue
      }
      await carryOut(open, decision)
    }
  }

  /** Whether the session is closed: everything is stored, and nobody spoke to it meanwhile. */
  async function close({ journal, flushing }: Session): Promise<boolean> {
    await flushing.drained()
    if (closing?.when !== 'now' && nextStep(journal) !== 'wait') return false
    const by = closing?.by
    journal.append({ type: 'session_closed', reason: closing ? 'requested' : 'idle', ...(by !== undefined && { by }) })
    const closed = journal.watermark().seq
    await flushing.drained()
    await condition(allHandlersFinished)
    closing = undefined
    return journal.watermark().seq === closed
  }
}

function nextStep({ state }: Journal): Decision['do'] {
  return decide(state, Date.now()).do
}

/** Nothing of the run is pending. */
function isBetweenTurns(decision: Decision): boolean {
  return decision.do === 'wait' || decision.do === 'start_run' || decision.do === 'start_turn'
}

async function carryOut(session: Session, decision: Exclude<Decision, { do: 'wait' }>): Promise<void> {
  const { journal, serving } = session
  switch (decision.do) {
    case 'start_run': {
      const { messageId, metadata } = decision.message
      journal.append({ type: 'run_started', run: decision.run, messageId, ...(metadata && { metadata }) })
      return
    }
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
    case 'run_calls':
      return inRun(session, async (run) => {
        await Promise.all(decision.calls.map((call) => runToolCall({ journal, serving, run }, call)))
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

function failRun(session: Session, run: number, code: string, reason: string): void {
  const { current } = session.journal.state
  const strategy = current && hasEffects(current) ? 'abandon' : 'restart_run'
  session.journal.append({ type: 'error_entered', run, code, reason, strategy })
  endRun(session)
}

function endRun({ stopping, flushing }: Session): void {
  stopping.ended()
  flushing.nudge()
}

/** A run is going on, also while the session waits in an error that it leaves by itself. */
function isGoingOn({ journal: { state } }: Session): boolean {
  return state.current !== null && (state.status === 'running' || state.error?.strategy === 'automatic')
}

function eventsPage({ journal, previous }: Session, query: EventsQuery | undefined): EventsPage {
  const after = Math.max(0, Math.trunc(Number(query?.after ?? 0)) || 0)
  const page = journal.page(after, Math.min(Number(query?.maxBytes) || PAGE_BYTES, PAGE_BYTES))
  return {
    epoch: journal.state.epoch,
    executionId: workflowInfo().runId,
    ...page,
    ...(previous !== undefined && { previous }),
  }
}

function stopDetails(signal: StopSignal | undefined): StopSignal {
  const { reason, by } = signal ?? {}
  return { ...(typeof reason === 'string' && { reason }), ...(typeof by === 'string' && { by }) }
}
