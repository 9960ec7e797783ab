// Checks whether a Temporal server has a namespace, and raises the namespace's retention if it is too short.
import { Connection, isGrpcServiceError, type ConnectionOptions } from '@temporalio/client'
import { msToTs, optionalTsToMs } from '@temporalio/common/lib/time.js'
import { RETENTION_MS } from './release.ts'

/** gRPC's status code for "not found". */
const NOT_FOUND = 5

/** The state of a server that answers: it serves the namespace, or does not have it. */
export type ServerState = 'served' | 'no_namespace'

/** Connects once, without retries, and passes the connection to `work`. */
export async function withConnection<T>(options: ConnectionOptions, work: (connection: Connection) => Promise<T>): Promise<T> {
  const connection = await Connection.connect({
    ...options,
    // A proxy from the environment is not meant for a server on this machine.
    ...(options.tls ? {} : { channelArgs: { 'grpc.enable_http_proxy': 0 } }),
    interceptors: [],
  })
  try {
    return await work(connection)
  } finally {
    await connection.close()
  }
}

/** Whether the server's frontend knows the namespace and its history service answers for it. Rejects if the server does not answer. */
export async function probeNamespace(connection: Connection, namespace: string): Promise<ServerState> {
  const { workflowService } = connection
  try {
    await workflowService.describeNamespace({ namespace })
  } catch (error) {
    if (isNotFound(error)) return 'no_namespace'
    throw error
  }
  // The answer about an execution that does not exist comes from the history service, which starts later than the frontend.
  await workflowService
    .describeWorkflowExecution({ namespace, execution: { workflowId: 'pawl-is-this-served' } })
    .catch((error: unknown) => {
      if (!isNotFound(error)) throw error
    })
  return 'served'
}

/** Rejects if the server does not answer for its namespace. */
export async function probeServer({ address, namespace }: { address: string; namespace: string }): Promise<void> {
  await withConnection({ address, connectTimeout: '5s' }, (connection) => probeNamespace(connection, namespace))
}

/** Raises a namespace's retention of closed executions to 30 days, if it is shorter. */
export async function ensureRetention({ workflowService }: Connection, namespace: string): Promise<void> {
  const { config } = await workflowService.describeNamespace({ namespace })
  if ((optionalTsToMs(config?.workflowExecutionRetentionTtl) ?? 0) >= RETENTION_MS) return
  await workflowService.updateNamespace({ namespace, config: { workflowExecutionRetentionTtl: msToTs(RETENTION_MS) } })
}

function isNotFound(error: unknown): boolean {
  return isGrpcServiceError(error) && error.code === NOT_FOUND
}
