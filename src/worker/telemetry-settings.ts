// Decides which parts of telemetry are on, from a worker's option and OpenTelemetry's variables. Plain data that a worker's processes
// receive.
import { InvalidOptionError } from '../options/errors.ts'
import { defined } from '../session/defined.ts'
import type { TelemetryOptions } from './options.ts'

/** The parts that are on; undefined members are off. */
export interface TelemetrySettings {
  traces?: TraceSettings
  metrics?: MetricSettings
  /** The attributes that name the source of all signals. */
  resource: Record<string, string>
}

/** How spans are exported. */
export interface TraceSettings {
  protocol: Protocol
  /** Whether they contain what users, models and tools said. */
  contents: boolean
  /** The share of traces to export: 0 to 1. */
  share: number
  /** Only an endpoint for all signals has turned traces on. */
  isImplied?: true
}

/** How metrics are exported, in at least one way. */
export interface MetricSettings {
  otlp?: { protocol: Protocol; everyMs: number; timeoutMs: number }
  /** Where Prometheus scrapes them. */
  prometheus?: { host: string; port: number }
  /** As for traces. */
  isImplied?: true
}

/** What executors need to know of traces. */
export type SpanSettings = Pick<TraceSettings, 'protocol' | 'share' | 'isImplied'>

/** The packages that export traces. */
export function tracePackages(protocol: Protocol): string[] {
  const kind = protocol === 'http/json' ? 'http' : 'proto'
  return [`@opentelemetry/exporter-trace-otlp-${kind}`, '@opentelemetry/resources']
}

/** The encoding of exported signals. */
export type Protocol = 'http/protobuf' | 'http/json'

type Environment = Readonly<Record<string, string | undefined>>

/**
 * The settings; undefined if telemetry is off. Without the option, it is on if the variables name an exporter or an endpoint.
 * @throws InvalidOptionError `invalid_option`, for a variable with a value that pawl does not support.
 */
export function telemetrySettings(
  option: TelemetryOptions | false | undefined,
  env: Environment = process.env,
): TelemetrySettings | undefined {
  if (option === false || isTrue(env.OTEL_SDK_DISABLED)) return undefined
  const traces = tracesOf(option, env)
  const metrics = metricsOf(option, env)
  return traces || metrics ? { ...defined({ traces, metrics }), resource: resourceOf(env) } : undefined
}

function tracesOf(option: TelemetryOptions | undefined, env: Environment): TraceSettings | undefined {
  const exporters = exportersIn(env, 'TRACES', ['otlp'])
  const by = otlpBy(option, env, 'TRACES', exporters)
  if (!by) return undefined
  const share = shareOf(env)
  const contents = option?.contents ?? isTrue(env.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT)
  return { protocol: protocolOf(env, 'TRACES'), contents, share, ...by }
}

function metricsOf(option: TelemetryOptions | undefined, env: Environment): MetricSettings | undefined {
  const exporters = exportersIn(env, 'METRICS', ['otlp', 'prometheus'])
  const by = otlpBy(option, env, 'METRICS', exporters)
  const isServed = option?.prometheus !== undefined || exporters?.has('prometheus')
  if (!by && !isServed) return undefined
  const everyMs = numberIn(env, 'OTEL_METRIC_EXPORT_INTERVAL', { min: 1, otherwise: 60_000 })
  const timeoutMs = Math.min(everyMs, numberIn(env, 'OTEL_METRIC_EXPORT_TIMEOUT', { min: 1, otherwise: 30_000 }))
  return {
    ...(by && { otlp: { protocol: protocolOf(env, 'METRICS'), everyMs, timeoutMs } }),
    ...(isServed && { prometheus: prometheusAt(option, env) }),
    // A worker that was asked to serve metrics fails if it cannot.
    ...(!isServed && by),
  }
}

/** OpenTelemetry's port in Prometheus's list of default ports. */
const PROMETHEUS_PORT = 9_464

function prometheusAt(option: TelemetryOptions | undefined, env: Environment): { host: string; port: number } {
  const { host = textOf(env.OTEL_EXPORTER_PROMETHEUS_HOST) ?? '127.0.0.1', port } = option?.prometheus ?? {}
  return { host, port: port ?? numberIn(env, 'OTEL_EXPORTER_PROMETHEUS_PORT', { min: 1, max: 65_535, otherwise: PROMETHEUS_PORT }) }
}

