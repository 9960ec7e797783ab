// A session's state where it is carried along, loaded or shown: bounded, whatever the session holds. All that grows with what clients,
// models and tools say has its share of the bytes; arguments of open calls that exceed theirs are left out, and read from the events again.
import { jsonBytes } from './json.ts'
import type { SessionSummary } from './protocol.ts'
import type { CallState, LeftOutCall, RunState, SessionState } from './state.ts'
import { cutText } from './texts.ts'

/**
 * Bytes of JSON that a snapshot has at most, and the shares of what can be large in it. `messages`: the session's context and tags, which
 * never change, and the ids of messages in what these leave. What has no share is bounded where it enters, and fits into the rest.
 */
export const SNAPSHOT_BYTES = { total: 256_000, messages: 140_000, calls: 50_000, unknown: 16_000 } as const

/** Calls that one answer of a model may ask for: so many references fit into the share of the calls. */
export const MAX_CALLS = 256

/** As long as the name of a tool may be, with its quotes; what a model asks for may be no tool's name. */
const TOOL_BYTES = 66

/** The state within its bounds: the same one if it is, else one in which some calls are left out. */
export function snapshotOf(state: SessionState): SessionState {
  const { current } = state
  if (!current || jsonBytes(current.calls) <= SNAPSHOT_BYTES.calls) return state
  return { ...state, current: withoutLargeCalls(current) }
}

/** How a session stands, in few words. */
export function summaryOf({ sessionId, agent, status, seq, run, turns, error }: SessionState): SessionSummary {
  return { sessionId, agent, status, seq, run, turns, error }
}

/** Whether calls are missing in the state that its next steps need. */
export function lacksCalls({ current }: SessionState): boolean {
  return current?.leftOut !== undefined && current.phase === 'tools'
}

/** Puts the turn's calls back into a state that lacks some, in place. */
export function putCallsBack({ current }: SessionState, calls: readonly CallState[]): void {
  if (!current) return
  current.calls = [...calls]
  delete current.leftOut
}

/** Every call has room for a reference; as many as fit stay whole, the first ones first. */
function withoutLargeCalls(run: RunState): RunState {
  let left = SNAPSHOT_BYTES.calls - jsonBytes(run.calls.map(referenceTo))
  const calls: CallState[] = []
  const leftOut: LeftOutCall[] = []
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

function referenceTo({ callId, status, resolution: { tool, inputDigest } }: CallState): LeftOutCall {
  return { callId, status, tool: cutText(tool, TOOL_BYTES), inputDigest }
}
