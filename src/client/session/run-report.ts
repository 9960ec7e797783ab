// One run: its calls with their attempts and effects, and what each strategy would do if the run has failed.
import type { Client } from '@temporalio/client'
import type { Json } from '../../session/json.ts'
import type { ToolCallStatus } from '../../session/call-facts.ts'
import { hasEnded, isWaiting } from '../../session/past/call-status.ts'
import { previewRecoveries, type RecoveryPreview } from '../../session/recovery/preview.ts'
import type { CallState, RunState, SessionError, SessionState } from '../../session/state.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { reasonOf } from '../../store/errors.ts'
import type { ListedError, ListedRun, ListedToolCall } from '../../store/listed.ts'
import type { Store } from '../../store/store.ts'
import { RequestRefusedError, SessionNotFoundError } from '../errors.ts'
import { readState } from './state.ts'

/** A failed attempt of a model call or a tool call. */
export interface ReportedAttempt {
  /** Number of the attempt, from 1. */
  attempt: number
  /** The error's own code, or the name of its class. */
  code: string
  /** What went wrong. */
  message: string
  /** When it failed, in milliseconds since 1970. */
  at: number
}

/** A tool call of a run. */
export interface ReportedCall {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** The tool's name. */
  tool: string
  /** The tool's effect. `read` for pawl's own tools, which change only the session. */
  effect: string
  /** The call's status. */
  status: ToolCallStatus | 'requested' | 'awaiting_resolution'
  /**
   * The arguments that it is executed with, or if they have more than 4,000 bytes, the beginning of their JSON as text; null if unknown.
   */
  input: Json
  /**
   * What it returned, or the beginning of its JSON as text, as for `input`; null if it has not returned yet, or if `resultBlob` refers to
   * the result.
   */
  result: Json
  /** SHA-256 of a result that is too large for the row, as `session.blob` accepts it. */
  resultBlob: string | null
  /** When the newest attempt began, in milliseconds since 1970; null if there was none, or if unknown. */
  startedAt: number | null
  /** When it ended, in milliseconds since 1970; null if it has not, or if unknown. */
  endedAt: number | null
  /** Attempts so far. */
  attempts: number
  /** The effect's name in the outside world; null if none is known. */
  effectId: string | null
  /** The idempotency key; null for a read, or if unknown. */
  key: string | null
  /** The call whose result it received instead of being executed. */
  replayOf: string | null
  /** Why it failed, or why its outcome is unknown. */
  error: { code: string; message: string } | null
  /** Its failed attempts. */
  failedAttempts: ReportedAttempt[]
}

/** A turn of a run. */
export interface ReportedTurn {
  /** Number of the turn within the run, from 1. */
  turn: number
  /** The model that answered; null if none did. */
  model: string | null
  /** When it answered, in milliseconds since 1970; null if none did. */
  answeredAt: number | null
  /** Failed attempts of the model call. */
  failedAttempts: ReportedAttempt[]
  /** Whether a recovery or a rollback removed the turn from the transcript. */
  archived: boolean
  /** Its calls. */
  calls: ReportedCall[]
}

/** One run of a session. */
export interface RunReport {
  /** The session's id. */
  sessionId: string
  /** Number of the run within the session, from 1. */
  run: number
  /** The run's status. `left`: a recovery, a rollback or a new message ended it. */
  status: 'running' | 'waiting' | 'failed' | 'completed' | 'interrupted' | 'left'
  /** When it began, in milliseconds since 1970. */
  startedAt: number
  /** When it ended, in milliseconds since 1970; null if it has not ended, or is `left`. */
  endedAt: number | null
  /** The turns, oldest first; without the side store, only the newest one. */
  turns: ReportedTurn[]
  /** Why it failed, if it is the run that the session is in error with. */
  error: SessionError | null
  /** What each strategy would keep and redo, the suggested one first; empty unless the run has failed. */
  previews: RecoveryPreview[]
  /** Why the run's calls could not be read from the side store; absent if no error occurred. */
  storeError?: string
}

