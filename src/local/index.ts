// The local stack: what `pawl dev`, the demo and tests start when nobody gives them a Temporal and a Postgres.
export { startStack, type PostgresWay, type Stack, type StackOptions } from './stack.ts'
export { StackError } from './errors.ts'
export type { StackServer } from './server.ts'
export type { TemporalWay } from './temporal/binary.ts'
