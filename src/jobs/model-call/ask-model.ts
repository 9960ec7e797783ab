// Asks the agent's model, or a fallback for it.
import type { Fallback, AttemptSoFar } from '../../session/attempts.ts'
import type { Agent } from '../../agent/agent.ts'
import type { Model, ModelRequest, ModelResponse } from '../../agent/model.ts'
import { toolsRunBy } from '../../agent/provider-tool.ts'
import type { AgentContext } from '../../agent/tool.ts'
import type { AssistantBlock } from '../../session/content.ts'
import { defined } from '../../session/defined.ts'
import { isEmptyDelta, type ModelDelta, soundDelta } from '../../session/watching/deltas.ts'
import type { Cost } from '../../session/spending/spend.ts'
import type { FailedAttempt } from '../../session/call-facts.ts'
import { copyOf } from '../../session/json.ts'
import { ownContext } from '../agent-context.ts'
import { failedAttempt } from '../attempt.ts'
import { checkResponse, modelName } from './check-response.ts'
import { type BudgetedCall, type CallBudget, NotAfforded, SharedBudgetRefusal, reserveFor } from './call-budget.ts'
import type { ModelAnswer, TimedRequest } from '../../calls/jobs.ts'
import { AttemptLost } from '../../calls/errors.ts'
import type { GateSlot } from '../../calls/reads.ts'
import { type StoredAnswer, readableBy, withProvider } from './provider-blocks.ts'
import { gateOf, noteRefusal, type RateGate, waitAtGate } from './rate-gate.ts'
import { unlessAborted } from '../../waiting/unless-aborted.ts'

/** The model failed, or the function that chooses it did. Another model may answer the same request. */
export class ModelFailure extends Error {
  /** The model's name, if it was called, its provider, and the cost of the call, if the agent has a budget. */
  readonly call: Pick<FailedAttempt, 'model' | 'provider' | 'spent'>

  constructor(cause: unknown, call: ModelFailure['call'] = {}) {
    super('The model failed.', { cause })
    this.call = call
  }
}

/** The provider accepts no calls of this account now. */
export class GateDelay extends Error {
  readonly account: string
  readonly slot: GateSlot

  constructor(account: string, slot: GateSlot) {
    super('The call waits at the gate of its provider.')
    this.account = account
    this.slot = slot
  }
}

/** The parts of an agent that determine which models are asked, and how often. */
export type AsksModel = Pick<Agent, 'name' | 'model' | 'fallback' | 'retry'>

export interface RequestOfAttempt {
  gates: RateGate
  request: ModelRequest
  attempt: Pick<AttemptSoFar, 'number' | 'fallback'>
  ctx: AgentContext
  signal: AbortSignal
  /** Inspects the model before the request. If it throws, that does not count as a failure of the model. */
  check?(model: Model): void
  /** The agent's budget, if it has one: the call is made only if the budget covers it. */
  budget: CallBudget | undefined
  /** Puts the large blocks of a provider into the side store. Default: they stay in the answer. */
  store?(content: AssistantBlock[]): Promise<StoredAnswer>
  /** Receives the pieces of the answer. Default: they are dropped. */
  onDelta?(piece: ModelDelta): void
  /** The model is about to be asked. */
  onBegin(): void
  onEnd(request: TimedRequest): void
}

