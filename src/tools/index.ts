// `pawl/tools`: tools that were not declared with `defineTool`.
export { fromAiSdk } from './from-ai-sdk.ts'
export { mcp } from './mcp/mcp.ts'
export { signIn } from './mcp/sign-in.ts'
export { providerTool } from './provider-tool.ts'
