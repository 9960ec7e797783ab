// `pawl/testing`: what users test their own agents with.
export { scripted, type ScriptedAnswer } from './scripted.ts'
export { startStack, StackError, type PostgresWay, type Stack, type StackOptions, type StackServer, type TemporalWay } from './stack.ts'
