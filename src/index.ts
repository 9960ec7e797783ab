// `pawl`: what a user declares with.
export { defineAgent } from './agent/agent.ts'
export type { Agent, AgentLimits, AgentOptions } from './agent/agent.ts'
export { DeclarationError, ModelError, ToolError } from './agent/errors.ts'
export type { Model, ModelCallContext, ModelDelta, ModelRequest, ModelResponse, ToolDefinition } from './agent/model.ts'
export type { RetryOptions } from './agent/retry.ts'
export { defineTool } from './agent/tool.ts'
export type {
  AgentContext,
  ApprovalContext,
  ApprovalNeed,
  Idempotency,
  Logger,
  Services,
  Tool,
  ToolContext,
  ToolOptions,
  Verdict,
} from './agent/tool.ts'
export type {
  AssistantBlock,
  ContentBlock,
  ImageBlock,
  Message,
  StopReason,
  TextBlock,
  ThinkingBlock,
  ToolResultBlock,
  ToolUseBlock,
  Usage,
  UserBlock,
} from './session/content.ts'
export { PawlError } from './session/errors.ts'
export type { Effect, EventOf, EventType, FailedAttempt, ResultContent, SessionEvent, SessionStatus } from './session/events.ts'
export type { Json, JsonObject } from './session/json.ts'
export type { SessionState } from './session/state.ts'
export { defineWorker } from './worker/definition.ts'
export type { WorkerDefinition } from './worker/definition.ts'
