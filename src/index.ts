// `pawl`: what a user declares with.
export { defineAgent } from './agent/define-agent.ts'
export type { DefineAgent } from './agent/define-agent.ts'
export type { Agent, AgentLimits, AgentOptions, CheckpointOption, ContextOf } from './agent/agent.ts'
export { DeclarationError, ModelError, ToolError } from './agent/errors.ts'
export type { ModelErrorOptions, ToolErrorOptions } from './agent/errors.ts'
export type { Model, ModelCallContext, ModelDelta, ModelRequest, ModelResponse, ToolDefinition } from './agent/model.ts'
export type { RetryOptions, RetryPolicy } from './agent/retry.ts'
export { defineTool } from './agent/define-tool.ts'
export type { DefineTool } from './agent/define-tool.ts'
export type {
  AgentContext,
  AnswerOf,
  AnyServices,
  ApprovalContext,
  ApprovalNeed,
  ContextIn,
  ContextTypes,
  Idempotency,
  Logger,
  NeedsOf,
  Services,
  ServicesIn,
  Tool,
  ToolApproval,
  ToolContext,
  ToolNeeds,
  ToolOptions,
  Unless,
  Verdict,
} from './agent/tool.ts'
export type {
  AssistantBlock,
  ContentBlock,
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
} from './session/content.ts'
export type { Duration } from './session/duration.ts'
export { PawlError } from './session/errors.ts'
export type {
  ApprovalTerms,
  BlobRef,
  CheckpointPolicy,
  CheckpointTrigger,
  Effect,
  EffectReport,
  EventBody,
  EventOf,
  EventType,
  FailedAttempt,
  RecoveryStrategy,
  Resolution,
  ResultContent,
  RunLimits,
  SessionEvent,
  SessionStatus,
  Target,
  Watermark,
} from './session/events.ts'
export type { Json, JsonObject } from './session/json.ts'
export type {
  CallState,
  CheckpointState,
  ErrorProgress,
  LeftOutCall,
  QueuedMessage,
  RunEffect,
  RunState,
  SessionError,
  SessionState,
  UnknownCall,
} from './session/state.ts'
export { defineWorker } from './worker/definition.ts'
export type { WorkerDefinition } from './worker/definition.ts'
