// The telemetry of an orchestrator.
import { randomUUID } from 'node:crypto'
import type { Logger } from '../../../agent/tool.ts'
import type { Store } from '../../../store/store.ts'
import type { GaugeReading } from '../../../telemetry/instruments.ts'
import { WorkerError } from '../../errors.ts'
import type { TelemetrySettings } from '../../telemetry-settings.ts'
import type { Pool } from '../executors/pool.ts'
import type { TemporalOutages } from '../temporal/outages.ts'
import type { MeasuredJobs } from './measure-jobs.ts'
import type { Meters, Recorder } from './meters.ts'

export interface TelemetryNeeds {
  settings: TelemetrySettings | undefined
  store: Store
  logger: Logger
  /** The identity of this worker process. */
  worker: string
}

/** The telemetry of an orchestrator: prepared but not yet started. */
export interface Telemetry {
  /** Measures jobs; absent if metrics are off. */
  jobs?: MeasuredJobs
  /** Starts to export. The returned function ends it. */
  start(sources: MeasuredWorker): () => Promise<void>
}

/** The sources of this process's gauges. */
export interface MeasuredWorker {
  pool: Pick<Pool, 'executors'>
  temporal: Pick<TemporalOutages, 'awayMs'>
}

/**
 * Loads the packages for the telemetry that is on, and nothing of OpenTelemetry if none is.
 * @throws WorkerError `no_telemetry_packages`, unless only a general variable turned the telemetry on; it then stays off, with a warning.
 */
export async function prepareTelemetry({ settings, store, logger, worker }: TelemetryNeeds): Promise<Telemetry> {
  if (!settings) return { start: () => async () => undefined }
  const holder = `${worker} ${randomUUID()}`
  const traces = await unlessMissing(settings.traces, logger, (on) => prepareTraces({ settings, store, logger, holder }, on))
  const metrics = await unlessMissing(settings.metrics, logger, (on) => prepareMetrics({ settings, store, logger, holder }, on))
  return {
    ...(metrics && { jobs: metrics.jobs }),
    start(sources) {
      const ends = [traces?.start(), metrics?.start(sources)].filter((end) => end !== undefined)
      return async () => {
        await Promise.all(ends.map((end) => end()))
      }
    },
  }
}

async function unlessMissing<S extends { isImplied?: true }, T>(
  on: S | undefined,
  logger: Logger,
  prepare: (on: S) => Promise<T>,
): Promise<T | undefined> {
  if (!on) return undefined
  try {
    return await prepare(on)
  } catch (error) {
    if (!on.isImplied || !(error instanceof WorkerError)) throw error
    logger.warn({ code: error.code }, error.message)
    return undefined
  }
}

interface TelemetrySetup extends Omit<TelemetryNeeds, 'settings' | 'worker'> {
  settings: TelemetrySettings
  holder: string
}

async function prepareTraces({ settings, store, logger, holder }: TelemetrySetup, traces: NonNullable<TelemetrySettings['traces']>) {
  const [{ otlpSpans }, { exportTraces }] = await Promise.all([import('./otlp-traces.ts'), import('./export-traces.ts')])
  const sender = await otlpSpans({ ...settings, traces })
  return { start: () => exportTraces({ store, sender, settings: traces, logger, holder }) }
}

async function prepareMetrics(
  { settings: { resource }, store, logger, holder }: TelemetrySetup,
  settings: NonNullable<TelemetrySettings['metrics']>,
) {
  const [{ prepareMeters }, { measureJobs }, { measureStored }, { reportCensus }] = await Promise.all([
    import('./meters.ts'),
    import('./measure-jobs.ts'),
    import('./measure-stored.ts'),
    import('./report-census.ts'),
  ])
  let read = (): readonly GaugeReading[] => []
  let meters: Meters | undefined
  const open = await prepareMeters({ settings, resource, read: () => read(), logger })
  const record: Recorder = (name, value, labels) => meters?.record(name, value, labels)
  return {
    jobs: measureJobs(record),
    start(sources: MeasuredWorker) {
      meters = open()
      store.watchStored(measureStored(record, store, logger))
      const census = reportCensus(store, holder, logger)
      read = () => [...ofWorker(sources), ...census.readings()]
      return async () => {
        await meters?.close()
        store.watchStored(() => undefined)
        await census.end()
      }
    },
  }
}

function ofWorker({ pool, temporal }: MeasuredWorker): GaugeReading[] {
  const executors = [...pool.executors()]
  const jobs = executors.reduce((sum, { assignments }) => sum + assignments.size, 0)
  return [
    { name: 'pawl.executors', value: executors.length, labels: {} },
    { name: 'pawl.jobs', value: jobs, labels: {} },
    { name: 'pawl.temporal.away', value: temporal.awayMs() / 1_000, labels: {} },
  ]
}
