// The output option of an agent: the definition of the tool with which the model submits a run's output.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { OUTPUT_TOOL } from '../session/built-in-tools/output.ts'
import type { ToolDefinition } from './model.ts'
import { inputSchemaOf } from './schema.ts'

/** The output option, completed. */
export interface OutputPolicy {
  /** Schema of the output. */
  readonly schema: StandardSchemaV1
  /** The output tool as the model receives it. */
  readonly definition: ToolDefinition
}

const DESCRIPTION =
  'Gives the final result and finishes the task. When the task is done, and you have the results of all other calls, call this tool alone: ' +
  'its arguments are the result. An answer without this call does not finish the task. If the arguments are not accepted, correct them and call it again.'

/** The policy for a schema. @throws DeclarationError `no_json_schema`. */
export function outputPolicy(agent: string, schema: StandardSchemaV1): OutputPolicy {
  const { inputSchema } = inputSchemaOf(schema, `The output of agent "${agent}"`)
  return { schema, definition: { name: OUTPUT_TOOL, description: DESCRIPTION, input_schema: inputSchema } }
}
