// What a session is told of its agent.
import type { Agent } from '../agent/agent.ts'
import { defined } from '../session/defined.ts'
import { shortHash } from '../session/digest.ts'
import type { AgentFacts } from '../session/events.ts'
import type { HookEvent } from '../session/hooks.ts'

/** Hooks that see a turn once it is over; the next model call runs them, if there is one. */
const AFTER_TURNS: readonly HookEvent[] = ['turnEnd', 'postToolUse', 'postToolUseFailure']

/** The agent as this process declares it. */
export function factsOf({ limits: { maxTurns, deadlineMs }, sessionLimits, checkpoint, recovery, plan, memory, hooks }: Agent): AgentFacts {
  const ofSessions = sessionLimits.deadlineMs === undefined ? {} : { sessionLimits: { deadlineMs: sessionLimits.deadlineMs } }
  const facts = {
    limits: { maxTurns, ...defined({ deadlineMs }) },
    ...ofSessions,
    checkpoint,
    recovery,
    ...(plan && { plan: true as const }),
    ...(memory.length > 0 && { memory }),
    ...(hooks.some(({ on }) => AFTER_TURNS.includes(on)) && { endHooks: true as const }),
  }
  return { digest: shortHash(JSON.stringify(facts)), ...facts }
}
