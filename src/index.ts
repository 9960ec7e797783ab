// `pawl`: what a user declares with.
export { defineAgent } from './agent/define-agent.ts'
export type { DefineAgent } from './agent/define-agent.ts'
export type {
  Agent,
  AgentLimits,
  AgentOptions,
  AgentSessionLimits,
  CheckpointOption,
  ContextOf,
  OutputIn,
  OutputOf,
  RecoveryOptions,
} from './agent/agent.ts'
export { DeclarationError, ModelError, ToolError } from './agent/errors.ts'
export type { ModelErrorOptions, ToolErrorOptions } from './agent/errors.ts'
export type { Model, ModelCallContext, ModelRequest, ModelResponse, ToolDefinition } from './agent/model.ts'
export type { ModelDelta } from './session/watching/deltas.ts'
export type { ModelChoice } from './agent/model-choice.ts'
export type { AgentCompaction, CompactionOptions, Summarise, SummariseInput, Summary } from './agent/compaction.ts'
export type { OutputPolicy } from './agent/output-tool.ts'
export type { PlanOption, PlanPolicy } from './agent/plan-tools.ts'
export { sections } from './agent/prompt.ts'
export type { PromptView, Section } from './agent/prompt.ts'
export type { RetryOptions, RetryPolicy } from './agent/retry.ts'
export { defineHook } from './agent/define-hook.ts'
export type { DefineHook } from './agent/define-hook.ts'
export type {
  FlowAnswer,
  Hook,
  HookAnswers,
  HookCall,
  HookContext,
  HookInputs,
  HookOptions,
  NamedHook,
  ToolHookEvent,
} from './agent/hook.ts'
export { defineSlice } from './agent/define-slice.ts'
export type { Reducers, Slice, SliceOptions, SlicesOf } from './agent/slice.ts'
export { defineTool } from './agent/define-tool.ts'
export type { DefineTool } from './agent/define-tool.ts'
export type {
  AgentContext,
  AnswerOf,
  AnyServices,
  AnySlices,
  ApprovalContext,
  ApprovalNeed,
  BasicToolOptions,
  BodyOption,
  ContextIn,
  ContextTypes,
  FittingOptions,
  Idempotency,
  Logger,
  NeedsOf,
  NeedsServices,
  Services,
  ServicesIn,
  ServicesOf,
  SlicesIn,
  Tool,
  ToolApproval,
  ToolContext,
  ToolNeeds,
  ToolOptions,
  Unless,
  Verdict,
  Without,
} from './agent/tool.ts'
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
} from './session/content.ts'
export type { MediaType } from './session/image.ts'
export type { CompactionPolicy } from './session/transcript/compaction.ts'
export type { Budget, BudgetRaise, BudgetScope, BudgetUnit, Cost, RunBudget, Spend } from './session/spending/spend.ts'
export type { Duration } from './session/duration.ts'
export type { ModelPrice } from './session/spending/model-price.ts'
export { PawlError } from './session/errors.ts'
export type {
  AgentFacts,
  AutomaticStrategy,
  CheckpointPolicy,
  CheckpointTrigger,
  RecoveryPolicy,
  RecoveryStrategy,
  RunLimits,
  SessionLimits,
} from './session/agent-facts.ts'
export type {
  ApprovalTerms,
  BlobRef,
  Effect,
  EffectReport,
  FailedAttempt,
  Resolution,
  ResultContent,
  RunEffect,
} from './session/call-facts.ts'
export type {
  ErrorProgress,
  EventBody,
  EventOf,
  EventType,
  RefusedContent,
  SessionEvent,
  SessionStatus,
  Target,
  Unreplayable,
  Watermark,
} from './session/events.ts'
export type {
  AppendContextAnswer,
  DenyAnswer,
  HookAnswer,
  HookEvent,
  HookRun,
  ModifyAnswer,
  StopAnswer,
  SystemMessageAnswer,
} from './session/hooks/hooks.ts'
export type { Json, JsonObject, JsonOf } from './session/json.ts'
export type { Memory, MemoryChange, MemoryLimit, MemoryState, MemoryText } from './session/built-in-tools/memory.ts'
export type { NewPlanStep, Plan, PlanChange, PlanState, PlanStep, PlanStepStatus } from './session/built-in-tools/plan.ts'
export type { IncompleteWork, Progress } from './session/watching/progress.ts'
export type { Restored } from './session/recovery/restored.ts'
export type { SpendNote } from './session/spending/spend-notes.ts'
export type {
  AutomaticRecoveries,
  CallState,
  CheckpointDue,
  CheckpointState,
  LastCall,
  LeftOutCall,
  Paused,
  QueuedMessage,
  RunState,
  SessionError,
  SessionState,
  UnknownCall,
} from './session/state.ts'
export { defineWorker } from './worker/definition.ts'
export type { Serving, ServicesOption, WorkerDefinition } from './worker/definition.ts'
