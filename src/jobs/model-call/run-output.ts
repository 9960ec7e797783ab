// Checks a model's answer against its agent's `output`: a call of the output tool, or a final answer without one.
import type { Agent } from '../../agent/agent.ts'
import { check } from '../../agent/schema.ts'
import type { StopReason } from '../../session/content.ts'
import type { Resolution } from '../../session/call-facts.ts'
import { type Json, jsonBytes } from '../../session/json.ts'
import { numberText } from '../../session/number-text.ts'
import { OUTPUT_BYTES, OUTPUT_TOOL } from '../../session/built-in-tools/output.ts'
import { inTimeOrThrow } from '../../waiting/in-time.ts'
import { plainJson } from '../json.ts'
import { beginningOf } from '../../session/beginning.ts'

/** How long asynchronous checks may delay the run. */
const CHECK_MS = 30_000

/** What the model is told about an answer that should have been an output. */
const NOT_ALONE = `${OUTPUT_TOOL} finishes the task, so it must be the only call of an answer. Wait for the results of the other calls, then call it again.`
const MISSING = `The task is not finished: call ${OUTPUT_TOOL} with the result.`
const CUT_OFF = `The answer was cut off at the limit of its length. Call ${OUTPUT_TOOL} with a shorter result.`
const REFUSED = 'The model refused to answer.'

interface OutputCall {
  input: Json
  /** A hook has changed the arguments. */
  isChanged: boolean
  /** The answer has no other calls. */
  isAlone: boolean
  /** The answer was cut off in this call. */
  isCut: boolean
}

/** Checks a call of the output tool. Returns the output if it differs from the model's own arguments, or the reason for refusing it. */
export async function resolveOutput(
  { output }: Agent,
  { input, isChanged, isAlone, isCut }: OutputCall,
): Promise<Pick<Resolution, 'output' | 'invalid'>> {
  if (isCut) return invalid(CUT_OFF)
  if (!isAlone) return invalid(NOT_ALONE)
  if (typeof input === 'string') return invalid(`The arguments are not a JSON object: ${beginningOf(input, 500)}`)
  try {
    const checked = output ? await inTimeOrThrow(check(output.schema, input), CHECK_MS) : { value: input }
    if ('problem' in checked) return invalid(`The output does not match its schema.\n${checked.problem}`)
    const value = plainJson(checked.value)
    const bytes = jsonBytes(value)
    if (bytes > OUTPUT_BYTES)
      return invalid(
        `The output has ${numberText(bytes)} bytes of JSON, and the limit is ${numberText(OUTPUT_BYTES)}. Submit a shorter one.`,
      )
    return !isChanged && JSON.stringify(value) === JSON.stringify(input) ? {} : { output: value }
  } catch (error) {
    return invalid(`The output could not be checked: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** The problem with a final answer that lacks the call of the output tool. */
export function outputMissing(stopReason: StopReason): string {
  if (stopReason === 'refusal') return REFUSED
  return stopReason === 'max_tokens' || stopReason === 'model_context_window_exceeded' ? CUT_OFF : MISSING
}

function invalid(message: string): Pick<Resolution, 'invalid'> {
  return { invalid: { code: 'invalid_output', message } }
}
