// Which telemetry is on, given a worker's option and the variables of OpenTelemetry.
import { describe, expect, it } from 'vitest'
import { isSampled } from '../../../src/telemetry/sampling.ts'
import { telemetrySettings } from '../../../src/worker/telemetry-settings.ts'

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }

describe('telemetry', () => {
  it('telemetry is off without a variable and without the option', () => {
    expect(telemetrySettings(undefined, {})).toBeUndefined()
    expect(telemetrySettings(undefined, { OTEL_SERVICE_NAME: 'desk', OTEL_EXPORTER_OTLP_ENDPOINT: ' ' })).toBeUndefined()
  })

  const traces = { protocol: 'http/protobuf', contents: false, share: 1 }
  const otlp = { protocol: 'http/protobuf', everyMs: 60_000, timeoutMs: 30_000 }
  const resource = { 'service.name': 'pawl' }

  it('telemetry is on with an exporter, the endpoint of a signal, or the option', () => {
    expect(telemetrySettings(undefined, { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces' })).toEqual({
      traces,
      resource,
    })
    expect(telemetrySettings(undefined, { OTEL_TRACES_EXPORTER: 'otlp' })).toEqual({ traces, resource })
    expect(telemetrySettings(undefined, { OTEL_METRICS_EXPORTER: 'otlp' })).toEqual({ metrics: { otlp }, resource })
    expect(telemetrySettings({}, {})).toEqual({ traces, metrics: { otlp }, resource })
  })

  it('an endpoint for all signals turns on each signal whose packages are installed', () => {
    const isImplied = true
    expect(telemetrySettings(undefined, ENDPOINT)).toEqual({ traces: { ...traces, isImplied }, metrics: { otlp, isImplied }, resource })
  })

  it('telemetry serves Prometheus at the port of the option or the variables, on this machine only by default', () => {
    const byVariable = { OTEL_METRICS_EXPORTER: 'prometheus, otlp', OTEL_EXPORTER_PROMETHEUS_PORT: '9999' }
    expect(telemetrySettings(undefined, byVariable)?.metrics).toEqual({ otlp, prometheus: { host: '127.0.0.1', port: 9_999 } })
    expect(telemetrySettings({ prometheus: {} }, {})).toEqual({ metrics: { prometheus: { host: '127.0.0.1', port: 9_464 } }, resource })
    expect(telemetrySettings({ prometheus: { port: 1_234, host: '0.0.0.0' } }, { OTEL_EXPORTER_PROMETHEUS_PORT: '9999' })?.metrics).toEqual(
      {
        prometheus: { host: '0.0.0.0', port: 1_234 },
      },
    )
  })

  it('telemetry exports metrics as often as the variable says', () => {
    const env = { OTEL_METRIC_EXPORT_INTERVAL: '5000' }
    expect(telemetrySettings({}, env)?.metrics?.otlp).toEqual({ ...otlp, everyMs: 5_000, timeoutMs: 5_000 })
  })

  it.each([
    ['OTEL_METRICS_EXPORTER', 'console', 'otlp, prometheus, none'],
    ['OTEL_METRIC_EXPORT_INTERVAL', '1s', 'a whole number'],
    ['OTEL_EXPORTER_PROMETHEUS_PORT', '70000', '65535'],
  ])('telemetry refuses %s=%s', (name, value, says) => {
    expect(() => telemetrySettings({ prometheus: {} }, { [name]: value })).toThrowError(new RegExp(`${name}.*${says}`))
  })

  it('telemetry that is switched off stays off, regardless of other settings', () => {
    expect(telemetrySettings(false, ENDPOINT)).toBeUndefined()
    expect(telemetrySettings({}, { ...ENDPOINT, OTEL_SDK_DISABLED: 'true' })).toBeUndefined()
    expect(telemetrySettings({}, { ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none', OTEL_METRICS_EXPORTER: 'none' })).toBeUndefined()
    expect(telemetrySettings({}, { ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' })?.traces).toBeUndefined()
  })

  it('telemetry has the resource attributes, and OTEL_SERVICE_NAME overrides any other service name', () => {
    const OTEL_RESOURCE_ATTRIBUTES = 'deployment.environment.name=live, service.name=other,team=a%20b,=x,bad'
    expect(telemetrySettings({}, { OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME: 'desk' })?.resource).toEqual({
      'service.name': 'desk',
      'deployment.environment.name': 'live',
      team: 'a b',
    })
  })

  it('telemetry has contents if the variable enables them and the option does not disable them', () => {
    const env = { OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'True' }
    expect(telemetrySettings({}, env)?.traces?.contents).toBe(true)
    expect(telemetrySettings({ contents: false }, env)?.traces?.contents).toBe(false)
  })

  it('telemetry exports the share that the sampler sets', () => {
    const share = (sampler: string, arg?: string) =>
      telemetrySettings({}, { OTEL_TRACES_SAMPLER: sampler, ...(arg && { OTEL_TRACES_SAMPLER_ARG: arg }) })?.traces?.share
    expect(share('always_off')).toBe(0)
    expect(share('parentbased_always_on')).toBe(1)
    expect(share('parentbased_traceidratio', '0.25')).toBe(0.25)
  })

  it('telemetry refuses variables that it cannot follow', () => {
    const refused = (env: Record<string, string>) => () => telemetrySettings({}, env)
    expect(refused({ OTEL_TRACES_EXPORTER: 'zipkin' })).toThrow(/OTEL_TRACES_EXPORTER is "zipkin". Set one of otlp, none/)
    expect(refused({ OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc' })).toThrow(/OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is "grpc"/)
    expect(refused({ OTEL_TRACES_SAMPLER: 'jaeger_remote' })).toThrow(/OTEL_TRACES_SAMPLER/)
    expect(refused({ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' })).toThrow(/a number from 0 to 1/)
  })
})

describe('a share of traces', () => {
  it('a share of traces is decided by the id alone: the same traces, and more of them in a larger share', () => {
    const ids = Array.from({ length: 64 }, (_, at) => `${(at * 67_108_864).toString(16).padStart(8, '0')}${'0'.repeat(24)}`)
    const sampled = (share: number) => ids.filter((id) => isSampled(id, share))
    expect(sampled(0)).toEqual([])
    expect(sampled(1)).toEqual(ids)
    expect(sampled(0.25)).toHaveLength(16)
    expect(sampled(0.5)).toEqual(expect.arrayContaining(sampled(0.25)))
  })
})
