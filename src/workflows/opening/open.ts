// How an execution of a session begins: new, continued as new, resumed from the store, or forked.
import { condition, patched, workflowInfo } from '@temporalio/workflow'
import type {
  LoadCallsResult,
  LoadForkResult,
  LoadSessionResult,
  PriorRequest,
  RepeatedRequests,
  Succession,
} from '../../calls/activities.ts'
import type { EffectReport } from '../../session/call-facts.ts'
import type { EventBody, Unreplayable } from '../../session/events.ts'
import { copyOf, isObject, type Json } from '../../session/json.ts'
import { contextProblem, tagsProblem } from '../../session/protocol/incoming.ts'
import {
  type Continuation,
  type ForkStart,
  isAgentName,
  type MessageSignal,
  sessionIdOf,
  SIGNALS,
} from '../../session/protocol/protocol.ts'
import { requestOf } from '../../session/protocol/requests.ts'
import { lacksCalls, putCallsBack } from '../../session/fold/snapshot.ts'
import type { Start } from '../../session/protocol/start.ts'
import type { CallState, RunState, SessionState } from '../../session/state.ts'
import { cutText, TEXT_BYTES } from '../../session/protocol/texts.ts'
import { loadCalls, loadFork, loadSession } from '../scheduling.ts'
import { coreVersionOf } from '../core-version.ts'
import { continueInheriting, type Inheritance, startInheriting } from '../inherited.ts'
import { type Journal, openJournal } from '../journal.ts'
import type { ExecutionOpening } from './loading.ts'
import { continueAnswered } from '../requests/answered.ts'
import type { Session } from '../session-parts.ts'
import type { Resets } from '../resets.ts'
import { recordEnded } from '../calls/call.ts'
import { defined } from '../../session/defined.ts'

const NOTHING = { seq: 0, digest: '' }

/** An opened session, and what it inherits from earlier executions. */
export interface OpenedSession {
  journal: Journal
  previous?: string
  inherited?: Inheritance
  repeated?: RepeatedRequests
  /** What earlier executions had received. */
  requests?: PriorRequest[]
  /** Set if it had been closed, and earlier executions had left nothing to do: its past without this execution, if that can be read. */
  closed?: { journal?: Journal }
}

interface RefusedStart {
  refused: { code: string; reason: string }
}

/** Whether only a message can start the session. */
const isGone = (loaded: LoadSessionResult): boolean => !loaded.found || (loaded.lost === true && loaded.erased === true)

/** Opens the session's journal. `early` collects messages that arrive meanwhile; those that earlier executions passed on come first. */
export async function openSession(start: Start, early: unknown[], opening: ExecutionOpening): Promise<OpenedSession | RefusedStart> {
  const { carried, fork } = start
  const coreVersion = coreVersionOf(carried, patched)
  if (carried) return openCarried(carried, coreVersion, opening)
  if (fork) return openFork(start, fork, coreVersion, opening)
  // Only an execution that took the session for a new one continues without its state.
  const { continuedFromExecutionRunId: mistaken } = workflowInfo()
  const loaded: LoadSessionResult = start.isNew
    ? { found: false }
    : await opening.load((how) => loadSession({ ...how, ...defined({ mistaken, unreplayable: unreplayableOf(start) }) }))
  const { requests = [] } = loaded
  continueAnswered(loaded.answered)
  if (!loaded.found) early.unshift(...requests.flatMap(({ name, details }) => (name === SIGNALS.message ? [details] : [])))
  if (isGone(loaded) && start.mustExist && early.length === 0) {
    return {
      refused: { code: 'session_not_found', reason: `There is no session "${sessionIdOf(workflowInfo().workflowId)}". Check the id.` },
    }
  }
  if (loaded.found) {
    const inherited = startInheriting(loaded, loaded.lost ? undefined : loaded.state)
    const closed = closedPast(loaded, coreVersion)
    return { journal: await journalOf(start, loaded, coreVersion, opening), inherited, requests, ...defined({ closed }) }
  }
  const named = start.agent === undefined ? await firstAgent(early) : { agent: start.agent, context: start.context }
  const { unreplayable } = loaded
  const begun = {
    ...beginSession({ ...named, tags: start.tags, ...defined({ unreplayable, caller: start.caller }) }, coreVersion),
    inherited: startInheriting(loaded, undefined),
    requests,
  }
  begun.journal.isUnconfirmed = start.isNew === true
  if (start.undecodable !== undefined) {
    begun.journal.append({
      type: 'message_rejected',
      code: 'undecodable',
      reason: `The start's argument cannot be decoded: ${start.undecodable}`,
    })
  }
  return begun
}

function closedPast(loaded: LoadSessionResult & { found: true }, coreVersion: number): OpenedSession['closed'] {
  const { requests = [], answers, unreplayable } = loaded
  if (requests.length > 0 || answers || unreplayable) return undefined
  if (loaded.lost) return {}
  const { state, digest } = loaded
  return state.status === 'closed' ? { journal: openJournal({ seq: state.seq, digest }, copyOf(state), coreVersion) } : undefined
}

