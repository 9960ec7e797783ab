// `pawl/testing`: what users test their own agents with.
export { crashTest } from './crash.ts'
export { InvalidOption } from '../options/errors.ts'
export { CrashTestError } from './crash/errors.ts'
export type { Boundary } from './crash/boundaries.ts'
export type { Difference, Verdict } from './crash/compare.ts'
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
export { scripted, type ScriptedAnswer } from './scripted.ts'
export { startStack, StackError, type PostgresWay, type Stack, type StackOptions, type StackServer, type TemporalWay } from './stack.ts'
