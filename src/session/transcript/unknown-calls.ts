// The intents of the calls whose outcome is unknown: all of them, because a state has room for the newest ones only. A call with the same
// intent must not be executed.
import type { Resolution } from '../call-facts.ts'
import { defined } from '../defined.ts'
import type { SessionEvent } from '../events.ts'
import { callIdOf } from '../ids.ts'
import { madeAgain } from '../past/call-status.ts'

/** What makes two calls the same intent: a key, or the digest of the tool and its arguments. */
export type CallIntent = Pick<Resolution, 'key' | 'firstKey' | 'inputDigest' | 'ownDigest'>

export interface UnknownCalls {
  /** The `external` calls of the newest answer, by call. */
  open: Map<string, CallIntent>
  /** The calls whose outcome is unknown, oldest first. */
  unknown: Map<string, CallIntent>
}

export function noUnknownCalls(): UnknownCalls {
  return { open: new Map(), unknown: new Map() }
}

/** Notes what the event says about such calls, in place. */
export function noteUnknown({ open, unknown }: UnknownCalls, event: SessionEvent): void {
  const resolve = (callId: string, resolution: Resolution): void => {
    if (resolution.effect === 'external') open.set(callId, intentOf(resolution))
    else open.delete(callId)
  }
  switch (event.type) {
    case 'model_completed':
      open.clear()
      for (const resolution of event.calls) resolve(callIdOf(event.run, event.turn, resolution.index), resolution)
      return
    case 'tool_issued':
    case 'approval_decided':
      if (event.resolution) resolve(event.callId, event.resolution)
      return
    case 'tool_unknown': {
      const intent = event.again === undefined ? open.get(event.callId) : undefined
      if (intent) unknown.set(event.callId, intent)
      return
    }
    case 'tool_resolved':
      if (event.decision !== 'skip') unknown.delete(event.callId)
      return
    case 'recovery_started':
      for (const callId of madeAgain(event).keys()) unknown.delete(callId)
      return
    default:
  }
}

/** The unknown call with the same intent. */
export function sameIntentIn(unknown: ReadonlyMap<string, CallIntent>, call: CallIntent): string | undefined {
  const keys = keysOf(call)
  const digests = digestsOf(call)
  for (const [callId, one] of unknown)
    if (keysOf(one).some((key) => keys.includes(key)) || digestsOf(one).some((digest) => digests.includes(digest))) return callId
  return undefined
}

function intentOf({ key, firstKey, inputDigest, ownDigest }: Resolution): CallIntent {
  return { inputDigest, ...defined({ key, firstKey, ownDigest }) }
}

const keysOf = ({ key, firstKey }: CallIntent): string[] => [key, firstKey].filter((one) => one !== undefined)
const digestsOf = ({ inputDigest, ownDigest = inputDigest }: CallIntent): string[] => [inputDigest, ownDigest]
