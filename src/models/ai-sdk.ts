// A language model of the AI SDK as a Model: one streamed call, never retried here (the workflow does that).
import { contextWindowOf } from '../agent/context-windows.ts'
import type { Model, ModelCallContext, ModelRequest, ModelResponse } from '../agent/model.ts'
import { isWebSearch } from '../agent/provider-tool.ts'
import type { ProviderBlock } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import { callErrorOf, isProviderDataRefused, RETRIED } from './ai-sdk-errors.ts'
import { type AiSdkOptions, checkAiSdk } from './ai-sdk-options.ts'
import { hasProviderData, promptOf, toolsOf, withoutProviderData } from './ai-sdk-prompt.ts'
import { assembleParts } from './ai-sdk-stream.ts'
import type { LanguageModel, LanguageModelCall, LanguageModelSettings } from './ai-sdk-types.ts'
import { answerCut, answerTimedOut, type CallPhase } from './call-errors.ts'
import { imagesOf } from './image-limits.ts'
import { endsInUnthoughtCalls } from './sound-messages.ts'
import { guardSilence, type SilenceGuard } from './silence.ts'

/** How long the connection may stay open once the answer is complete. */
const CLOSING_MS = 2000

/**
 * A language model of AI SDK 6 or 7, from any provider, as a Model. The AI SDK is not a dependency of pawl: install the provider's
 * package, such as `@ai-sdk/openai`.
 *
 * `generate` throws a `ModelError` whose `code` is the same for all providers (`rate_limit_error`, `context_overflow`, `stream_cut`, …,
 * listed in docs/models.md); if the signal aborts, it throws the signal's reason. Arguments of a call that are not JSON are returned as
 * text.
 * @throws DeclarationError `invalid_model`.
 */
export function aiSdk(model: LanguageModel, options: AiSdkOptions = {}): Model {
  const { timeoutMs } = checkAiSdk(model, options)
  const { modelId, provider } = model
  const { name = modelId, account = modelId, price } = options
  const send = async (request: ModelRequest, ctx: ModelCallContext) =>
    streamedCall(model, await callOf(model, options, request), timeoutMs, ctx, request.providerTools)
  return {
    name,
    provider: options.provider ?? provider,
    account,
    ...(price && { price }),
    ...defined({ contextWindow: options.contextWindow ?? contextWindowOf(modelId) }),
    ...outputOf(model, options),
    runsTool: (tool) => tool.form === 'ai-sdk' && vendorsOf(model).includes(tool.provider),
    async generate(request, ctx) {
      ctx.signal.throwIfAborted()
      try {
        return await send(request, ctx)
      } catch (error) {
        // Otherwise every later call of the session would fail the same way.
        const refused = error instanceof Error && isProviderDataRefused(error.cause)
        if (!refused || !hasProviderData(request.messages)) throw error
        return await send({ ...request, messages: withoutProviderData(request.messages) }, ctx)
      }
    },
  }
}

/** The call of a request: the same request and options always produce the same call. */
async function callOf(model: LanguageModel, options: AiSdkOptions, request: ModelRequest): Promise<LanguageModelCall> {
  const urls = (await model.supportedUrls) ?? {}
  const images = imagesOf(model.provider, options.contextWindow ?? contextWindowOf(model.modelId))
  const dialect = {
    version: model.specificationVersion,
    urls,
    images,
    provider: model.provider,
    continuesAnswers: isAnthropics(model),
    sendsBack: sendsBack(model, options, request),
  }
  const prompt = promptOf(request, dialect)
  const tools = toolsOf(request)
  const isUnthought = isAnthropics(model) && thinkingTokensOf(model, options) > 0 && endsInUnthoughtCalls(prompt)
  const beside = isUnthought ? 0 : thinkingBeside(model, options)
  const maxOutputTokens = request.maxTokens === undefined ? options.maxTokens : request.maxTokens - beside
  return {
    ...(isUnthought ? withoutBudget(model, settingsOf(model, options)) : settingsOf(model, options)),
    prompt: isUnthought ? promptOf({ ...request, messages: withoutProviderData(request.messages) }, dialect) : prompt,
    ...(tools.length > 0 && { tools, toolChoice: { type: 'auto' } }),
    ...defined({ maxOutputTokens }),
  }
}

/**
 * The settings without a thinking budget. After calls in an answer that did not begin with thinking, Anthropic's models accept the results
 * only if the budget is off.
 */
function withoutBudget({ provider }: LanguageModel, settings: LanguageModelSettings): LanguageModelSettings {
  const [owner = ''] = provider.split('.')
  const { providerOptions = {} } = settings
  return { ...settings, providerOptions: { ...providerOptions, [owner]: { ...providerOptions[owner], thinking: { type: 'disabled' } } } }
}

/**
 * Packages of OpenAI (unless the answers are stored there) leave out all results except those of searches. Google's sends calls back as calls
 * of functions, which have no result, unless the API has named them. Notes say more.
 */
