// Calls of agents that work in the background: which answers a session still expects.
import { defined } from '../defined.ts'
import type { EventOf, SessionEvent } from '../events.ts'
import type { CallState, RunState, SessionState } from '../state.ts'
import type { BackgroundCall } from './agent-call-facts.ts'

/** Notes that the call completes while its session works. In place. */
export function startBackground(state: SessionState, { run, turn, intent }: RunState, { callId, asked, resolution }: CallState): void {
  const { child } = asked ?? {}
  if (!child?.background || resolution.key === undefined) return
  const { seq, session, agent, budget } = child
  const { key, tool, client } = resolution
  const call = { callId, key, run, turn, intent, tool, seq, agent, ...defined({ budget, taskQueue: client?.agent?.taskQueue }) }
  state.background = { ...state.background, [session]: call }
}

/** Notes what an event means for the answers that are expected. In place. */
export function noteBackground(state: SessionState, event: SessionEvent): void {
  if (!state.background) return
  switch (event.type) {
    case 'message_received':
      if (event.answers) keep(state, (_, session) => session !== event.answers?.session)
      break
    case 'run_interrupted':
      keep(state, ({ run }) => run !== event.run)
      break
    case 'recovery_started':
      if (event.strategy === 'abandon') keep(state, ({ run }) => run !== event.run)
      break
    case 'rolled_back':
      keep(state, (call) => call.seq <= event.toSeq || isMadeAgain(event, state, call))
      break
    case 'allowance_raised':
      keep(state, (call) => {
        if (call.callId === event.callId) Object.assign(call, { budget: event.budget })
        return true
      })
      break
    case 'forked':
      delete state.background
      break
    default:
  }
}

/** Whether the run that made the call is answered again, or continues: its equal call gets the same session. */
function isMadeAgain({ again, keepsRun }: EventOf<'rolled_back'>, { current }: SessionState, { intent }: BackgroundCall): boolean {
  return again?.intent === intent || (keepsRun === true && current?.intent === intent)
}

function keep(state: SessionState, isKept: (call: BackgroundCall, session: string) => boolean): void {
  const entries = Object.entries(state.background ?? {}).map(([session, call]) => [session, { ...call }] as const)
  const kept = entries.filter(([session, call]) => isKept(call, session))
  if (kept.length > 0) state.background = Object.fromEntries(kept)
  else delete state.background
}
