// Checks a session's context against its agent's schema.
import type { Agent } from '../agent/agent.ts'
import { check } from '../agent/schema.ts'
import type { Json } from '../session/json.ts'
import { inTimeOrThrow } from '../waiting/in-time.ts'

/** How long asynchronous checks may delay a turn. */
const CHECK_MS = 30_000

/** What is wrong with a context; undefined if it matches or the agent has no schema. Does not change the context. */
export async function contextProblem({ context: schema }: Agent, context: Json | undefined): Promise<string | undefined> {
  if (!schema) return undefined
  try {
    const checked = await inTimeOrThrow(check(schema, context), CHECK_MS)
    return 'problem' in checked ? checked.problem : undefined
  } catch (error) {
    return `It could not be checked: ${error instanceof Error ? error.message : String(error)}`
  }
}