/** The checked answer of the model to call now. @throws errors that `afterFailure` handles. */
export async function askModel(
  agent: AsksModel,
  { request, attempt, ctx, signal, gates, check, budget, store, onDelta, onBegin, onEnd }: RequestOfAttempt,
): Promise<ModelAnswer> {
  let name: string | undefined
  let provider: string | undefined
  let gate: string | undefined
  let call: BudgetedCall | undefined
  let response: ModelResponse | undefined
  const model = await chosenModel(agent, attempt.fallback, ctx)
  check?.(model)
  try {
    gate = gateOf(model)
    const { wasShut, ...slot } = await waitAtGate(gates, gate, callOf(request), signal)
    if (slot.afterMs > 0) throw new GateDelay(gate, slot)
    name = modelName(model.name) ?? 'unknown'
    provider = modelName(model.provider)
    const reader = provider ?? name
    const readable = requestFor(model, reader, request)
    // If the server is unavailable, the call must not wait past the run's deadline.
    call = budget && (await unlessAborted(signal, reserveFor(model, readable, budget)))
    signal.throwIfAborted()
    call?.sent()
    onBegin()
    const watch = stopwatch({ model: name, ...defined({ provider }) }, signal, onEnd)
    let hasWarned = false
    const heard = (piece: ModelDelta): void => {
      if (response || signal.aborted) return
      const sound = soundDelta(piece)
      if (!sound) {
        // An invalid piece does not fail the call. Only watchers miss it.
        if (hasWarned || isEmptyDelta(piece)) return
        hasWarned = true
        return ctx.log.warn({ agent: agent.name, model: name }, NO_DELTA)
      }
      watch.first()
      call?.onDelta(sound)
      onDelta?.(sound)
    }
    const generate = (): Promise<ModelResponse> =>
      // The request is copied, because its messages are part of the session's cached past and adapters edit their request in place.
      model.generate(copyOf(call?.request ?? readable), { signal, attempt: attempt.number, onDelta: heard })
    response = await watch.time(() => unlessAborted(signal, generate()))
    if (wasShut) gates.accepted(gate)
    const { notes, content, ...answered } = checkResponse(response, model)
    for (const note of notes) ctx.log.warn({ agent: agent.name }, note)
    const own = withProvider(reader, content)
    const stored = store ? await store(own) : { content: own }
    return { ...answered, ...call?.recorded(answered, response), ...defined({ provider }), ...stored }
  } catch (error) {
    if (isBeforeModel(error) || (error instanceof AttemptLost && !call)) throw error
    if (gate !== undefined) noteRefusal(gates, gate, agent.retry, error)
    throw new ModelFailure(error, defined({ model: name, provider, spent: call?.lost(error, response) }))
  }
}

/** What one model gets: what it can read, and the tools that its provider runs. */
function requestFor(model: Model, reader: string, { providerTools = [], ...request }: ModelRequest): ModelRequest {
  const own = toolsRunBy(model, providerTools)
  return { ...request, messages: readableBy(reader, request.messages), ...(own.length > 0 && { providerTools: own }) }
}

const NO_DELTA =
  'watchers do not see what the model says: onDelta was given something other than { type: "text", index, text }, { type: "thinking", index, thinking } or { type: "tool_input", index, partialJson }'

/** Times a request. */
function stopwatch(asked: Pick<TimedRequest, 'model' | 'provider'>, signal: AbortSignal, onEnd: RequestOfAttempt['onEnd']) {
  const begunAt = performance.now()
  let firstMs: number | undefined
  const end = (error?: string): void => onEnd({ ...asked, ms: performance.now() - begunAt, ...defined({ firstMs, error }) })
  return {
    first(): void {
      firstMs ??= performance.now() - begunAt
    },
    async time<T>(request: () => Promise<T>): Promise<T> {
      try {
        const answer = await request()
        end()
        return answer
      } catch (error) {
        const { class: type, code = type } = failedAttempt(0, error, { retryable: false })
        end(signal.aborted ? 'interrupted' : code)
        throw error
      }
    },
  }
}

/** Whether the error means that no model was asked: in that case, neither is a fallback. */
function isBeforeModel(error: unknown): boolean {
  return error instanceof GateDelay || error instanceof NotAfforded || error instanceof SharedBudgetRefusal
}

/** The cost of the call that ended with this error. Undefined: no cost, or not known here. */
export function spentWith(thrown: unknown): Cost | undefined {
  return thrown instanceof ModelFailure ? thrown.call.spent : undefined
}

const callOf = ({ sessionId, run, turn }: ModelRequest): string => `${sessionId} ${run} ${turn}`

/** The model to call now. @throws ModelFailure. */
async function chosenModel(agent: AsksModel, to: Fallback | undefined, ctx: AgentContext): Promise<Model> {
  try {
    return await modelOf(agent, to, ctx)
  } catch (error) {
    throw new ModelFailure(error)
  }
}

/** A deploy may have shortened the list of fallbacks. */
async function modelOf({ model, fallback }: AsksModel, to: Fallback | undefined, ctx: AgentContext): Promise<Model> {
  const choice = to ? (fallback[to.at - 1] ?? fallback.at(-1) ?? model) : model
  const chosen = typeof choice === 'function' ? await choice(ownContext(ctx)) : choice
  if (typeof chosen !== 'string') return chosen
  // Loaded on demand: the SDK behind it takes a tenth of a second to load.
  const { modelOf: named } = await import('../../models/anthropic.ts')
  return named(chosen)
}
