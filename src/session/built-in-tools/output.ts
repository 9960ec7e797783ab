// The output of a run: what the model must submit to finish, how often pawl returns an answer without it, and what ends the run.
import type { EventOf } from '../events.ts'
import type { RunState, SessionState } from '../state.ts'

/** pawl's own tool with which the model submits a run's output. */
export const OUTPUT_TOOL = 'submit_output'

/** How often an answer without a valid output is returned to the model; the next one ends the run. */
const OUTPUT_RETRIES = 3

/** Maximum bytes of JSON of an output. */
export const OUTPUT_BYTES = 250_000

/** What the model is told about an output that matches the schema. */
export const OUTPUT_ACCEPTED = 'The output was accepted.'

/** Counts an answer that should have been the run's output but is not. */
export function countBadOutput(run: RunState, { calls, outputProblem, stopReason }: EventOf<'model_completed'>): void {
  const call = calls.find(({ builtIn, invalid }) => builtIn === 'output' && invalid && invalid.code !== 'denied')
  const problem = outputProblem ?? call?.invalid?.message
  if (problem === undefined) return
  const { count } = run.badOutputs ?? { count: 0 }
  // A refused answer is not returned, because the model would not see it.
  run.badOutputs = { count: count + 1, problem, ...(stopReason === 'refusal' && { refused: true }) }
}

/** Why the run cannot have an output; undefined as long as the model may still submit one. */
export function outputFailure({ badOutputs }: RunState): { code: string; reason: string } | undefined {
  if (!badOutputs || (badOutputs.count <= OUTPUT_RETRIES && !badOutputs.refused)) return undefined
  const { count, problem } = badOutputs
  const answers = count === 1 ? 'The answer' : `${count} answers`
  return {
    code: 'invalid_output',
    reason: `${answers} of the model had no output that matches the agent's schema. The last problem: ${problem}`,
  }
}

/** Whether the newest answer is the run's output: a single call of the output tool, whose arguments match. */
export function isOutputCall({ calls }: Pick<RunState, 'calls'>): boolean {
  const [call, ...others] = calls
  return call?.resolution.builtIn === 'output' && call.resolution.invalid === undefined && others.length === 0
}

/** A completed call of the output tool ends the run, unless a hook lets it continue. */
export function acceptOutput({ current: run }: SessionState, { callId }: EventOf<'tool_completed'>): void {
  if (!run || !run.calls.some((call) => call.callId === callId && call.resolution.builtIn === 'output')) return
  delete run.badOutputs
  if (run.continues || run.phase !== 'turn_due') return
  run.phase = 'answered'
  run.outputCall = callId
}
