// How much a model can answer, as budgets see it, and what happens to a lower `max_tokens`.
import { describe, expect, it } from 'vitest'
import type { ModelRequest } from '../../src/agent/model.ts'
import { aiSdk, anthropic } from '../../src/models/index.ts'
import type { AiSdkOptions } from '../../src/models/ai-sdk-options.ts'
import type { LanguageModel, LanguageModelCall } from '../../src/models/ai-sdk-types.ts'

const request: ModelRequest = { system: '', messages: [{ role: 'user', content: 'hi' }], tools: [], sessionId: 's', run: 1, turn: 1 }

describe('a Claude model', () => {
  it.each([
    [{}, 32_000, 0],
    [{ maxTokens: 5_000 }, 5_000, 0],
    [{ thinking: { type: 'enabled', budget_tokens: 2_000 } }, 32_000, 2_000],
    [{ thinking: { type: 'enabled', budget_tokens: 30_000 } }, 46_000, 30_000],
    [{ thinking: { type: 'disabled' } }, 32_000, 0],
  ] as const)('a Claude model with %o answers at most %i tokens, of which %i are for thinking', (options, maxTokens, thinkingTokens) => {
    expect(anthropic('claude-sonnet-5-5', options)).toMatchObject({ maxTokens, thinkingTokens })
  })
})

describe('a model of the AI SDK', () => {
  const thinking = (provider: string, settings: object): AiSdkOptions => ({
    settings: { providerOptions: { [provider]: settings as never } },
  })

  function house(provider: string): LanguageModel & { calls: LanguageModelCall[] } {
    const calls: LanguageModelCall[] = []
    return {
      specificationVersion: 'v4',
      provider,
      modelId: 'house-1',
      supportedUrls: {},
      calls,
      doStream: (call) => Promise.reject(new Error(String(calls.push(call)))),
    }
  }
  const asked = async (model: ReturnType<typeof house>, options: AiSdkOptions, maxTokens: number): Promise<number | undefined> => {
    const ctx = { signal: new AbortController().signal, attempt: 1, onDelta: () => undefined }
    await aiSdk(model, options)
      .generate({ ...request, maxTokens }, ctx)
      .catch(() => undefined)
    return model.calls[0]?.maxOutputTokens
  }

  it('a model of the AI SDK declares a maximum output only if its options do', () => {
    expect(aiSdk(house('openai.responses')).maxTokens).toBeUndefined()
    expect(aiSdk(house('openai.responses'), { maxTokens: 4_000 })).toMatchObject({ maxTokens: 4_000, thinkingTokens: 0 })
  })

  it('an Anthropic model of the AI SDK has its thinking budget in addition to the tokens of its answer', async () => {
    const options = thinking('anthropic', { thinking: { type: 'enabled', budgetTokens: 2_000 } })
    expect(aiSdk(house('anthropic.messages'), { ...options, maxTokens: 4_000 })).toMatchObject({ maxTokens: 6_000, thinkingTokens: 2_000 })
    expect(await asked(house('anthropic.messages'), options, 5_000)).toBe(3_000)
  })

  it('a model of the AI SDK from another provider includes its thinking budget in the tokens of its answer', async () => {
    const options = thinking('google', { thinkingConfig: { thinkingBudget: 2_000 } })
    expect(aiSdk(house('google.generative-ai'), { ...options, maxTokens: 4_000 })).toMatchObject({
      maxTokens: 4_000,
      thinkingTokens: 2_000,
    })
    expect(await asked(house('google.generative-ai'), options, 5_000)).toBe(5_000)
  })
})
