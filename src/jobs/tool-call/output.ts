// Checks a tool's result against its `output` schema, and tells the model about an effect whose result does not match.
import { check } from '../../agent/schema.ts'
import type { Tool, ToolContext } from '../../agent/tool.ts'
import type { ResultContent } from '../../session/call-facts.ts'
import { resultText } from '../../session/transcript/results.ts'
import { inTimeOrThrow } from '../../waiting/in-time.ts'
import { plainJson } from '../json.ts'
import { beginningOf } from '../../session/beginning.ts'

/** An async refinement of the schema must not delay a finished call for longer than this. */
const CHECK_MS = 3_000
const MAX_PROBLEM = 4_000

/** What is wrong with a result, for the model; undefined if it matches or the tool has no `output`. Does not change the result. */
export async function outputProblem({ output }: Tool, result: unknown): Promise<string | undefined> {
  if (!output) return undefined
  try {
    const checked = await inTimeOrThrow(check(output, result), CHECK_MS)
    return 'problem' in checked ? beginningOf(checked.problem, MAX_PROBLEM) : undefined
  } catch (error) {
    return beginningOf(`It could not be checked: ${error instanceof Error ? error.message : String(error)}`, MAX_PROBLEM)
  }
}

/** The tool with a `toModel` that also tells the model that the effect completed and how its result fails to match. */
export function withMismatchNote(tool: Tool, problem: string): Tool {
  const note = `The call completed, but its result does not match the tool's output schema. ${problem}`
  return {
    ...tool,
    async toModel(result, ctx, input) {
      const shown = await shownOf(tool, result, ctx, input)
      if (shown === undefined) return note
      return typeof shown === 'string' ? `${note}\nThe result:\n${shown}` : [{ type: 'text', text: note }, ...shown]
    },
  }
}

/** What the model would see of the result. The tool's `toModel` expects results that match the schema. */
async function shownOf({ toModel }: Tool, result: unknown, ctx: ToolContext, input: unknown): Promise<ResultContent | undefined> {
  try {
    return resultText(plainJson(toModel ? await toModel(result, ctx, input) : result))
  } catch {
    return undefined
  }
}
