// Meters of OpenTelemetry's SDK: its readers send the metrics by OTLP, or serve them to Prometheus.
import { randomUUID } from 'node:crypto'
import type { Meter } from '@opentelemetry/api'
import type { IMetricReader, MeterProvider, PushMetricExporter } from '@opentelemetry/sdk-metrics'
import type { Logger } from '../../../agent/tool.ts'
import {
  type GaugeName,
  INSTRUMENTS,
  type Instrument,
  type Labels,
  type GaugeReading,
  type RecordedName,
} from '../../../telemetry/instruments.ts'
import { boundedLabels } from '../../../telemetry/labels.ts'
import type { MetricSettings, Protocol } from '../../telemetry-settings.ts'
import { loaded } from './packages.ts'
import { prometheusAt } from './prometheus.ts'
import { resourceFrom, SCOPE } from './resource.ts'
import { withinTime } from './within-time.ts'

/** Records a measurement. */
export type Recorder = (name: RecordedName, value: number, labels: Labels) => void

export interface Meters {
  record: Recorder
  /** Sends pending measurements, within two seconds at most, and closes. Never rejects. */
  close(): Promise<void>
}

export interface MeterNeeds {
  settings: MetricSettings
  resource: { [name: string]: string }
  /** The current gauges of this process, and those that it reports for the whole deployment. */
  read(): readonly GaugeReading[]
  logger: Logger
}

/** Loads what meters need; the returned function opens them. @throws WorkerError `no_telemetry_packages`. */
export async function prepareMeters({ settings, resource, read, logger }: MeterNeeds): Promise<() => Meters> {
  const { MeterProvider, PeriodicExportingMetricReader } = await loaded(
    '@opentelemetry/sdk-metrics',
    () => import('@opentelemetry/sdk-metrics'),
  )
  const { otlp, prometheus } = settings
  const Exporter = otlp && (await exporterFor(otlp.protocol))
  const serve = prometheus && (await prometheusAt(prometheus, logger))
  // Several workers write the same metrics: a backend tells them apart by this id.
  const origin = await resourceFrom({ 'service.instance.id': randomUUID(), ...resource })
  return () => {
    const readers: IMetricReader[] = []
    if (Exporter) {
      const { everyMs: exportIntervalMillis, timeoutMs: exportTimeoutMillis } = otlp
      readers.push(new PeriodicExportingMetricReader({ exporter: told(new Exporter(), logger), exportIntervalMillis, exportTimeoutMillis }))
    }
    if (serve) readers.push(serve())
    return metersOf(new MeterProvider({ resource: origin, readers }), read, logger)
  }
}

function metersOf(provider: MeterProvider, read: MeterNeeds['read'], logger: Logger): Meters {
  const meter = provider.getMeter(SCOPE.name, undefined, { schemaUrl: SCOPE.schemaUrl })
  const bounded = boundedLabels()
  const instruments = new Map<string, (value: number, labels: Labels) => void>()
  for (const [name, instrument] of Object.entries<Instrument>(INSTRUMENTS)) {
    if (instrument.kind === 'gauge')
      observe(meter, name as GaugeName, instrument, () => read().map((one) => ({ ...one, labels: bounded(one.labels) })))
    else instruments.set(name, recorderOf(meter, name, instrument))
  }
  return {
    record(name, value, labels) {
      if (Number.isFinite(value)) instruments.get(name)?.(value, bounded(labels))
    },
    close: () => withinTime(provider.shutdown({ timeoutMillis: GOODBYE_MS }), GOODBYE_MS, logger),
  }
}

const GOODBYE_MS = 2_000

function recorderOf(meter: Meter, name: string, { kind, unit, description, buckets }: Instrument): (value: number, labels: Labels) => void {
  if (kind === 'counter') {
    const counter = meter.createCounter(name, { unit, description })
    return (value, labels) => counter.add(value, labels)
  }
  const histogram = meter.createHistogram(name, {
    unit,
    description,
    ...(buckets && { advice: { explicitBucketBoundaries: [...buckets] } }),
  })
  return (value, labels) => histogram.record(value, labels)
}

function observe(meter: Meter, name: GaugeName, { unit, description }: Instrument, read: () => readonly GaugeReading[]): void {
  meter.createObservableGauge(name, { unit, description }).addCallback((result) => {
    for (const reading of read()) if (reading.name === name) result.observe(reading.value, reading.labels)
  })
}

async function exporterFor(protocol: Protocol): Promise<new () => PushMetricExporter> {
  if (protocol === 'http/json') {
    const name = '@opentelemetry/exporter-metrics-otlp-http'
    return (await loaded(name, () => import('@opentelemetry/exporter-metrics-otlp-http'))).OTLPMetricExporter
  }
  const name = '@opentelemetry/exporter-metrics-otlp-proto'
  return (await loaded(name, () => import('@opentelemetry/exporter-metrics-otlp-proto'))).OTLPMetricExporter
}

/** Adds a log line to an exporter's failures, which the SDK does not report. */
function told(exporter: PushMetricExporter, logger: Logger): PushMetricExporter {
  let hasFailed = false
  return new Proxy(exporter, {
    get(target, name) {
      if (name !== 'export') {
        const value: unknown = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      }
      const send: PushMetricExporter['export'] = (metrics, done) =>
        target.export(metrics, (result) => {
          if (result.code === 0 && hasFailed) logger.info({}, 'metrics are exported again')
          if (result.code !== 0 && !hasFailed)
            logger.warn({ err: result.error }, 'metrics could not be exported: the next export includes the same sums')
          hasFailed = result.code !== 0
          done(result)
        })
      return send
    },
  })
}
