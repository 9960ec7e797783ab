// The local stack: `pawl dev`, the demo and tests start it if no Temporal and Postgres are configured.
export { startStack, type PostgresWay, type Stack, type StackOptions } from './stack.ts'
export type { StackServer } from './server.ts'
export type { TemporalWay } from './temporal/binary.ts'
