// Runs a preflight: connects, checks the open sessions with this build's workflow code and module, and reports.
import { connectClient, configuredTemporal } from '../../connect/temporal.ts'
import { DEFAULT_TASK_QUEUE } from '../../session/protocol/protocol.ts'
import type { CheckedPreflightOptions } from '../check-options.ts'
import { workflowCode } from '../orchestrator/temporal/bundle.ts'
import { loadDataConverter, loadInterceptors } from '../orchestrator/temporal/user-modules.ts'
import type { PreflightReport } from '../preflight-report.ts'
import { loadTypescript } from '../typescript-loader.ts'
import { agentCallWarnings } from './agent-calls.ts'
import { checkAll } from './check.ts'
import { startChecker } from './checker.ts'
import { listOpen, sampleOf } from './open-sessions.ts'
import { quietReplays } from './replaying.ts'
import { openStored } from './stored.ts'
import { startTally } from './tally.ts'
import { defined } from '../../session/defined.ts'

/** See `preflight` of `pawl/worker`. */
export async function preflight(options: CheckedPreflightOptions): Promise<PreflightReport> {
  const { module, taskQueue = DEFAULT_TASK_QUEUE, postgres = process.env.DATABASE_URL, schema, sample, concurrency, signal } = options
  const ends: (() => unknown)[] = []
  // Checked before the module and the workflow code are loaded.
  const temporal = configuredTemporal(options.temporal)
  try {
    const code = await workflowCode(await userCode(options))
    const checker = module === undefined ? undefined : await startChecker(module, options.loadTimeoutMs)
    if (checker) ends.push(checker.end)
    const stored = postgres ? await openStored({ postgres, ...defined({ schema }) }) : undefined
    if (stored) ends.push(stored.close)
    const { client, close } = await connectClient(temporal, code.dataConverter)
    ends.push(close)
    const tally = startTally(taskQueue, options.onSession)
    const listed = listOpen(client, taskQueue)
    const sessions = sample === undefined ? listed : each(await sampleOf(listed, sample))
    quietReplays()
    await checkAll({ client, code, checker, stored, tally, concurrency, signal }, sessions)
    const agentCalls = checker && (await agentCallWarnings(client, taskQueue, checker.agentCalls))
    return tally.report(defined({ store: stored?.found, unverified: checker?.unverified, agentCalls }))
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

/** The user's converter and interceptors: as given, or as their modules export them. */
async function userCode({ dataConverter, interceptors }: CheckedPreflightOptions): Promise<Parameters<typeof workflowCode>[0]> {
  for (const module of [dataConverter, interceptors]) if (typeof module === 'string') await loadTypescript(module)
  return {
    dataConverter: typeof dataConverter === 'string' ? await loadDataConverter(dataConverter) : dataConverter,
    interceptors: typeof interceptors === 'string' ? await loadInterceptors(interceptors) : interceptors,
  }
}

async function* each<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items
}