function unreplayableOf({ unreplayable }: Start): Unreplayable | undefined {
  return unreplayable && { executionId: unreplayable.executionId, reason: unreplayable.reason }
}

async function openCarried(
  { state, digest, tail, previous, inherited }: Continuation,
  coreVersion: number,
  opening: ExecutionOpening,
): Promise<OpenedSession | RefusedStart> {
  const isWhole = await fetchCalls({ state, digest }, opening)
  const journal = openJournal({ seq: state.seq, digest }, state, coreVersion, tail)
  if (!isWhole) reportLostCalls(journal)
  return { journal, previous, inherited: continueInheriting(defined({ inherited })) }
}

/** Loads the calls that a bounded state could not hold. Returns false if the store no longer has them, so that their run cannot resume. */
async function fetchCalls({ state, digest }: { state: SessionState; digest: string }, opening: ExecutionOpening): Promise<boolean> {
  const calls: CallState[] = []
  for (let more = lacksCalls(state); more; ) {
    const place = { answerSeq: state.current?.answerSeq ?? 0, upTo: { seq: state.seq, digest }, from: calls.length }
    const page = await opening.load<LoadCallsResult>((how) => loadCalls({ ...place, ...how }))
    if (page.gone) return false
    calls.push(...page.calls)
    more = page.more
  }
  if (calls.length > 0) putCallsBack(state, calls)
  return true
}

function reportLostCalls(journal: Journal): void {
  const { current } = journal.state
  if (!current) return
  const reason = `The events of run ${current.run} are no longer in the side store, so the arguments of its open calls are lost. Send a message to start a new run.`
  journal.append({
    type: 'error_entered',
    run: current.run,
    code: 'events_missing',
    reason,
    strategy: 'abandon',
    options: ['abandon', 'manual'],
  })
}

/**
 * Reopens the session after its workflow was reset: it resumes from the store, as if its workflow had ended. Stores the events of this
 * history first, then the remaining ones of the reset execution, so that nothing is repeated or lost.
 */
export async function reopenSession(
  start: Start,
  { journal, flushing, inherited }: Session,
  resets: Resets,
  opening: ExecutionOpening,
): Promise<OpenedSession> {
  await flushing.drained()
  const resetOf = resets.maker()
  const loaded = await opening.load<LoadSessionResult & { executionId: string }>((how) => loadSession({ ...how, after: resetOf }))
  resets.madeBy(loaded.executionId)
  continueAnswered(loaded.answered)
  const { state, coreVersion, watermark } = journal
  const known = loaded.found ? loaded : ({ found: true, state: copyOf(state), digest: watermark().digest } as const)
  const reopened = await journalOf(start, known, coreVersion, opening, { executionId: loaded.executionId, resetOf })
  const { repeated, requests, answers } = loaded
  const left = answers
    ? startInheriting(loaded, loaded.found && !loaded.lost ? loaded.state : undefined)
    : continueInheriting({ inherited: [...inherited.left()] })
  return { journal: reopened, inherited: left, ...defined({ repeated, requests }) }
}

/** The journal of a session that is in the store. */
async function journalOf(
  start: Start,
  loaded: LoadSessionResult & { found: true },
  coreVersion: number,
  opening: ExecutionOpening,
  by: Maker = { executionId: workflowInfo().originalExecutionRunId },
): Promise<Journal> {
  if (loaded.lost) return startOver(start, loaded, coreVersion, by)
  const isWhole = await fetchCalls(loaded, opening)
  return resumeFrom(loaded, coreVersion, by, isWhole)
}

/** The execution that opens the session, and the one whose reset created it. */
interface Maker {
  executionId: string
  resetOf?: string
}

function beginSession(
  { unreplayable, caller, ...named }: NamedSession & Succession & Pick<Start, 'caller'>,
  coreVersion: number,
): { journal: Journal } {
  const journal = openJournal(NOTHING, undefined, coreVersion)
  const wrongContext = contextProblem(named.context)
  const wrongTags = tagsProblem(named.tags)
  const sound = { agent: named.agent, ...(!wrongContext && { context: named.context }), ...(!wrongTags && { tags: named.tags }) }
  journal.append({ ...started(sound, coreVersion, workflowInfo().originalExecutionRunId), ...defined({ unreplayable, caller }) })
  // Invalid members are ignored, and each is recorded as a rejection.
  if (wrongContext) journal.append({ type: 'message_rejected', code: 'invalid_context', reason: wrongContext })
  if (wrongTags) journal.append({ type: 'message_rejected', code: 'invalid_tags', reason: wrongTags })
  return { journal }
}

/** The session's agent, context and tags. */
interface NamedSession {
  agent: string
  context?: Json | undefined
  tags?: string[] | undefined
}

function started(
  { agent, context, tags }: NamedSession,
  coreVersion: number,
  executionId: string,
): EventBody & { type: 'session_started' } {
  return {
    type: 'session_started',
    sessionId: sessionIdOf(workflowInfo().workflowId),
    agent: cutText(agent, TEXT_BYTES.name),
    context: context ?? null,
    tags: tags ?? [],
    executionId,
    coreVersion,
  }
}

