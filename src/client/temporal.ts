// The parts of Temporal's client that pawl's client names.
export type { Client, Connection } from '@temporalio/client'
export type { DataConverter } from '@temporalio/common'
