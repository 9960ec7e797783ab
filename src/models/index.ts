// `pawl/models`: pawl's models, and the types for adapters.
export { ModelError } from '../agent/errors.ts'
export type { Model, ModelCallContext, ModelRequest, ModelResponse, ToolDefinition } from '../agent/model.ts'
export type { ModelDelta } from '../session/watching/deltas.ts'
export type {
  AnswerTextBlock,
  AssistantBlock,
  ContentBlock,
  FromProvider,
  ImageBlock,
  Message,
  RedactedThinkingBlock,
  StopReason,
  TextBlock,
  ThinkingBlock,
  ToolResultBlock,
  ToolUseBlock,
  Usage,
  UserBlock,
} from '../session/content.ts'
export type { ModelPrice } from '../session/spending/model-price.ts'
export { aiSdk } from './ai-sdk.ts'
export type { AiSdkOptions } from './ai-sdk-options.ts'
export type { LanguageModel, LanguageModelCall, LanguageModelSettings, PartStream, SupportedUrls } from './ai-sdk-types.ts'
export { anthropic, modelOf } from './anthropic.ts'
export type { AnthropicOptions, MessagesClient } from './anthropic-options.ts'
export type { Duration } from '../session/duration.ts'
