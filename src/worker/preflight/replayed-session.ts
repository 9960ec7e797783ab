// The state of a session after its replay, from which this build's agents and tools would have to continue. Pure.
import type { LogEntry, SessionEvent } from '../../session/events.ts'
import { fold } from '../../session/fold/fold.ts'
import { hasEnded } from '../../session/past/call-status.ts'
import { lacksCalls, putCallsBack } from '../../session/fold/snapshot.ts'
import type { CallState, SessionState } from '../../session/state.ts'
import type { UnfinishedCall, ReplayedSession } from '../protocol.ts'
import type { RecordedHistory } from './recorded.ts'
import { defined } from '../../session/defined.ts'

/** The session with its open calls; undefined if its agent is not known. */
export function replayedSessionOf(recorded: RecordedHistory, entries: readonly LogEntry[]): ReplayedSession | undefined {
  const state = stateAfter(recorded, entries)
  if (state) return { agent: state.agent, context: state.context, calls: openCallsOf(state) }
  const { agent, context = null } = recorded.start
  return agent === undefined ? undefined : { agent, context, calls: [] }
}

function stateAfter({ opened, calls }: RecordedHistory, entries: readonly LogEntry[]): SessionState | undefined {
  const whole = opened.map((snapshot) => ({ ...snapshot, state: withCalls(snapshot.state, calls) }))
  let state = whole[0]?.state
  let digest = whole[0]?.digest
  for (const entry of entries) {
    // The session was reopened after its workflow was reset.
    if (entry.prev !== digest) state = whole.find((snapshot) => snapshot.digest === entry.prev)?.state ?? state
    state = fold(state, [JSON.parse(entry.json) as SessionEvent])
    digest = entry.digest
  }
  return state
}

/** The state with the calls that it could not hold, if all of them were loaded. */
function withCalls(state: SessionState, loaded: readonly CallState[]): SessionState {
  if (!lacksCalls(state)) return state
  const { calls = [], leftOut = [] } = state.current ?? {}
  const ids = new Set([...calls, ...leftOut].map(({ callId }) => callId))
  const found = new Map(loaded.filter(({ callId }) => ids.has(callId)).map((call) => [call.callId, call]))
  if (found.size === ids.size) putCallsBack(state, [...found.values()])
  return state
}

/**
 * The calls that have not ended, or whose outcome is unknown. Calls that the workflow itself answers need no tool, so they are left out.
 */
export function openCallsOf({ current, unknown }: SessionState): UnfinishedCall[] {
  const open = (current?.calls ?? []).filter((call) => !hasEnded(call) && !call.resolution.invalid && !call.resolution.builtIn)
  const listed = new Set(open.map(({ callId }) => callId))
  return [
    ...open.map(({ callId, status, resolution, input }) => ({ callId, status, resolution, ...defined({ input }) })),
    ...Object.entries(unknown)
      .filter(([callId]) => !listed.has(callId))
      .map(([callId, { resolution, input }]) => ({ callId, status: 'unknown' as const, resolution, ...defined({ input }) })),
  ]
}
