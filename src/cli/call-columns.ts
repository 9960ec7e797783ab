// The columns of tool calls, for `pawl tools` and `pawl show`.
import type { ListedToolCall } from '../client/index.ts'
import { effectText } from '../session/built-in-tools/reserved.ts'
import type { Column } from './table.ts'

export const CALL_COLUMNS: Column<ListedToolCall>[] = [
  { name: 'issued', of: (row) => row.issuedAt },
  { name: 'session', of: (row) => row.sessionId, whole: true },
  { name: 'call', of: (row) => row.callId, whole: true },
  { name: 'tool', of: (row) => row.tool },
  { name: 'effect', of: effectText, optional: true },
  { name: 'status', of: (row) => row.status, status: true },
  { name: 'attempt', of: (row) => row.attempt, right: true, optional: true },
  { name: 'effect id', of: (row) => row.effectId, optional: true },
  { name: 'arguments, outcome', of: (row) => `${argumentsOf(row)}${outcomeOf(row)}` },
]

/** The arguments, and the model's own if a hook or a person has changed them. */
export function argumentsOf({ input, modelInput }: Pick<ListedToolCall, 'input' | 'modelInput'>): string {
  const own = modelInput === null ? '' : ` (the model's own: ${JSON.stringify(modelInput)})`
  return `${JSON.stringify(input)}${own}`
}

function outcomeOf({ error, result, status }: ListedToolCall): string {
  if (error) return ` ✗ ${error.code}: ${error.message}`
  return status === 'completed' ? ` ← ${JSON.stringify(result)}` : ''
}
