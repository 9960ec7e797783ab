// `pawl/models`: pawl's models, and the types for adapters.
export { ModelError } from '../agent/errors.ts'
export type { Model, ModelCallContext, ModelRequest, ModelResponse } from '../agent/model.ts'
export type { ModelDelta } from '../session/watching/deltas.ts'
export type { AssistantBlock, ContentBlock, Message, StopReason, ToolUseBlock, Usage, UserBlock } from '../session/content.ts'
export { aiSdk } from './ai-sdk.ts'
export { anthropic } from './anthropic.ts'
export type { Duration } from '../session/duration.ts'
