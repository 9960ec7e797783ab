// `pawl/testing`: what users test their own agents with.
export { crashTest } from './crash.ts'
export { InvalidOption } from '../options/errors.ts'
export { CrashTestError } from './crash/errors.ts'
export type { Boundary } from './crash/boundaries.ts'
export type { Difference, CrashVerdict } from './crash/compare.ts'
export type {
  BoundaryResult,
  CrashConversation,
  CrashStep,
  CrashTestOptions,
  CrashTestResult,
  CrashWorld,
  RoundResult,
  TroubleKind,
} from './crash/types.ts'
export { calls, lastResult, type LastResult, scripted, type ScriptedAnswer, type ScriptedOptions } from './scripted.ts'
export { startStack, StackError, type PostgresWay, type Stack, type StackOptions, type StackServer, type TemporalWay } from './stack.ts'
export type { Model, ModelCallContext, ModelRequest, ModelResponse } from '../agent/model.ts'
export type { Pawl } from '../client/pawl.ts'
export type { RunHandle, SessionHandle } from '../client/types.ts'
export type { StackErrorCode } from '../local/errors.ts'
export type { Say } from '../local/progress.ts'
export type { AssistantBlock, Message, ToolUseBlock, UserBlock } from '../session/content.ts'
export type { Duration } from '../session/duration.ts'
export { PawlError } from '../session/errors.ts'
export type { Json, JsonObject } from '../session/json.ts'