/** Opens a session whose events can no longer be read. Only its numbering continues. */
function startOver(start: Start, lost: Extract<LoadSessionResult, { lost: true }>, coreVersion: number, { executionId }: Maker): Journal {
  const { seq, digest, run, checkpoint, keysOf, unreplayable } = lost
  const { agent = lost.agent, context, tags } = start
  const named = lost.erased ? { agent, context, tags } : lost
  const journal = openJournal({ seq, digest }, undefined, coreVersion)
  journal.append({
    ...started(named, coreVersion, executionId),
    after: { run, checkpoint, origin: { seq, digest }, ...defined({ keysOf }) },
    ...defined({ unreplayable, caller: lost.erased ? start.caller : undefined }),
  })
  return journal
}

/** Resumes the session where it was, including its run: the workflow ended, the run did not. */
function resumeFrom(
  { state, digest, unreplayable, answers }: Succession & { state: SessionState; digest: string },
  coreVersion: number,
  { executionId, resetOf }: Maker,
  isWhole: boolean,
): Journal {
  const { epoch: fromEpoch, error } = state
  const journal = openJournal({ seq: state.seq, digest }, { ...state, epoch: executionId }, coreVersion)
  journal.append({ type: 'session_resumed', executionId, fromEpoch, coreVersion, ...defined({ resetOf, unreplayable }) })
  const { current } = journal.state
  if (!current) return journal
  if (!isWhole) {
    reportLostCalls(journal)
    return journal
  }
  const failed = error !== null && error.strategy !== 'automatic'
  if (failed) return journal
  // The histories of the executions that made the calls show the outcomes.
  if (unreplayable || answers) return journal
  if (current.phase === 'tools' && current.calls.some((call) => call.status === 'issued')) abandonTurn(journal, current)
  return journal
}

/** Abandons the turn whose calls were in flight when the workflow ended; effects that may have happened stay recorded. */
function abandonTurn(journal: Journal, run: RunState): void {
  const { run: number, turn, lastTurn, answerSeq, beforeAnswer, calls } = run
  if (answerSeq === undefined) {
    journal.append({ type: 'run_interrupted', run: number, reason: 'its workflow had ended' })
    return
  }
  const effects = calls.flatMap(effectOf)
  const inFlight = calls.filter((one) => one.status === 'issued').map((call) => ({ ...call }))
  const isExternal = ({ resolution }: CallState): boolean => resolution.effect === 'external'
  for (const call of inFlight.filter(isExternal)) recordEnded(journal, run, call)
  // A rollback to before the answer would also remove messages that a later turn accepted, or this turn's changes to plan and memory.
  if (lastTurn !== undefined || run.planTurn === turn || run.memoryTurn === turn) {
    for (const call of inFlight) if (!isExternal(call)) recordEnded(journal, run, call)
    return
  }
  const { seq } = journal.watermark()
  journal.append({
    type: 'rolled_back',
    toSeq: answerSeq - 1,
    upToSeq: seq,
    keepsRun: true,
    reason: 'the workflow ended during a turn',
    ...defined({ lastMessageId: beforeAnswer }),
    effects,
  })
}

function effectOf({ callId, resolution: { tool, effect }, status }: CallState): EffectReport[] {
  if (effect === 'read') return []
  if (status === 'completed') return [{ callId, tool, status }]
  return status === 'unknown' || status === 'issued' || status === 'awaiting_resolution' ? [{ callId, tool, status: 'unknown' }] : []
}

async function openFork(
  start: Start,
  fork: ForkStart,
  coreVersion: number,
  opening: ExecutionOpening,
): Promise<OpenedSession | RefusedStart> {
  const { originalExecutionRunId: executionId } = workflowInfo()
  const loaded = await opening.load<LoadForkResult>((how) => loadFork({ epoch: executionId, fork, ...how }))
  if (loaded.kind === 'refused') return { refused: loaded }
  const { state, digest } = loaded
  const { from, seq, target, keys, by } = fork
  const journal = openJournal({ seq: state.seq, digest }, { ...state, epoch: executionId }, coreVersion)
  journal.append({
    type: 'forked',
    sessionId: sessionIdOf(workflowInfo().workflowId),
    executionId,
    coreVersion,
    from: { sessionId: from, seq },
    ...(target && { target }),
    keys,
    ...(start.tags && !tagsProblem(start.tags) && { tags: start.tags }),
    ...defined({ by }),
  })
  return { journal }
}

/** Another client may start the session without arguments. The first message then names the agent and the context. */
async function firstAgent(early: readonly unknown[]): Promise<NamedSession> {
  const isNaming = (raw: unknown): boolean => isObject(raw) && 'agent' in raw && isAgentName(requestOf<MessageSignal>(raw).agent)
  await condition(() => early.some(isNaming))
  const { agent = '', context } = requestOf<MessageSignal>(early.find(isNaming))
  return { agent, context }
}