/** See `SessionHandle.runReport`. @throws SessionNotFoundError, SessionUnavailableError, RequestRefusedError `run_not_found`. */
export async function readRunReport(
  source: { client?: Client; store: Store | undefined; sessionId: string },
  wanted: number | undefined,
): Promise<RunReport> {
  const { sessionId, store } = source
  const state = await stateOf(source)
  const run = wanted ?? state.run
  const { stored, error } = await storedRun(store, sessionId, run)
  if (!stored && state.current?.run !== run) {
    if (error !== undefined) throw error
    const { prunedAt = null } = (await store?.lists.session(sessionId).catch(() => null)) ?? {}
    throw new RequestRefusedError('run_not_found', `Session "${sessionId}" ${whyNoRun({ sessionId, run, newest: state.run, prunedAt })}`)
  }
  return { sessionId, ...runReportOf(state, run, stored), ...(error !== undefined && { storeError: reasonOf(error) }) }
}

/** Combines the session's state and the rows of the run, which may be older or newer than the state, or missing. */
export function runReportOf(state: SessionState, run: number, stored: ListedRun | null): Omit<RunReport, 'sessionId' | 'storeError'> {
  const current = state.current?.run === run ? state.current : undefined
  const turns = stored ? turnsOf(stored) : []
  if (current) addCurrent(turns, current)
  const failed = current !== undefined && state.status === 'error' ? state.error : null
  return {
    run,
    status: statusOf(state, current, stored),
    startedAt: current?.startedAt ?? stored?.startedAt.getTime() ?? 0,
    endedAt: (current ? undefined : stored?.end?.at.getTime()) ?? null,
    turns,
    error: failed,
    previews: failed && current ? previewRecoveries(state, current, endedCalls(turns, current)) : [],
  }
}

function whyNoRun({ sessionId, run, newest, prunedAt }: { sessionId: string; run: number; newest: number; prunedAt: Date | null }): string {
  if (newest === 0) return 'has had no run yet.'
  if (run > newest) return `has no run ${run}: its newest one is ${newest}.`
  if (!prunedAt) return `has no stored events of run ${run}.`
  return `was pruned at ${prunedAt.toISOString()}, run ${run} included. \`${SUGGESTIONS.listArchived(sessionId)}\` lists its messages.`
}

/** Without a client, only the side store is asked. */
async function stateOf({
  client,
  store,
  sessionId,
}: {
  client?: Client
  store: Store | undefined
  sessionId: string
}): Promise<SessionState> {
  if (client) return readState({ client, store, sessionId })
  const stored = await store?.state(sessionId)
  if (!stored) throw new SessionNotFoundError(sessionId, { where: 'store' })
  return stored
}

async function storedRun(store: Store | undefined, sessionId: string, run: number): Promise<{ stored: ListedRun | null; error?: unknown }> {
  try {
    return { stored: store ? await store.lists.run(sessionId, run) : null }
  } catch (error) {
    return { stored: null, error }
  }
}

function statusOf({ status }: SessionState, current: RunState | undefined, stored: ListedRun | null): RunReport['status'] {
  if (!current) return stored?.end?.how ?? 'left'
  return status === 'waiting' || status === 'running' ? status : status === 'error' ? 'failed' : 'left'
}

function turnsOf({ calls, failures, answers, archivedTurns }: ListedRun): ReportedTurn[] {
  const numbers = new Set([...answers, ...calls, ...failures.filter(({ attempt }) => attempt !== null)].flatMap(({ turn }) => turn ?? []))
  return [...numbers]
    .sort((a, b) => a - b)
    .map((turn) => {
      const answer = answers.find((one) => one.turn === turn)
      const ofTurn = failures.filter((failure) => failure.turn === turn)
      return {
        turn,
        model: answer?.model ?? null,
        answeredAt: answer?.at.getTime() ?? null,
        failedAttempts: attemptsIn(ofTurn, (failure) => failure.context === 'model'),
        archived: archivedTurns.includes(turn),
        calls: calls.filter((call) => call.turn === turn).map((call) => reportedCall(call, ofTurn)),
      }
    })
}

