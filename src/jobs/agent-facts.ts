// The facts that a session learns about its agent.
import type { Agent } from '../agent/agent.ts'
import { defined } from '../session/defined.ts'
import { shortHash } from '../session/digest.ts'
import type { AgentFacts, SessionLimits } from '../session/agent-facts.ts'
import type { HookEvent } from '../session/hooks/hooks.ts'

/** Hooks that run once a turn is over, as part of the next model call if there is one. */
const AFTER_TURNS: readonly HookEvent[] = ['turnEnd', 'postToolUse', 'postToolUseFailure']

/** The agent as this process declares it. */
export function factsOf({ limits, sessionLimits, checkpoint, recovery, plan, memory, hooks }: Agent): AgentFacts {
  const ofSessions = boundsOf(sessionLimits)
  const facts = {
    limits: { maxTurns: limits.maxTurns, ...boundsOf(limits) },
    ...(Object.keys(ofSessions).length > 0 && { sessionLimits: ofSessions }),
    checkpoint,
    recovery,
    ...(plan && { plan: true as const }),
    ...(memory.length > 0 && { memory }),
    ...(hooks.some(({ on }) => AFTER_TURNS.includes(on)) && { endHooks: true as const }),
  }
  return { digest: shortHash(JSON.stringify(facts)), ...facts }
}

/** In a fixed order, because the digest is computed over the text. */
function boundsOf({ deadlineMs, maxTotalTokens, maxUsd }: Agent['sessionLimits']): SessionLimits {
  return defined({ deadlineMs, maxTotalTokens, maxUsd })
}
