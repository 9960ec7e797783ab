// The examples of docs/provider-tools.md, compiled and run by our tests: tools that the model's provider runs.
// #region guide
import { defineAgent } from '../../src/index.ts'
import { providerTool } from '../../src/tools/index.ts'

export const researcher = defineAgent({
  name: 'researcher',
  instructions: 'Answer with sources.',
  model: 'claude-sonnet-5-5',
  tools: [
    providerTool({ type: 'web_search_20250305', max_uses: 5, allowed_domains: ['example.com'] }),
    providerTool({ type: 'web_fetch_20250910', max_uses: 5, citations: { enabled: true }, max_content_tokens: 20_000 }),
    providerTool({ type: 'code_execution_20250825' }),
  ],
})
// #endregion
