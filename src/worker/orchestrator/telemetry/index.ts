// The telemetry of an orchestrator.
import { randomUUID } from 'node:crypto'
import type { Logger } from '../../../agent/tool.ts'
import type { Store } from '../../../store/store.ts'
import type { TelemetrySettings } from '../../telemetry-settings.ts'

/** What telemetry needs. */
export interface TelemetryNeeds {
  settings: TelemetrySettings | undefined
  store: Store
  logger: Logger
  /** This worker process. */
  worker: string
}

/** Starts what is on; the returned function ends it. Loads nothing of OpenTelemetry if nothing is. @throws WorkerError `no_telemetry_packages`. */
export async function startTelemetry({ settings, store, logger, worker }: TelemetryNeeds): Promise<() => Promise<void>> {
  const traces = settings?.traces
  if (!settings || !traces) return async () => undefined
  const [{ otlpSpans }, { exportTraces }] = await Promise.all([import('./otlp-traces.ts'), import('./export-traces.ts')])
  const sender = await otlpSpans({ ...settings, traces })
  return exportTraces({ store, sender, settings: traces, logger, holder: `${worker} ${randomUUID()}` })
}
