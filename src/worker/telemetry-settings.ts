// What of telemetry is on: from the option of a worker and the variables of OpenTelemetry. Plain data, which every process of a worker gets.
import { InvalidOption } from '../options/errors.ts'
import type { TelemetryOptions } from './options.ts'

/** What is on; undefined members are off. */
export interface TelemetrySettings {
  traces?: TraceSettings
  /** What all signals say of where they come from. */
  resource: Record<string, string>
}

/** How spans are exported. */
export interface TraceSettings {
  protocol: Protocol
  /** Whether they have what users, models and tools said. */
  contents: boolean
  /** Which share of the traces is exported: 0 to 1. */
  share: number
}

/** How signals travel. */
export type Protocol = 'http/protobuf' | 'http/json'

type Environment = Readonly<Record<string, string | undefined>>

/**
 * The settings; undefined: telemetry is off. Without the option, it is on if the variables name an exporter or an endpoint.
 * @throws InvalidOption `invalid_option`, for a variable that pawl cannot follow.
 */
export function telemetrySettings(
  option: TelemetryOptions | false | undefined,
  env: Environment = process.env,
): TelemetrySettings | undefined {
  if (option === false || isTrue(env.OTEL_SDK_DISABLED)) return undefined
  const traces = tracesOf(option, env)
  return traces && { traces, resource: resourceOf(env) }
}

function tracesOf(option: TelemetryOptions | undefined, env: Environment): TraceSettings | undefined {
  const exporter = exporterIn(env, 'TRACES', ['otlp', 'none'])
  const isOn = exporter === 'otlp' || (exporter === undefined && (option !== undefined || hasEndpoint(env, 'TRACES')))
  if (!isOn) return undefined
  const share = shareOf(env)
  const contents = option?.contents ?? isTrue(env.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT)
  return { protocol: protocolOf(env, 'TRACES'), contents, share }
}

type Signal = 'TRACES'

function exporterIn<E extends string>(env: Environment, signal: Signal, known: readonly E[]): E | undefined {
  const name = `OTEL_${signal}_EXPORTER`
  const given = textOf(env[name])
  if (given === undefined) return undefined
  const exporter = known.find((one) => one === given)
  if (exporter) return exporter
  throw new InvalidOption(`${name} is ${JSON.stringify(given)}: set one of ${known.join(', ')}.`)
}

function hasEndpoint(env: Environment, signal: Signal): boolean {
  return (textOf(env.OTEL_EXPORTER_OTLP_ENDPOINT) ?? textOf(env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`])) !== undefined
}

const PROTOCOLS: readonly Protocol[] = ['http/protobuf', 'http/json']

function protocolOf(env: Environment, signal: Signal): Protocol {
  const own = `OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`
  const name = textOf(env[own]) === undefined ? 'OTEL_EXPORTER_OTLP_PROTOCOL' : own
  const given = textOf(env[name]) ?? 'http/protobuf'
  const protocol = PROTOCOLS.find((one) => one === given)
  if (protocol) return protocol
  throw new InvalidOption(`${name} is ${JSON.stringify(given)}: set one of ${PROTOCOLS.join(', ')}. Collectors accept them on port 4318.`)
}

/** Traces have no parent, so a sampler that follows its parent does what it does for roots. */
function shareOf(env: Environment): number {
  const sampler = textOf(env.OTEL_TRACES_SAMPLER)?.replace(/^parentbased_/, '') ?? 'always_on'
  if (sampler === 'always_on') return 1
  if (sampler === 'always_off') return 0
  if (sampler !== 'traceidratio') {
    const known = 'always_on, always_off, traceidratio, or one of them after parentbased_'
    throw new InvalidOption(`OTEL_TRACES_SAMPLER is ${JSON.stringify(env.OTEL_TRACES_SAMPLER)}: set ${known}.`)
  }
  const share = Number(textOf(env.OTEL_TRACES_SAMPLER_ARG) ?? '1')
  if (share >= 0 && share <= 1) return share
  throw new InvalidOption(`OTEL_TRACES_SAMPLER_ARG is ${JSON.stringify(env.OTEL_TRACES_SAMPLER_ARG)}: set a number from 0 to 1.`)
}

/** Nothing of the process, because each span has the same bytes whichever process exports it. */
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
