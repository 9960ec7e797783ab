// The outcome of a call that a decision reached too late: when, by whom and how it was decided and ended, according to the store.
import { isObject, type Json } from '../../session/json.ts'
import type { ListedToolCall } from '../../store/listed.ts'
import type { Store } from '../../store/store.ts'
import { RequestRefusedError } from '../errors.ts'

/** Codes of refusals that mean that the call no longer waits. */
const TOO_LATE: ReadonlySet<string> = new Set(['not_waiting', 'call_not_found', 'approval_expired', 'not_unknown', 'call_has_ended'])

/** Sends a decision about a call; a refusal because it is too late says how the call ended. */
export async function orItsFate<R>(store: Store | undefined, sessionId: string, callId: string, decide: () => Promise<R>): Promise<R> {
  try {
    return await decide()
  } catch (error) {
    if (!(error instanceof RequestRefusedError) || !TOO_LATE.has(error.code)) throw error
    const call = await callOf(store, sessionId, callId)
    const fate = call && fateOf(call)
    throw fate ? new RequestRefusedError(error.code, `${error.message} ${fate}`, { cause: error.cause }) : error
  }
}

/** The stored call; undefined if the store cannot say. */
async function callOf(store: Store | undefined, sessionId: string, callId: string): Promise<ListedToolCall | undefined> {
  const run = Number(callId.split('_')[1])
  if (!store || !Number.isSafeInteger(run) || run < 1 || run >= 2 ** 31) return undefined
  const calls = await store.lists.toolCallsOf(sessionId, { run }).catch(() => [])
  return calls.find((call) => call.callId === callId)
}

/** Its decision and its end; undefined if neither is stored. */
function fateOf({ callId, approval, status, error, resolvedBy, completedAt }: ListedToolCall): string | undefined {
  const by = resolvedBy === null || resolvedBy === 'person' ? '' : ` by ${resolvedBy}`
  const parts = [
    decisionIn(approval),
    completedAt && ENDED.has(status) && `${endOf(status, by)} at ${timeOf(completedAt)}${error ? ` (${error.code})` : ''}`,
  ]
  const told = parts.filter(Boolean).join(', and ')
  return told === '' ? undefined : `${callId} ${told}.`
}

const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'denied', 'replayed', 'skipped'])

function endOf(status: string, by: string): string {
  if (status === 'completed' || status === 'replayed') return `completed${by}`
  return status === 'failed' ? `failed${by}` : `ended${by} without being executed`
}

function decisionIn(approval: Json): string | undefined {
  if (!isObject(approval)) return undefined
  const { decision, decidedAt, decidedBy } = approval
  if (typeof decision !== 'string' || typeof decidedAt !== 'string') return undefined
  const by = typeof decidedBy === 'string' ? ` by ${decidedBy}` : ''
  const at = timeOf(new Date(decidedAt))
  if (decision === 'expired') return `expired at ${at}, before it was approved or denied`
  return decision === 'approved' || decision === 'denied' ? `was ${decision}${by} at ${at}` : undefined
}

const timeOf = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`
