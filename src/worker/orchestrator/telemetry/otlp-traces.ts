// Sends spans by OTLP. They go straight to OpenTelemetry's exporter, without its tracer, whose spans would have their own ids and times.
import type { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import type { SpanRef } from '../../../telemetry/ids.ts'
import type { Span } from '../../../telemetry/span.ts'
import type { TelemetrySettings } from '../../telemetry-settings.ts'
import { loaded } from './packages.ts'
import { resourceFrom, SCOPE } from './resource.ts'

/** The exporter cannot encode the spans. */
export class UnsendableSpans extends Error {}

/** Sends spans to a collector. */
export interface SpanSender {
  /**
   * Resolves when the collector has accepted them.
   * @throws UnsendableSpans, or the exporter's error; its `code` is the collector's HTTP status.
   */
  send(spans: readonly Span[]): Promise<void>
  close(): Promise<void>
}

type ReadableSpan = Parameters<OTLPTraceExporter['export']>[0][number]

const SAMPLED = 1
/** `SpanKind` and `SpanStatusCode` of the API, which is not loaded just for these. */
const KINDS = { internal: 0, client: 2 } as const
const STATUS = { unset: 0, error: 2 } as const

/** Prepares the exporter, which reads the variables for endpoint, headers, certificates, compression and timeout. @throws WorkerError. */
export async function otlpSpans({ resource, traces }: TelemetrySettings & { traces: { protocol: string } }): Promise<SpanSender> {
  const exporter = new (await exporterFor(traces.protocol))()
  const origin = { resource: await resourceFrom(resource), instrumentationScope: SCOPE }
  return {
    send: (spans) =>
      new Promise((resolve, reject) => {
        const done = ({ code, error }: { code: number; error?: Error }): void =>
          code === 0 ? resolve() : reject(error ?? new Error('The spans could not be exported.'))
        try {
          exporter.export(
            spans.map((span) => ({ ...readable(span), ...origin })),
            done,
          )
        } catch (cause) {
          reject(new UnsendableSpans('Spans could not be encoded.', { cause }))
        }
      }),
    close: () => exporter.shutdown(),
  }
}

async function exporterFor(protocol: string): Promise<typeof OTLPTraceExporter> {
  if (protocol === 'http/json') {
    const name = '@opentelemetry/exporter-trace-otlp-http'
    return (await loaded(name, () => import('@opentelemetry/exporter-trace-otlp-http'))).OTLPTraceExporter
  }
  const name = '@opentelemetry/exporter-trace-otlp-proto'
  return (await loaded(name, () => import('@opentelemetry/exporter-trace-otlp-proto'))).OTLPTraceExporter
}

function readable(span: Span): Omit<ReadableSpan, 'resource' | 'instrumentationScope'> {
  const { name, kind, parentSpanId, traceId, startedAt, endedAt, attributes, error, links, events } = span
  const context = contextOf(span)
  return {
    name,
    kind: KINDS[kind],
    spanContext: () => context,
    ...(parentSpanId !== undefined && { parentSpanContext: contextOf({ traceId, spanId: parentSpanId }) }),
    startTime: timeOf(startedAt),
    endTime: timeOf(endedAt),
    duration: timeOf(endedAt - startedAt),
    status: error ? { code: STATUS.error, message: error.message } : { code: STATUS.unset },
    attributes: { ...attributes, ...(error && { 'error.type': error.type }) },
    links: links.map((link) => ({ context: contextOf(link), ...(link.attributes && { attributes: link.attributes }) })),
    events: events.map((event) => ({ name: event.name, time: timeOf(event.at), attributes: event.attributes })),
    ended: true,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  }
}

const contextOf = ({ traceId, spanId }: SpanRef): { traceId: string; spanId: string; traceFlags: number } => ({
  traceId,
  spanId,
  traceFlags: SAMPLED,
})

/** The time as seconds and nanoseconds. A time from history may be any value. */
function timeOf(given: number): [number, number] {
  const ms = Number.isSafeInteger(given) && given >= 0 ? given : 0
  return [Math.floor(ms / 1_000), (ms % 1_000) * 1_000_000]
}
