// A quick call with an effect that runs as part of the model call that requests it. Before its body is entered, the server has the model's
// answer and the call (`RidingEffect`): if the attempt is lost, the session continues from them as after any lost call.
import type { CallModelResult, Ride } from '../../calls/activities.ts'
import type { Agent } from '../../agent/agent.ts'
import type { Tool } from '../../agent/tool.ts'
import type { RidingEffect } from '../../session/attempts.ts'
import type { Resolution } from '../../session/call-facts.ts'
import { admit } from '../../session/decide.ts'
import { callIdOf } from '../../session/ids.ts'
import { jsonBytes } from '../../session/json.ts'
import type { SessionState } from '../../session/state.ts'
import type { JobNeeds } from '../needs.ts'
import { makeAttempt } from '../tool-call/execute-tool.ts'
import { inputOf, mayBePart, type RiddenCall, type RideRequest } from './riding-reads.ts'

/** Maximum bytes of JSON of the answer: each heartbeat carries it. */
const ANSWER_BYTES = 32_000

/** Whether an answer's only call has an effect and may run as part of the model call. The workflow would execute it, too. */
export function mayRideWithEffect(
  { agent, calls, state }: { agent: Pick<Agent, 'name' | 'tools' | 'slices'>; calls: readonly Resolution[]; state: SessionState },
  needs: Pick<JobNeeds, 'quickTools'>,
  heldBack: readonly string[] = [],
): boolean {
  const [resolution, ...others] = calls
  if (!resolution || others.length > 0 || resolution.effect === 'read' || !mayBePart(agent, resolution, needs, heldBack)) return false
  return admit(state, { resolution }).as === 'execute'
}

/** Makes the call. Returns nothing if its body was not entered; the call is then an activity. `answered`: the result of the model call. */
export async function rideWithEffect(needs: JobNeeds, call: RideRequest, ridden: RiddenCall, answered: CallModelResult): Promise<Ride[]> {
  const { agent, job, input } = ridden
  const { run, turn } = input
  const { index, tool: name, effect, generation } = call.resolution
  const tool = agent.tools.get(name)
  // A raise that comes meanwhile needs the facts about the agent, which the session learns from the result.
  const isFirst = 'facts' in answered && answered.facts !== undefined
  if (!tool || job.link.signal.aborted || isFirst || jsonBytes(answered) > ANSWER_BYTES) return []
  const riding: RidingEffect = { run, turn, callId: callIdOf(run, turn, index, generation), index, answered }
  if (effect === 'external') riding.once = true
  try {
    await job.link.ride(riding)
  } catch (err) {
    needs.logger.debug({ session: job.sessionId, call: riding.callId, err }, 'a call could not be part of the model call')
    return []
  }
  return [{ index, ...(await attemptOf(needs, tool, call, ridden)) }]
}

function attemptOf(needs: JobNeeds, tool: Tool, call: RideRequest, ridden: RiddenCall) {
  const { job, view } = ridden
  const attempt = { number: 1, failed: [], failures: 0 }
  // The server knows that the body is about to be entered.
  const ofCall = { ...job, attempt, link: { ...job.link, begin: async () => undefined }, slices: view.slices }
  const input = inputOf(call, ridden)
  return needs.inToolSpan(ofCall, input, () => makeAttempt(needs, tool, input, ofCall))
}
