// One tool call: admitted, executed as its effect allows, verified where nobody knows, and recorded.
import { CancellationScope, sleep } from '@temporalio/workflow'
import type { ExecuteToolResult, RecordedResult, ToolCallInput, VerifyToolResult } from '../activities/contract.ts'
import { admit } from '../session/decide.ts'
import type { Resolution } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import type { CallState, RunState } from '../session/state.ts'
import { interruptedWhile, type Lost, MAX_DEATHS, toolCalls, verifications, whyLost } from './activities.ts'
import { countAttempts } from './attempts.ts'
import type { Journal } from './journal.ts'
import type { Serving } from './serving.ts'

/** Asks of another build before its resolution of the call is taken instead. */
const ASKS_BEFORE_NEW_RESOLUTION = 4
/** Between a tool's timeout and the moment its body can no longer be alive, where no supervisor can confirm the death. */
const DEATH_GRACE_MS = 5_000

const UNKNOWN_TO_MODEL =
  'The outcome of this call is unknown: it may or may not have taken effect. It was not and will not be repeated by itself. ' +
  'Do not ask for it again; tell the user, or check with a read.'

/** Of one turn: what its calls share. */
export interface Turn {
  journal: Journal
  serving: Serving
  run: RunState
}

/** Runs one requested call to its end. */
export async function runToolCall(turn: Turn, call: CallState): Promise<void> {
  const { journal, run } = turn
  const { resolution, callId } = call
  const where = { run: run.run, turn: run.turn, callId, tool: resolution.tool }
  if (call.status === 'requested') {
    const { tool, effect, inputDigest, index, key } = resolution
    journal.append({ type: 'tool_issued', ...where, tool, effect, inputDigest, index, ...(key && { key }), input: call.input ?? null })
  }
  let admission = admit(journal.state, call)
  while (admission.as === 'verify_first') {
    const of = admission.of
    const resolved = await resolveEarlier(turn, of)
    if (!resolved) {
      journal.append({ type: 'tool_unknown', ...where, attempt: 0, message: UNKNOWN_TO_MODEL, again: of })
      return
    }
    if (resolved === 'happened') {
      journal.append({ type: 'tool_completed', ...where, attempt: 0, replayOf: of })
      return
    }
    admission = admit(journal.state, call)
  }
  switch (admission.as) {
    case 'invalid':
      journal.append({ type: 'tool_failed', ...where, attempt: 0, code: admission.code, message: admission.message })
      return
    case 'replay':
      journal.append({ type: 'tool_completed', ...where, attempt: 0, replayOf: admission.of })
      return
    case 'execute':
      await execute(turn, call, where)
  }
}

/** A call's place, as its events carry it. */
interface Where {
  run: number
  turn: number
  callId: string
  tool: string
}

/** A call with what its activities need. */
interface Call extends Where {
  input: Json
  resolution: Resolution
}

async function execute(turn: Turn, requested: CallState, where: Where): Promise<void> {
  const { journal, serving } = turn
  let call: Call = { ...where, input: requested.input ?? null, resolution: requested.resolution }
  const attempts = countAttempts((error) => journal.append({ type: 'tool_attempt_failed', ...where, error }))
  let asks = 0
  const fail = (code: string, message: string): void =>
    journal.append({ type: 'tool_failed', ...where, attempt: attempts.used.attempts, code, message })
  /** No attempt is going on; an earlier one of an idempotent call may have done its work before it failed. */
  const failInterrupted = (): void => fail('interrupted', attempts.used.attempts > 0 && call.resolution.effect === 'idempotent' ? INTERRUPTED_BEGUN : INTERRUPTED)

  for (;;) {
    const { resolution } = call
    const startedAt = Date.now()
    let result: ExecuteToolResult
    try {
      const events = { epoch: journal.state.epoch, watermark: journal.watermark() }
      const input = { ...inputOf(turn, call), ...events, ...(attempts.used.attempts > 0 && { prior: attempts.used }) }
      result = await toolCalls(resolution, asks === 0 ? 'first' : 'again').executeTool(input)
    } catch (error) {
      const lost = whyLost(error)
      if (lost.how === 'cancelled') return failInterrupted()
      if (lost.how === 'not_begun') {
        asks += 1
        if (await interruptedWhile(serving.notServed(`the tool "${where.tool}"`))) return failInterrupted()
        continue
      }
      const attempt = attempts.lost(lost)
      if (resolution.effect === 'external' && mayHaveBegun(lost)) {
        const settled = await settleUnknown(turn, call, attempt, { lost, startedAt, timeoutMs: resolution.timeoutMs })
        if (settled === 'settled') return
      }
      if (attempts.used.deaths >= MAX_DEATHS) {
        return fail('worker_died', `This call took ${attempts.used.deaths} worker processes with it and was given up.`)
      }
      if (lost.how === 'failed' && attempts.used.failures > resolution.retry.maxRetries) return fail('tool_failed', lost.message)
      continue
    }
    attempts.failed(result.failed)
    switch (result.kind) {
      case 'completed': {
        serving.served()
        const { attempt, startedAt: at, worker } = result
        journal.append({ type: 'tool_completed', ...where, attempt, startedAt: at, worker, ...recorded(result) })
        return
      }
      case 'failed':
        serving.served()
        journal.append({ type: 'tool_failed', ...where, attempt: result.attempt, code: result.code, message: result.message })
        return
      case 'again':
        serving.served()
        if (await interruptedWhile(sleep(result.afterMs))) return failInterrupted()
        continue
      case 'not_begun':
        asks += 1
        if (result.resolution && asks >= ASKS_BEFORE_NEW_RESOLUTION) {
          if (result.resolution.invalid) return fail(result.resolution.invalid.code, result.resolution.invalid.message)
          call = { ...call, resolution: { ...result.resolution, index: resolution.index } }
        }
        if (await interruptedWhile(serving.notServed(`the tool "${where.tool}"`))) return failInterrupted()
        continue
      case 'unknown': {
        const settled = await settleUnknown(turn, call, result.attempt, undefined)
        if (settled === 'settled') return
        // It surely did not happen: the attempt that threw counts as any failed one.
        if (attempts.used.failures > resolution.retry.maxRetries) return fail('tool_failed', result.message)
        if (await interruptedWhile(sleep(resolution.retry.baseDelayMs * 2 ** (attempts.used.failures - 1)))) return failInterrupted()
        continue
      }
      case 'interrupted':
        if (resolution.effect === 'external' && result.begun) {
          const settled = await settleUnknown(turn, call, result.attempt, undefined)
          if (settled === 'settled') return
        }
        return fail('interrupted', result.begun && resolution.effect === 'idempotent' ? INTERRUPTED_BEGUN : INTERRUPTED)
    }
  }
}

