// Calls of agents: the sessions that answer them, and how many of them may be open.
import { defined } from '../defined.ts'
import { shortHash } from '../digest.ts'
import { isObject, type Json } from '../json.ts'
import { hasEnded } from '../past/call-status.ts'
import type { CallState, SessionState } from '../state.ts'
import type { BackgroundCall, CalledChild, CallingSession } from './agent-call-facts.ts'

/** The most sessions in a line from a root to a child: a root that calls an agent, which calls another one, and so on. */
export const MAX_DEPTH_OF_CALLS = 5

/** How many agent calls of a session may be open at a time; the others wait for their turn. */
export const MAX_OPEN_AGENT_CALLS = 20

/** Hex digits of a child's own part of its id. */
const HASH = 12
/** How many characters a child's id has more than its caller's. */
export const CHILD_PART = HASH + 1

/** The session that answers a call of an agent: the same one for each call with this key. */
export function childIdOf(sessionId: string, key: string): string {
  return `${sessionId}/${shortHash(key).slice(0, HASH)}`
}

/** What distinguishes a child from the other children of its caller. */
export function ownPartOf(child: string): string {
  return child.slice(-HASH)
}

/** The root of the tree that a session with this caller belongs to; undefined if it has none, or one that cannot have called it. */
export function rootIdOf(sessionId: string, caller: Pick<CallingSession, 'sessionId' | 'key' | 'depth'> | undefined): string | undefined {
  if (!caller || caller.depth < 1 || childIdOf(caller.sessionId, caller.key) !== sessionId) return undefined
  const root = sessionId.slice(0, -CHILD_PART * caller.depth)
  return root !== '' && CHILDREN.test(sessionId.slice(root.length)) ? root : undefined
}

const CHILDREN = /^(?:\/[0-9a-f]{12})+$/

/** A call that a child session answers. */
export interface OpenAgentCall extends Omit<BackgroundCall, 'agent' | 'budget'> {
  child: CalledChild
  /** The call itself; absent if it has completed, and its session works in the background. */
  call?: CallState
}

/** Whether another session answers the call. */
export function isAgentCall({ resolution }: Pick<CallState, 'resolution'>): boolean {
  return resolution.client?.agent !== undefined
}

/** The calls that wait for a child session, in the model's order. */
export function openAgentCalls({ current }: Pick<SessionState, 'current'>): OpenAgentCall[] {
  if (!current) return []
  const { run, turn, intent } = current
  return current.calls.flatMap((call) => {
    const { callId, status, asked, resolution } = call
    if (status !== 'awaiting_answer' || !asked?.child || resolution.key === undefined) return []
    const { seq, ...child } = asked.child
    const { taskQueue } = resolution.client?.agent ?? {}
    return [{ callId, key: resolution.key, run, turn, intent, tool: resolution.tool, seq, child, ...defined({ taskQueue }), call }]
  })
}

/** The calls for which a child session is at work: those that wait for it, and those that it answers in the background. */
export function callsAtWork(state: Pick<SessionState, 'current' | 'background'>): OpenAgentCall[] {
  const background = Object.entries(state.background ?? {}).map(([session, { agent, budget, ...call }]): OpenAgentCall => {
    return { ...call, child: { session, agent, background: true, ...defined({ budget }) } }
  })
  return [...openAgentCalls(state), ...background]
}

/** The turn's agent calls that have not ended. */
export function unfinishedAgentCalls(calls: readonly CallState[]): CallState[] {
  return calls.filter((call) => isAgentCall(call) && !hasEnded(call))
}

/** The question that an agent call asks: its text, if it has nothing else, or its arguments as JSON. */
export function questionOf(input: Json): string {
  if (isObject(input) && typeof input.message === 'string' && Object.keys(input).length === 1) return input.message
  return JSON.stringify(input)
}
