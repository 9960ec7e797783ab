// What the log knows about a session besides an event itself, because the log has no session state.
import type { Usage } from './content.ts'
import { defined } from './defined.ts'
import type { SessionState } from './state.ts'

/** The session just before an event. */
export interface Background {
  agent?: string
  /** The run in progress, or the one that failed. */
  run?: number
  turn?: number
  startedAt?: number
  usage?: Usage
}

/** The background of the next event; empty before the first one. */
export function backgroundOf(state: SessionState | undefined): Background {
  if (!state) return {}
  const { agent, current } = state
  if (!current) return { agent }
  const { run, turn, startedAt, usage } = current
  return { agent, ...defined({ run, turn, startedAt, usage }) }
}