const INTERRUPTED = 'The run was interrupted; this call did not take effect.'
const INTERRUPTED_BEGUN = 'The run was interrupted while this call was going on; it may have taken effect.'

/** The first beat says that the body was entered and is confirmed by the server: an attempt lost before it has not begun. */
function mayHaveBegun(lost: Lost & { how: 'died' | 'failed' }): boolean {
  return lost.how === 'failed' || lost.report?.begun === true
}

/** Nobody knows whether the call happened: asks `verify` once the attempt is dead, and records what comes of it. */
async function settleUnknown(
  turn: Turn,
  call: Call,
  attempt: number,
  death: { lost: Lost; startedAt: number; timeoutMs: number } | undefined,
): Promise<'settled' | 'did_not_happen'> {
  const { journal } = turn
  const { run, turn: number, callId, tool } = call
  const where = { run, turn: number, callId, tool }
  // Also an interrupted run records what became of what it had begun.
  return CancellationScope.nonCancellable(async () => {
    if (death && !(death.lost.how === 'died' && death.lost.confirmed)) {
      const dead = death.startedAt + death.timeoutMs + DEATH_GRACE_MS
      if (dead > Date.now()) await sleep(dead - Date.now())
    }
    const verdict = await verify(turn, call, attempt)
    if (verdict.kind === 'not_happened') {
      journal.append({ type: 'tool_resolved', ...where, by: 'verify', happened: false })
      return 'did_not_happen'
    }
    if (verdict.kind === 'happened') {
      journal.append({ type: 'tool_resolved', ...where, by: 'verify', happened: true })
      journal.append({ type: 'tool_completed', ...where, attempt, ...recorded(verdict) })
      return 'settled'
    }
    journal.append({ type: 'tool_unknown', ...where, attempt, message: UNKNOWN_TO_MODEL })
    return 'settled'
  })
}

/** The same intent as an earlier call of unknown outcome: asks `verify` about that one again. */
async function resolveEarlier(turn: Turn, callId: string): Promise<'happened' | 'did_not_happen' | undefined> {
  const { journal } = turn
  const earlier = journal.state.unknown[callId]
  if (!earlier) return 'did_not_happen'
  const where = { run: earlier.run, turn: earlier.turn, callId, tool: earlier.resolution.tool }
  const verdict = await CancellationScope.nonCancellable(() => verify(turn, { ...where, ...earlier }, earlier.attempt))
  if (verdict.kind === 'happened') {
    journal.append({ type: 'tool_resolved', ...where, by: 'verify', happened: true, ...recorded(verdict) })
    return 'happened'
  }
  if (verdict.kind === 'not_happened') {
    journal.append({ type: 'tool_resolved', ...where, by: 'verify', happened: false })
    return 'did_not_happen'
  }
  return undefined
}

async function verify(turn: Turn, call: Call, attempt: number): Promise<VerifyToolResult> {
  if (!call.resolution.verify) return { kind: 'cannot_tell', message: 'The tool has no verify.' }
  let deaths = 0
  for (;;) {
    try {
      const verdict = await verifications(call.resolution).verifyTool({ ...inputOf(turn, call), attempt })
      if (verdict.kind !== 'not_begun') {
        turn.serving.served()
        return verdict
      }
      await turn.serving.notServed(`the tool "${call.tool}"`)
    } catch (error) {
      const lost = whyLost(error)
      // It is a read: a worker that died with it changes nothing, but it must not go on for ever.
      if (lost.how !== 'failed' && ++deaths < MAX_DEATHS) continue
      return { kind: 'cannot_tell', message: lost.how === 'cancelled' ? 'cancelled' : lost.message }
    }
  }
}

function inputOf(turn: Turn, call: Call): ToolCallInput {
  const { agent, context, tags } = turn.journal.state
  const { index, tool, effect, schemaDigest, key } = call.resolution
  return {
    agent,
    run: call.run,
    turn: call.turn,
    input: call.input,
    resolution: { index, tool, effect, schemaDigest, ...(key !== undefined && { key }) },
    context,
    metadata: turn.run.metadata,
    tags,
  }
}

function recorded(result: RecordedResult): RecordedResult {
  const { value, content, effectId } = result
  return {
    ...(value !== undefined && { value }),
    ...(content !== undefined && { content }),
    ...(effectId !== undefined && { effectId }),
  }
}
