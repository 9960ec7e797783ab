// Claude as a Model: one streamed call of Anthropic's Messages API, never retried here (the workflow does that).
import { createHash } from 'node:crypto'
import Anthropic from '@anthropic-ai/sdk'
import type { MessageCreateParamsStreaming } from '@anthropic-ai/sdk/resources/messages'
import { contextWindowOf } from '../agent/context-windows.ts'
import type { Model, ModelCallContext, ModelRequest, ModelResponse } from '../agent/model.ts'
import { defined } from '../session/defined.ts'
import { isServerToolRefused, isThinkingRefused, modelErrorOf, noApiKey, RETRIED } from './anthropic-errors.ts'
import { hasThinking, withoutThinking } from './anthropic-messages.ts'
import { hasServerBlocks, withoutServerBlocks } from './anthropic-server-tools.ts'
import { type AnthropicOptions, checkModel, type MessagesClient } from './anthropic-options.ts'
import { answerCut, answerTimedOut, type CallPhase } from './call-errors.ts'
import { maxTokensOf, paramsOf, thinkingTokensOf } from './anthropic-params.ts'
import { assemble } from './anthropic-stream.ts'
import { guardSilence } from './silence.ts'

/** How long the connection may stay open once the answer is complete. */
const CLOSING_MS = 2000

/**
 * A Claude model. It reads the environment and creates a client at the first call.
 *
 * `generate` throws a `ModelError` whose `code` is Anthropic's error type, or `http_<status>`, `connection_error`, `timeout`,
 * `stream_cut`, `no_api_key`, `model_call_failed`; if the signal aborts, it throws the signal's reason.
 * Arguments of a call that are not JSON are returned as text.
 * @throws DeclarationError `invalid_model`.
 */
export function anthropic(model: string, options: AnthropicOptions = {}): Model {
  const { timeoutMs } = checkModel(model, options)
  let client = options.client
  const send = (request: ModelRequest, ctx: ModelCallContext) => {
    client ??= defaultClient(options)
    return streamedCall(client, paramsOf(model, options, request), timeoutMs, ctx)
  }
  return {
    name: model,
    provider: 'anthropic',
    get account() {
      return accountOf(options)
    },
    ...(options.price && { price: options.price }),
    ...defined({ contextWindow: options.contextWindow ?? contextWindowOf(model) }),
    maxTokens: maxTokensOf(options),
    thinkingTokens: thinkingTokensOf(options),
    runsTool: ({ form }) => form === 'messages',
    async generate(request, ctx) {
      ctx.signal.throwIfAborted()
      try {
        return await send(request, ctx)
      } catch (error) {
        // Otherwise every later call of the session would fail the same way.
        if (isThinkingRefused(error) && hasThinking(request.messages))
          return await send({ ...request, messages: withoutThinking(request.messages) }, ctx)
        if (!isServerToolRefused(error) || !hasServerBlocks(request.messages)) throw error
        return await send({ ...request, messages: withoutServerBlocks(request.messages) }, ctx)
      }
    },
  }
}

/**
 * pawl stores the account when it closes a rate gate, so the account is a digest: of the key, and of the address, because a proxy has its
 * own limits.
 */
function accountOf({ client, apiKey, baseURL }: AnthropicOptions): string {
  const { apiKey: ofClient, baseURL: at } = (client ?? {}) as { apiKey?: unknown; baseURL?: unknown }
  const key = client ? ofClient : (apiKey ?? process.env.ANTHROPIC_API_KEY)
  const address = client ? at : (baseURL ?? process.env.ANTHROPIC_BASE_URL)
  return createHash('sha256')
    .update(JSON.stringify([String(key), String(address)]))
    .digest('hex')
    .slice(0, 12)
}

const named = new Map<string, Model>()

/** The model for an agent's `model: 'claude-…'`: `anthropic(name)`, cached by name. */
export function modelOf(name: string): Model {
  const model = named.get(name) ?? anthropic(name)
  named.set(name, model)
  return model
}

async function streamedCall(
  client: MessagesClient,
  params: MessageCreateParamsStreaming,
  timeoutMs: number,
  ctx: ModelCallContext,
): Promise<ModelResponse> {
  const answer = assemble(ctx.onDelta)
  const guard = guardSilence(ctx.signal, timeoutMs)
  let phase: CallPhase = 'request'
  let failure: unknown
  try {
    const events = await client.messages.create(params, { signal: guard.signal, maxRetries: 0, timeout: timeoutMs })
    phase = 'stream'
    // Reads past message_stop to the end, because leaving a stream early closes its connection.
    for await (const event of events) {
      answer.accept(event)
      guard.rearm(answer.isComplete() ? CLOSING_MS : timeoutMs)
    }
  } catch (error) {
    failure = error
  } finally {
    guard.stop()
  }
  if (answer.isComplete()) return answer.response()
  // Checks this before `failure`, because the SDK's stream ends without an error when it is aborted.
  ctx.signal.throwIfAborted()
  if (guard.isSilent()) throw answerTimedOut(params.model, timeoutMs, phase, RETRIED)
  throw failure === undefined ? answerCut(params.model, RETRIED) : modelErrorOf(failure, params.model, phase)
}

function defaultClient({ apiKey, baseURL }: AnthropicOptions): MessagesClient {
  const isSet = (name: string) => (process.env[name] ?? '').trim() !== ''
  if (!apiKey && !isSet('ANTHROPIC_API_KEY') && !isSet('ANTHROPIC_AUTH_TOKEN')) throw noApiKey()
  return new Anthropic({ maxRetries: 0, ...(apiKey && { apiKey }), ...(baseURL && { baseURL }) })
}
