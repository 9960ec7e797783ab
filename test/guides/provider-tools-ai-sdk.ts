// The second example of docs/provider-tools.md, compiled and run by our tests: tools that OpenAI and Google run.
// #region guide
import { google } from '@ai-sdk/google'
import { openai } from '@ai-sdk/openai'
import { defineAgent } from '../../src/index.ts'
import { aiSdk } from '../../src/models/index.ts'
import { providerTool } from '../../src/tools/index.ts'

export const reporter = defineAgent({
  name: 'reporter',
  instructions: 'Answer with sources.',
  model: aiSdk(openai('gpt-5.4'), { price: { input: 2.5, output: 15, cacheRead: 0.25, webSearch: 10 } }),
  fallback: aiSdk(google('gemini-3.5-flash')),
  tools: [
    providerTool(openai.tools.webSearch({ searchContextSize: 'high' })),
    providerTool(openai.tools.codeInterpreter({})),
    providerTool(google.tools.googleSearch({}), { name: 'web_search' }),
  ],
})
// #endregion
