// The example of docs/models.md, compiled and run by our tests: an agent with language models of the AI SDK.
// #region guide
import { google } from '@ai-sdk/google'
import { openai } from '@ai-sdk/openai'
import { defineAgent } from '../../src/index.ts'
import { aiSdk } from '../../src/models/index.ts'

export const support = defineAgent({
  name: 'support',
  instructions: 'You answer questions about orders.',
  model: aiSdk(openai('gpt-5.4'), { settings: { providerOptions: { openai: { reasoningEffort: 'low' } } } }),
  fallback: aiSdk(google('gemini-3.5-flash'), { maxTokens: 8_000 }),
})
// #endregion
