// `pawl`: what a user declares with.
export { agentTool } from './agent/agent-tool.ts'
export type { AgentToolOptions } from './agent/agent-tool.ts'
export { defineAgent } from './agent/define-agent.ts'
export type { DefineAgent } from './agent/define-agent.ts'
export type { Agent, AgentOptions, ContextOf, OutputOf } from './agent/agent.ts'
export { DeclarationError, ModelError, ToolError } from './agent/errors.ts'
export type { Model, ModelCallContext, ModelRequest, ModelResponse } from './agent/model.ts'
export type { SessionView } from './session/watching/view.ts'
export type { ModelDelta } from './session/watching/deltas.ts'
export { sections } from './agent/prompt.ts'
export type { PromptView, Section } from './agent/prompt.ts'
export { defineHook } from './agent/define-hook.ts'
export type { DefineHook } from './agent/define-hook.ts'
export type { Hook, HookContext, HookInputs } from './agent/hook.ts'
export { defineSlice } from './agent/define-slice.ts'
export type { Reducers, Slice, SlicesOf } from './agent/slice.ts'
export { sleepTool } from './agent/sleep-tool.ts'
export { defineTool } from './agent/define-tool.ts'
export type { DefineTool } from './agent/define-tool.ts'
export type {
  AgentContext,
  AnswerOf,
  Idempotency,
  Logger,
  Services,
  ServicesOf,
  Tool,
  ToolContext,
  ToolOptions,
  Verdict,
} from './agent/tool.ts'
export type { AssistantBlock, ContentBlock, Message, StopReason, ToolUseBlock, Usage, UserBlock } from './session/content.ts'
export type { Duration } from './session/duration.ts'
export { PawlError } from './session/errors.ts'
export type { EventOf, SessionEvent, SessionStatus } from './session/events.ts'
export type { Json, JsonObject } from './session/json.ts'
export type { Plan } from './session/built-in-tools/plan.ts'
export type { SessionError } from './session/state.ts'
export { defineWorker } from './worker/definition.ts'
export type { WorkerDefinition } from './worker/definition.ts'
