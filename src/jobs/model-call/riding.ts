// Riding calls: quick calls that run as part of the model call that requests them, so that the turn needs no activity for them. They are
// several reads, or one call with an effect. Before the body of such a call is entered, the server has the model's answer and the call
// (`RidingEffect`): if the attempt is lost, the session continues from them as after any lost call.
import type { CallModelInput, ExecuteToolInput, ExecuteToolResult, Ride, CallModelResult } from '../../calls/activities.ts'
import type { Agent } from '../../agent/agent.ts'
import type { Tool } from '../../agent/tool.ts'
import { followsLoss, leftModelCall, noAttempts, type RidingEffect } from '../../session/attempts.ts'
import type { Resolution, ResolvedCall } from '../../session/call-facts.ts'
import { MAX_PARALLEL_READS, admit, toolCallInput } from '../../session/decide.ts'
import { defined } from '../../session/defined.ts'
import type { EventType } from '../../session/events.ts'
import { jsonBytes } from '../../session/json.ts'
import { numberText } from '../../session/number-text.ts'
import type { Job, JobNeeds } from '../needs.ts'
import type { FoldedSession } from '../session-views.ts'
import { afterUnblocked } from '../unblocked.ts'
import { makeAttempt } from '../tool-call/execute-tool.ts'
import { callIdOf } from '../../session/ids.ts'
import type { SessionState } from '../../session/state.ts'

/** How long a model call waits for its reads. */
const RIDE_MS = 1_000
/** How long it waits after an interrupt, in case a body is about to end. */
const INTERRUPTED_MS = 50
/** Maximum bytes of JSON of all results together. */
const RIDES_BYTES = 512_000

/** Whether all the calls may ride: they are reads of tools that have proved to be quick. */
export function mayRide(
  agent: Pick<Agent, 'name' | 'tools' | 'slices'>,
  calls: readonly Resolution[],
  { quickTools }: Pick<JobNeeds, 'quickTools'>,
  heldBack: readonly string[] = [],
): boolean {
  if (calls.length === 0 || calls.length > MAX_PARALLEL_READS) return false
  return calls.every((call) => call.effect === 'read' && mayBePart(agent, call, { quickTools }, heldBack))
}

/** Whether the call, by itself, may be part of the model call that requests it. */
function mayBePart(
  { name: agent, tools, slices }: Pick<Agent, 'name' | 'tools' | 'slices'>,
  { tool: name, invalid, approval, client, builtIn }: Resolution,
  { quickTools }: Pick<JobNeeds, 'quickTools'>,
  heldBack: readonly string[],
): boolean {
  const tool = tools.get(name)
  if (!tool?.execute || tool.quick === false || tool.limits || heldBack.includes(name)) return false
  return !(invalid || approval || client || builtIn) && quickTools.isQuick(agent, name) && slices.every(isSettled)
}

/** No event of these types comes between the request of a model and that of its calls. */
const SETTLED: ReadonlySet<EventType> = new Set(['run_started', 'turn_started', 'tool_completed', 'tool_failed', 'run_completed'])

/** Whether a call sees the same value of the slice before its request is recorded. */
function isSettled({ on }: Agent['slices'][number]): boolean {
  return Object.keys(on).every((type) => SETTLED.has(type as EventType))
}

/**
 * Whether the model call of this job may have reads: its workflow accepts them, no attempt before it was lost, and the store cannot turn out
 * to have another past of the session.
 */
export function takesRides(job: Job, { rides, isNew, prior = noAttempts() }: CallModelInput): boolean {
  return rides === true && !isNew && !job.answer && !job.link.signal.aborted && !followsLoss(prior, job.attempt.failed)
}

/** The model call that its calls run as part of. */
export interface HostCall {
  agent: Agent
  job: Job
  input: CallModelInput
  view: FoldedSession
}

/**
 * Runs the reads. If one does not end in time, or its result does not fit into `room` bytes, another attempt follows. Never rejects.
 */
export async function rideReads(needs: JobNeeds, calls: readonly ResolvedCall[], host: HostCall, room: number): Promise<Ride[]> {
  const { agent, job, view } = host
  const limit = startLimit(needs, job.link.signal)
  const attempt = { number: 1, failed: [], failures: 0 }
  const ofCall = { ...job, attempt, link: { ...job.link, ...REPORTS_NOTHING, signal: limit.signal }, slices: view.slices }

  async function ride(call: ResolvedCall): Promise<Ride[]> {
    const { index, tool: name } = call.resolution
    const input = inputOf(call, host)
    try {
      const made = await needs.inToolSpan(ofCall, input, () =>
        makeAttempt(needs, agent.tools.get(name) as Tool, input, ofCall, limit.early),
      )
      if (limit.isOver()) needs.quickTools.wasSlow(agent.name, name)
      return [{ index, ...made }]
    } catch (err) {
      // The answer must not be lost. The call becomes an activity, which fails as it would have here.
      needs.logger.debug({ session: job.sessionId, tool: name, err }, 'a read could not be part of the model call')
      return []
    }
  }

  try {
    return fitting(needs, (await Promise.all(calls.map(ride))).flat(), Math.min(RIDES_BYTES, room))
  } finally {
    limit.end()
  }
}

