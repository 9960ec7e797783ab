// The digest of a call's arguments, which a decision on the call names.
import type { SessionHandle } from '../client/index.ts'

/** The given digest, otherwise that of the call's current arguments. */
export async function digestOf(session: SessionHandle, callId: string, given: string | undefined): Promise<string> {
  if (given !== undefined) return given
  const { current } = await session.state()
  // Without a digest, the session's refusal says what is wrong with the call.
  return current?.calls.find((call) => call.callId === callId)?.digest ?? ''
}
