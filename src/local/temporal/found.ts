// A Temporal server that is already running: found by TEMPORAL_ADDRESS, used as it is.
import { loadClientConnectConfig } from '@temporalio/envconfig'
import { defined } from '../../session/defined.ts'
import { reasonOf, StackError } from '../errors.ts'
import { foundServer } from '../server.ts'
import { probeNamespace, withConnection } from './probe.ts'
import type { TemporalServer } from './server.ts'

/** How long the server may take to answer. */
const ANSWER = '10s'

/**
 * Checks that the server at TEMPORAL_ADDRESS answers and has the namespace.
 * @throws StackError `temporal_unreachable`, `temporal_namespace_missing`.
 */
export async function foundTemporal(address: string, env: NodeJS.ProcessEnv): Promise<TemporalServer> {
  const { connectionOptions, namespace = 'default' } = loadClientConnectConfig({ overrideEnvVars: defined(env) as Record<string, string> })
  const { apiKey, tls, metadata } = connectionOptions
  const served = await withConnection(
    {
      address,
      connectTimeout: ANSWER,
      ...defined({ tls, apiKey, metadata }),
    },
    (connection) => probeNamespace(connection, namespace),
  ).catch((cause: unknown) => {
    throw new StackError(
      'temporal_unreachable',
      `Temporal does not answer at TEMPORAL_ADDRESS=${address}: ${reasonOf(cause)}. Start it, correct the address, or unset it to start an embedded server.`,
      { cause },
    )
  })
  if (served === 'no_namespace') {
    throw new StackError(
      'temporal_namespace_missing',
      `Temporal at ${address} has no namespace "${namespace}". Set TEMPORAL_NAMESPACE, or create it with "temporal operator namespace create --retention 720h ${namespace}".`,
    )
  }
  return { server: foundServer('Temporal'), address, namespace, env: { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace } }
}
