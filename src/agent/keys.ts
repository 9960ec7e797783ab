// Idempotency keys and input digests: what makes two tool calls the same intent.
import { callIdOf } from '../session/ids.ts'
import type { Json } from '../session/json.ts'
import { numberText } from '../session/number-text.ts'
import { canonicalJson } from '../session/canonical.ts'
import { sha256Hex } from './sha256.ts'
import type { Tool } from './tool.ts'

/** Digest of the tool and its raw canonical arguments. */
export function inputDigestOf(tool: string, rawInput: Json): string {
  return sha256Hex(`${tool}\n${canonicalJson(rawInput)}`).slice(0, 32)
}

const MAX_KEY = 1_000

/** A tool's own function has returned a key that cannot be used. */
export class InvalidKey extends RangeError {
  override readonly name = 'InvalidKey'
}

/**
 * The idempotency key of a call: by default SHA-256 over session, intent, tool and canonical raw arguments. If the tool has its own key
 * function, it is `<tool>:<key>`, because two tools may derive their keys from the same order id. Undefined for a `read`. A run that
 * repeats the message of another run has that run's intent, so pawl replays effects that the other run completed.
 * @throws InvalidKey if the tool's own function does not return a valid key. The call then has the problem `invalid_idempotency_key`.
 */
export function idempotencyKeyOf(
  tool: Tool,
  call: {
    sessionId: string
    keysOf?: string
    intent: number
    turn: number
    index: number
    rawInput: Json
    input: unknown
  },
): string | undefined {
  if (tool.effect === 'read') return undefined
  const { sessionId, intent, turn, index, rawInput } = call
  const callId = callIdOf(intent, turn, index)
  if (typeof tool.idempotency === 'function') return ownKey(tool.name, tool.idempotency(call.input, { sessionId, run: intent, callId }))
  // A fork that carries its origin's completed keys shares those that count for a whole session; its runs are its own.
  const owner = tool.idempotency === 'session' ? (call.keysOf ?? sessionId) : sessionId
  const scope = { session: [], run: [intent], call: [callId] }[tool.idempotency]
  return sha256Hex(canonicalJson([owner, ...scope, tool.name, rawInput]))
}

/** Tool names contain no colon, so two tools never have the same key. */
function ownKey(tool: string, key: unknown): string {
  return `${tool}:${returnedKey(key, `The idempotency function of tool "${tool}"`, MAX_KEY)}`
}

/** What a tool's own function returned as a key. @throws InvalidKey. */
export function returnedKey(key: unknown, whose: string, max: number): string {
  if (typeof key === 'string' && key !== '' && key.length <= max) return key
  // The promise may reject, and no other code handles that.
  if (key instanceof Promise) key.catch(() => undefined)
  throw new InvalidKey(`${whose} must return a string of 1 to ${numberText(max)} characters; fix the function.`)
}
