// A session's state for continue-as-new, loading and queries, bounded in size. Everything that clients, models and tools can enlarge has a
// share of the bytes. Arguments of open calls that exceed their share are omitted and read from the events again.
import { jsonBytes } from '../json.ts'
import type { SessionSummary } from '../protocol/protocol.ts'
import type { CallState, RunState, SessionState } from '../state.ts'
import { cutText } from '../protocol/texts.ts'

/**
 * Maximum bytes of JSON of a snapshot, and the shares of its large parts. `messages`: the session's context and tags, which never change,
 * its plan and memory, and message ids in the remaining space. Parts without a share are bounded on entry, and fit into the rest.
 */
export const SNAPSHOT_BYTES = { total: 262_000, messages: 140_000, calls: 50_000, unknown: 16_000 } as const

/** Maximum calls in one answer of a model: references to that many calls fit into their share of a snapshot. */
export const MAX_CALLS = 256

/** Maximum bytes of a tool's name with its quotes; a model may request any name. */
const TOOL_BYTES = 66

/** The state within its bounds: the same object if it fits, otherwise a copy without some calls. */
export function snapshotOf(state: SessionState): SessionState {
  const { current } = state
  if (!current || jsonBytes(current.calls) <= SNAPSHOT_BYTES.calls) return state
  return { ...state, current: withoutLargeCalls(current) }
}

/** A short summary of a session. */
export function summaryOf({ sessionId, agent, status, seq, run, turns, error }: SessionState): SessionSummary {
  return { sessionId, agent, status, seq, run, turns, error }
}

/** Whether the state lacks calls that its next steps need. */
export function lacksCalls({ current }: SessionState): boolean {
  return current?.leftOut !== undefined && current.phase === 'tools'
}

/** Restores the missing calls of the turn, in place. */
export function putCallsBack({ current }: SessionState, calls: readonly CallState[]): void {
  if (!current) return
  current.calls = [...calls]
  delete current.leftOut
}

/** Keeps as many complete calls as fit, in order; there is always room for references to the others. */
function withoutLargeCalls(run: RunState): RunState {
  let left = SNAPSHOT_BYTES.calls - jsonBytes(run.calls.map(referenceTo))
  const calls: CallState[] = []
  const leftOut: NonNullable<RunState['leftOut']> = []
  for (const call of run.calls) {
    const reference = referenceTo(call)
    const more = jsonBytes(call) - jsonBytes(reference)
    if (more <= left) {
      left -= more
      calls.push(call)
    } else {
      leftOut.push(reference)
    }
  }
  return { ...run, calls, leftOut }
}

function referenceTo({ callId, status, resolution: { tool, inputDigest } }: CallState) {
  return { callId, status, tool: cutText(tool, TOOL_BYTES), inputDigest }
}