/** The job's own link belongs to the model call. The calls' reports are in their results. */
const REPORTS_NOTHING = { entered: () => undefined, progress: () => undefined, begin: async () => undefined }

/** How long a model call waits for its reads. */
export interface RideLimit {
  /** Aborts at the limit, and with the model call. */
  signal: AbortSignal
  /** The outcome of the calls that have not ended by the limit. */
  early: Promise<ExecuteToolResult>
  /** Whether the limit has been reached. */
  isOver(): boolean
  end(): void
}

/** Starts the wait. `stopped` aborts with the model call, whose interrupt ends the wait soon. */
export function startLimit({ worker }: Pick<JobNeeds, 'worker'>, stopped: AbortSignal): RideLimit {
  const late = new AbortController()
  let resolve: (outcome: ExecuteToolResult) => void = () => undefined
  const early = new Promise<ExecuteToolResult>((settle) => {
    resolve = settle
  })
  const endLimit = afterUnblocked(RIDE_MS, () => {
    resolve(leftBehind(worker, `It took longer than ${numberText(RIDE_MS)} ms as part of the model call.`))
    late.abort()
  })
  let interrupting: NodeJS.Timeout | undefined
  const stop = (): void => {
    interrupting = setTimeout(() => resolve({ kind: 'interrupted', attempt: 1, begun: true }), INTERRUPTED_MS)
  }
  if (stopped.aborted) stop()
  else stopped.addEventListener('abort', stop, { once: true })
  return {
    signal: AbortSignal.any([late.signal, stopped]),
    early,
    isOver: () => late.signal.aborted,
    end() {
      endLimit()
      clearTimeout(interrupting)
      stopped.removeEventListener('abort', stop)
    },
  }
}

/** The input that an activity of the call would have. */
function inputOf({ resolution, input: args }: ResolvedCall, { job, input, view }: HostCall): ExecuteToolInput {
  const { state, transcript } = view
  const { run, stretch, trace, turn, epoch, watermark, origin } = input
  const inRun = { run, intent: state.current?.intent ?? run, stretch, trace, metadata: transcript.newestRun.metadata }
  return {
    ...toolCallInput(state, inRun, { turn, input: args, resolution }),
    epoch,
    watermark,
    executionId: job.executionId,
    ...defined({ origin }),
  }
}

/** Leaves out results that do not fit, but not their costs. Their next attempts report the events again. */
function fitting(needs: JobNeeds, rides: readonly Ride[], room: number): Ride[] {
  let bytes = 0
  return rides.map((ride) => {
    const size = jsonBytes(ride)
    bytes += size
    if (bytes <= room) return ride
    bytes -= size
    const { spent } = ride.result
    const why = 'Its result is too large to be part of the model call.'
    return { ...ride, result: { ...leftBehind(needs.worker, why), ...defined({ spent }) } }
  })
}

const leftBehind = (worker: string, why: string): ExecuteToolResult => ({
  kind: 'again',
  attempt: 1,
  afterMs: 0,
  failed: [leftModelCall(why, worker)],
})

/** Maximum bytes of JSON of the answer: each heartbeat carries it. */
const ANSWER_BYTES = 32_000

/** Whether an answer's only call has an effect and may ride. The workflow would execute it, too. */
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
export async function rideWithEffect(needs: JobNeeds, call: ResolvedCall, host: HostCall, answered: CallModelResult): Promise<Ride[]> {
  const { agent, job, input } = host
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
  return [{ index, ...(await attemptOf(needs, tool, call, host)) }]
}

function attemptOf(needs: JobNeeds, tool: Tool, call: ResolvedCall, host: HostCall) {
  const { job, view } = host
  const attempt = { number: 1, failed: [], failures: 0 }
  // The server knows that the body is about to be entered.
  const ofCall = { ...job, attempt, link: { ...job.link, begin: async () => undefined }, slices: view.slices }
  const input = inputOf(call, host)
  return needs.inToolSpan(ofCall, input, () => makeAttempt(needs, tool, input, ofCall))
}