function sendsBack(model: LanguageModel, options: AiSdkOptions, { providerTools = [] }: ModelRequest): (block: ProviderBlock) => boolean {
  const { providerOptions = {} } = settingsOf(model, options)
  const stored = Object.values(providerOptions).some(({ store }) => store === true)
  if (/^(?:openai|azure)\.responses$/.test(model.provider) && !stored) {
    const searches = providerTools.filter(isWebSearch).map(({ name }) => name)
    return ({ name }) => searches.includes(name)
  }
  if (!vendorsOf(model).includes('google')) return () => true
  return ({ block }) => /"serverToolCallId":"/.test(JSON.stringify(block?.providerMetadata ?? null))
}

/** The vendors whose tools a model has, as the AI SDK's packages name them: those in the provider's name, and of a gateway, in the model's. */
function vendorsOf({ provider, modelId }: LanguageModel): string[] {
  const named = provider.split(/[.-]/)
  const [ofGateway] = modelId.includes('/') ? modelId.split('/') : []
  return [...named, ...(named.includes('azure') ? ['openai'] : []), ...(ofGateway === undefined ? [] : [ofGateway])]
}

function isAnthropics({ provider }: LanguageModel): boolean {
  return provider.startsWith('anthropic')
}

/** The most tokens that the model may answer with, for budgets. */
function outputOf(model: LanguageModel, options: AiSdkOptions): Pick<Model, 'maxTokens' | 'thinkingTokens'> {
  const { maxTokens } = options
  return {
    ...(maxTokens !== undefined && { maxTokens: maxTokens + thinkingBeside(model, options) }),
    thinkingTokens: thinkingTokensOf(model, options),
  }
}

/** The thinking budget in the settings for the provider. */
function thinkingTokensOf({ provider }: LanguageModel, { settings }: AiSdkOptions): number {
  const [owner = ''] = provider.split('.')
  const { thinking, thinkingConfig } = (settings?.providerOptions?.[owner] ?? {}) as {
    thinking?: { type?: unknown; budgetTokens?: unknown }
    thinkingConfig?: { thinkingBudget?: unknown }
  }
  const budget = thinking?.type === 'enabled' ? thinking.budgetTokens : thinkingConfig?.thinkingBudget
  return typeof budget === 'number' && budget > 0 ? budget : 0
}

/** The AI SDK's package for Anthropic adds the thinking budget to the requested output tokens. */
function thinkingBeside(model: LanguageModel, options: AiSdkOptions): number {
  return isAnthropics(model) ? thinkingTokensOf(model, options) : 0
}

/**
 * OpenAI's Responses API stores answers for a while, and the AI SDK's packages then send references to them. pawl asks for self-contained
 * answers (`store: false`), because a session may resume long after OpenAI has deleted the stored ones.
 */
function settingsOf({ provider }: LanguageModel, { settings = {} }: AiSdkOptions): LanguageModelSettings {
  const [, owner] = /^(openai|azure)\.responses$/.exec(provider) ?? []
  if (owner === undefined) return settings
  const { providerOptions = {} } = settings
  return { ...settings, providerOptions: { ...providerOptions, [owner]: { store: false, ...providerOptions[owner] } } }
}

async function streamedCall(
  model: LanguageModel,
  call: LanguageModelCall,
  timeoutMs: number,
  ctx: ModelCallContext,
  tools?: ModelRequest['providerTools'],
): Promise<ModelResponse> {
  const answer = assembleParts(ctx.onDelta, tools)
  const guard = guardSilence(ctx.signal, timeoutMs)
  let phase: CallPhase = 'request'
  let failure: { error: unknown } | undefined
  try {
    const { stream } = await untilAborted(guard, Promise.resolve(model.doStream({ ...call, abortSignal: guard.signal })))
    phase = 'stream'
    const reader = stream.getReader()
    try {
      // Reads past the finish to the end, because leaving a stream early closes its connection.
      for (;;) {
        const { done, value } = await untilAborted(guard, reader.read())
        if (done) break
        answer.accept(value)
        if (answer.end()?.kind === 'failed') break
        guard.rearm(answer.end() ? CLOSING_MS : timeoutMs)
      }
    } finally {
      reader.cancel().catch(() => undefined)
    }
  } catch (error) {
    failure = { error }
  } finally {
    guard.stop()
  }
  const end = answer.end()
  if (end?.kind === 'complete') return answer.response()
  // Checks this before `failure`, because an aborted stream may end in any way.
  ctx.signal.throwIfAborted()
  if (guard.isSilent()) throw answerTimedOut(model.modelId, timeoutMs, phase, RETRIED)
  if (end?.kind === 'failed') throw callErrorOf(end.error, model.modelId, phase)
  throw failure ? callErrorOf(failure.error, model.modelId, phase) : answerCut(model.modelId, RETRIED)
}

/** Rejects on its own, because providers may ignore the signal. */
function untilAborted<T>({ signal }: SilenceGuard, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(new Error('The call was aborted.'))
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
