// Idempotency keys and input digests: what makes two tool calls the same intent.
import { callIdOf } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import { canonicalJson, sha256Hex } from './canonical.ts'
import type { Tool } from './tool.ts'

/** Digest of the tool and its raw canonical arguments. */
export function inputDigestOf(tool: string, rawInput: Json): string {
  return sha256Hex(`${tool}\n${canonicalJson(rawInput)}`).slice(0, 32)
}

/** The key of a call: by default sha256 over session, run, tool and canonical raw arguments; undefined for a `read`. */
export function idempotencyKeyOf(
  tool: Tool,
  call: { sessionId: string; run: number; turn: number; index: number; rawInput: Json; input: unknown },
): string | undefined {
  if (tool.effect === 'read') return undefined
  const { sessionId, run, turn, index, rawInput } = call
  const callId = callIdOf(run, turn, index)
  if (typeof tool.idempotency === 'function') return tool.idempotency(call.input, { sessionId, run, callId })
  const scope = { session: [], run: [run], call: [callId] }[tool.idempotency]
  return sha256Hex(canonicalJson([sessionId, ...scope, tool.name, rawInput]))
}