function reportedCall(
  {
    callId,
    tool,
    effect,
    status,
    input,
    result,
    resultBlob,
    startedAt,
    completedAt,
    attempt,
    effectId,
    key,
    replayOf,
    error,
  }: ListedToolCall,
  failures: ListedError[],
): ReportedCall {
  return {
    callId,
    tool,
    effect,
    status,
    input,
    result,
    resultBlob,
    startedAt: startedAt?.getTime() ?? null,
    endedAt: completedAt?.getTime() ?? null,
    attempts: attempt,
    effectId,
    key,
    replayOf,
    error,
    failedAttempts: attemptsIn(failures, (failure) => failure.callId === callId),
  }
}

function attemptsIn(failures: readonly ListedError[], matches: (failure: ListedError) => boolean): ReportedAttempt[] {
  return failures.flatMap((failure) => {
    const { attempt, code, class: kind, message, at } = failure
    return attempt !== null && matches(failure) ? [{ attempt, code: code ?? kind, message, at: at.getTime() }] : []
  })
}

/**
 * The state knows more than the store: calls that are not issued yet and, if the store is unreachable, all calls of the newest answer.
 * While the model is generating the next answer, the newest one is the previous turn's.
 */
function addCurrent(turns: ReportedTurn[], { turn, answerTurn, calls }: RunState): void {
  const reported = new Map(turns.flatMap((one) => one.calls.map((call) => [call.callId, call])))
  const answered = answerTurn ?? turn
  for (const call of calls) {
    const known = reported.get(call.callId)
    if (!known) turnIn(turns, answered).calls.push(currentCall(call))
    // The rows do not tell an unknown outcome that a person must resolve from one that is final.
    else if (!ENDED.has(known.status) || (known.status === 'unknown' && isWaiting(call))) known.status = call.status
  }
  if (turn > 0) turnIn(turns, turn)
}

/** The turn with that number, which is added in order if it is missing. */
function turnIn(turns: ReportedTurn[], turn: number): ReportedTurn {
  const known = turns.find((one) => one.turn === turn)
  if (known) return known
  const added = newTurn(turn)
  turns.push(added)
  turns.sort((one, other) => one.turn - other.turn)
  return added
}

function newTurn(turn: number): ReportedTurn {
  return { turn, model: null, answeredAt: null, failedAttempts: [], archived: false, calls: [] }
}

function currentCall({ callId, status, input = null, attempts = 0, resolution: { tool, effect, key } }: CallState): ReportedCall {
  const about = { callId, tool, effect, status, input, attempts, key: key ?? null }
  const unknown = { result: null, resultBlob: null, startedAt: null, endedAt: null }
  return { ...about, ...unknown, effectId: null, replayOf: null, error: null, failedAttempts: [] }
}

const ENDED: ReadonlySet<string> = new Set(['completed', 'replayed', 'failed', 'denied', 'unknown', 'skipped'] satisfies ToolCallStatus[])

/** The calls of the failed run that have a result in the transcript. */
function endedCalls(turns: readonly ReportedTurn[], { calls, leftOut = [] }: RunState) {
  const open = new Set([...calls, ...leftOut].filter((call) => !hasEnded(call)).map(({ callId }) => callId))
  return turns.flatMap(({ turn, archived, calls: reported }) =>
    reported
      .filter(({ callId, status }) => !archived && ENDED.has(status) && !open.has(callId))
      .map(({ callId, effect, status }) => ({ callId, turn, isEffect: status === 'completed' && effect !== 'read' })),
  )
}
