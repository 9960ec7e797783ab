// Whether what a tool gave fits its `output` schema, and what the model is told of an effect whose result does not.
import { z } from 'zod'
import type { Tool, ToolContext } from '../agent/tool.ts'
import type { ResultContent } from '../session/events.ts'
import { resultText } from '../session/transcript.ts'
import { plainJson } from './json.ts'

/** A schema with a question of its own (an async refinement) must not hold up a call that is over. */
const CHECK_MS = 3_000
const MAX_PROBLEM = 4_000

/** What is wrong with a result, for the model to read; undefined if nothing is, or the tool has no `output`. The result is not changed. */
export async function outputProblem({ output }: Tool, result: unknown): Promise<string | undefined> {
  if (!output) return undefined
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the schema did not answer within ${CHECK_MS} ms`)), CHECK_MS)
  })
  try {
    const parsed = await Promise.race([output.safeParseAsync(result), late])
    return parsed.success ? undefined : z.prettifyError(parsed.error).slice(0, MAX_PROBLEM)
  } catch (error) {
    return `It could not be checked: ${error instanceof Error ? error.message : String(error)}`.slice(0, MAX_PROBLEM)
  } finally {
    clearTimeout(timer)
  }
}

/** The tool, which tells the model besides that its effect completed and in what its result does not fit. */
export function tellingOf(tool: Tool, problem: string): Tool {
  const note = `The call completed, but its result does not fit the tool's output schema. ${problem}`
  return {
    ...tool,
    toModel(result, ctx) {
      const shown = shownOf(tool, result, ctx)
      if (shown === undefined) return note
      return typeof shown === 'string' ? `${note}\nThe result:\n${shown}` : [{ type: 'text', text: note }, ...shown]
    },
  }
}

/** What the model would be shown of it; a `toModel` is written for results that fit. */
function shownOf({ toModel }: Tool, result: unknown, ctx: ToolContext): ResultContent | undefined {
  try {
    return resultText(plainJson(toModel ? toModel(result, ctx) : result))
  } catch {
    return undefined
  }
}
