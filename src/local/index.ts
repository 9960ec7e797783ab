// The local stack: `pawl dev`, the demo and tests start it if no Temporal and Postgres are configured.
export { startStack, type Stack, type StackOptions } from './stack.ts'
