// The recovery `selective`: keeps some calls of the failed turn, and skips or repeats others.
import { hasEnded } from '../../session/past/call-status.ts'
import type { RecoverRequest } from '../../session/protocol/protocol.ts'
import { eventsOfChoice } from '../../session/recovery/redo.ts'
import { choiceIn } from '../../session/recovery/selective.ts'
import { putCallsBack } from '../../session/fold/snapshot.ts'
import type { CallState } from '../../session/state.ts'
import { askToResolve, resolutionIn } from '../calls/approvals.ts'
import { findCalls } from '../scheduling.ts'
import { eventsOf, type Journal } from '../journal.ts'
import { withRunsHeld, type Session, textOf } from '../session-parts.ts'
import { readFor } from './reading.ts'
import { checkRecovery } from './recovery.ts'

/** Runs the recovery, once its calls have been read and checked. */
export async function recoverCalls(session: Session, request: RecoverRequest): Promise<void> {
  await withRunsHeld(session, async () => {
    const { journal } = session
    const found = await callsFor(session, request)
    checkRecovery(journal, request)
    if (await resolveInvalid(session, found)) checkRecovery(journal, request)
    carryOut(journal, request, found)
  })
}

/** The calls to repeat, with their arguments. Restores calls that the state lacks. */
async function callsFor(session: Session, request: RecoverRequest): Promise<Map<string, CallState>> {
  const { state } = session.journal
  const run = state.current
  const redo = new Set(choiceIn(request)?.redo)
  const isAsked = ({ callId }: CallState): boolean => redo.has(callId)
  if (!run || run.answerSeq === undefined || redo.size + (run.leftOut?.length ?? 0) === 0) return new Map()
  const isKnown = !run.leftOut && run.calls.filter(isAsked).every(({ input }) => input !== undefined)
  const calls = isKnown ? run.calls : await allCalls(session, run.answerSeq)
  if (run.leftOut && state.current === run) putCallsBack(state, calls.map(withoutSpentInput))
  return new Map(calls.filter(isAsked).map((call) => [call.callId, { ...call }]))
}

function withoutSpentInput(call: CallState): CallState {
  const { input: _, ...ended } = call
  return hasEnded(call) ? ended : call
}

async function allCalls({ journal }: Session, answerSeq: number): Promise<CallState[]> {
  const calls: CallState[] = []
  for (let more = true; more; ) {
    const page = await readFor(() => findCalls({ ...eventsOf(journal), answerSeq, from: calls.length }))
    calls.push(...page.calls)
    more = page.more && page.calls.length > 0
  }
  return calls
}

/** Repeats the resolution of calls that could not run: another build may be able to run them. Returns whether there was one. */
async function resolveInvalid(session: Session, found: Map<string, CallState>): Promise<boolean> {
  const run = session.journal.state.current
  const invalid = [...found.values()].filter(({ resolution }) => resolution.invalid)
  if (!run || invalid.length === 0) return false
  const turn = run.answerTurn ?? run.turn
  for (const call of invalid) {
    call.resolution = resolutionIn(await askToResolve(session, { ...run, turn }, call, call.input ?? null), call)
  }
  return true
}

function carryOut(journal: Journal, request: RecoverRequest, found: ReadonlyMap<string, CallState>): void {
  const run = journal.state.current
  const choice = choiceIn(request)
  if (!run || !choice) return
  // A person may have resolved its outcome since the call was read.
  const calls = run.calls.map((call) => ({ ...call, ...found.get(call.callId), status: call.status }))
  const events = eventsOfChoice(run, calls, choice, { ...textOf(request, 'by'), ...textOf(request, 'reason') })
  for (const event of events) journal.append(event)
}
