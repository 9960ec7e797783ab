// Installs the SDK's runtime, one per process, so that its log lines go to pawl's logger.
import { DefaultLogger, type LogEntry, Runtime, type RuntimeOptions } from '@temporalio/worker'
import { LRUCache } from 'lru-cache'
import type { Logger } from '../../../agent/tool.ts'
import { sdkLine } from './sdk-lines.ts'
import { type TemporalOutages, watchTemporal } from './outages.ts'

/** How long to suppress repetitions of a line. The SDK repeats a line with every retry. */
const REPEATED_AFTER_MS = 60_000
const LINES_KEPT = 1_000
const EXECUTIONS_KEPT = 10_000

export interface SdkRuntime extends Pick<TemporalOutages, 'watch' | 'awayMs'> {
  /** Notes the session of an execution, because some lines name only the execution's id. */
  noteExecution(executionId: string, sessionId: string): void
}

let installed: SdkRuntime | undefined

/** Installs the runtime. Later workers of the process share the first one's. A runtime that the program itself installed stays as it is. */
export function installRuntime(logger: Logger, options: Pick<RuntimeOptions, 'shutdownSignals'> = {}): SdkRuntime {
  const { runtime, receive } = linesTo(logger)
  try {
    Runtime.install({
      ...options,
      logger: new DefaultLogger('WARN', receive),
      telemetryOptions: { logging: { forward: {}, filter: { core: 'WARN', other: 'ERROR' } } },
    })
    installed = runtime
  } catch {
    // The process already has a runtime.
  }
  return installed ?? runtime
}

function linesTo(logger: Logger): { runtime: SdkRuntime; receive: (entry: LogEntry) => void } {
  const outages = watchTemporal(logger)
  const sessions = new LRUCache<string, string>({ max: EXECUTIONS_KEPT })
  const recent = new LRUCache<string, true>({ max: LINES_KEPT, ttl: REPEATED_AFTER_MS })

  async function log(entry: LogEntry): Promise<void> {
    const line = sdkLine(entry, (executionId) => sessions.get(executionId))
    if (!line) return
    const { level, fields, message, mayBeOutage } = line
    if (mayBeOutage && (await outages.suspect())) return
    const { session, reason } = fields as { session?: string; reason?: string }
    // Retries make the same line with another number.
    const key = JSON.stringify([message, session, reason]).replace(/\d+/g, '#')
    if (recent.has(key)) return
    recent.set(key, true)
    logger[level](fields, message)
  }

  return {
    runtime: {
      watch: outages.watch,
      awayMs: outages.awayMs,
      noteExecution: (executionId, sessionId) => void sessions.set(executionId, sessionId),
    },
    receive: (entry) => void log(entry),
  }
}