type Signal = 'TRACES' | 'METRICS'

/** Whether the signal is exported over OTLP, and whether only a variable for all signals says so. */
function otlpBy(
  option: TelemetryOptions | undefined,
  env: Environment,
  signal: Signal,
  exporters: ReadonlySet<string> | undefined,
): { isImplied?: true } | undefined {
  if (exporters) return exporters.has('otlp') ? {} : undefined
  const isAsked = (option !== undefined && option.prometheus === undefined) || option?.contents !== undefined
  if (isAsked || textOf(env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`]) !== undefined) return {}
  return textOf(env.OTEL_EXPORTER_OTLP_ENDPOINT) === undefined ? undefined : { isImplied: true }
}

/** The exporters of the signal; undefined if the variable is not set. */
function exportersIn(env: Environment, signal: Signal, known: readonly string[]): ReadonlySet<string> | undefined {
  const name = `OTEL_${signal}_EXPORTER`
  const given = textOf(env[name])
  if (given === undefined) return undefined
  const exporters = new Set(given.split(',').map((one) => one.trim()))
  for (const exporter of exporters) {
    if (exporter === 'none' || known.includes(exporter)) continue
    throw new InvalidOptionError(`${name} is ${JSON.stringify(given)}. Set one of ${[...known, 'none'].join(', ')}.`)
  }
  return exporters.has('none') ? new Set() : exporters
}

function numberIn(
  env: Environment,
  name: string,
  { min, max = 2 ** 31 - 1, otherwise }: { min: number; max?: number; otherwise: number },
): number {
  const given = textOf(env[name])
  if (given === undefined) return otherwise
  const value = Number(given)
  if (Number.isInteger(value) && value >= min && value <= max) return value
  throw new InvalidOptionError(`${name} is ${JSON.stringify(given)}. Set a whole number from ${min} to ${max}.`)
}

const PROTOCOLS: readonly Protocol[] = ['http/protobuf', 'http/json']

function protocolOf(env: Environment, signal: Signal): Protocol {
  const own = `OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`
  const name = textOf(env[own]) === undefined ? 'OTEL_EXPORTER_OTLP_PROTOCOL' : own
  const given = textOf(env[name]) ?? 'http/protobuf'
  const protocol = PROTOCOLS.find((one) => one === given)
  if (protocol) return protocol
  throw new InvalidOptionError(
    `${name} is ${JSON.stringify(given)}. Set one of ${PROTOCOLS.join(', ')}. Collectors accept them on port 4318.`,
  )
}

/** Traces have no parent, so a parent-based sampler behaves as it does for root spans. */
function shareOf(env: Environment): number {
  const sampler = textOf(env.OTEL_TRACES_SAMPLER)?.replace(/^parentbased_/, '') ?? 'always_on'
  if (sampler === 'always_on') return 1
  if (sampler === 'always_off') return 0
  if (sampler !== 'traceidratio') {
    const known = 'always_on, always_off, traceidratio, or one of them after parentbased_'
    throw new InvalidOptionError(`OTEL_TRACES_SAMPLER is ${JSON.stringify(env.OTEL_TRACES_SAMPLER)}. Set ${known}.`)
  }
  const share = Number(textOf(env.OTEL_TRACES_SAMPLER_ARG) ?? '1')
  if (share >= 0 && share <= 1) return share
  throw new InvalidOptionError(`OTEL_TRACES_SAMPLER_ARG is ${JSON.stringify(env.OTEL_TRACES_SAMPLER_ARG)}: set a number from 0 to 1.`)
}

/** It contains nothing about the process, because a span must have the same bytes whichever process exports it. */
function resourceOf(env: Environment): Record<string, string> {
  const resource: Record<string, string> = { 'service.name': 'pawl' }
  for (const pair of (env.OTEL_RESOURCE_ATTRIBUTES ?? '').split(',')) {
    const at = pair.indexOf('=')
    const name = pair.slice(0, Math.max(at, 0)).trim()
    if (name !== '') resource[name] = decoded(pair.slice(at + 1).trim())
  }
  const service = textOf(env.OTEL_SERVICE_NAME)
  return service === undefined ? resource : { ...resource, 'service.name': service }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const textOf = (value: string | undefined): string | undefined => (value === undefined || value.trim() === '' ? undefined : value.trim())
const isTrue = (value: string | undefined): boolean => textOf(value)?.toLowerCase() === 'true'
