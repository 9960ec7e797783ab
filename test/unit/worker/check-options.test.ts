// Which options a supervisor and a worker refuse.
import { describe, expect, it } from 'vitest'
import { checkCreate, checkPreflight, checkSupervise } from '../../../src/worker/check-options.ts'
import { createWorker } from '../../../src/worker/one-process/index.ts'
import type { CreateWorkerOptions, SuperviseOptions } from '../../../src/worker/options.ts'
import { preflight } from '../../../src/worker/preflight/index.ts'
import { superviseWorkers } from '../../../src/worker/parent/supervise.ts'

const PEM = Buffer.from('-----BEGIN CERTIFICATE-----')

const refusal = (message: string) =>
  expect.objectContaining({ name: 'InvalidOptionError', code: 'invalid_option', message: expect.stringContaining(message) })

describe('a supervisor', () => {
  it('a supervisor has two executors by default, and allows a minute for a blocked loop and for loading the module', () => {
    expect(checkSupervise({ module: './agents.ts' })).toMatchObject({ processes: 2, stuckLoopMs: 60_000, loadTimeoutMs: 60_000 })
  })

  it('a supervisor accepts durations in milliseconds and as text', () => {
    expect(checkSupervise({ module: 'a', stuckLoop: 4_000, loadTimeout: '2m' })).toMatchObject({
      stuckLoopMs: 4_000,
      loadTimeoutMs: 120_000,
    })
    expect(checkSupervise({ module: 'a', stuckLoop: '110s' })).toMatchObject({ stuckLoopMs: 110_000 })
  })

  it.each<[string, object, string]>([
    ['no process', { processes: 0 }, '`processes` must be an integer from 1 to 64, not 0.'],
    ['half a process', { processes: 1.5 }, '`processes` must be an integer from 1 to 64, not 1.5.'],
    ['more processes than a machine has', { processes: 65 }, '`processes` must be an integer from 1 to 64, not 65.'],
    ['no module', { module: undefined }, '`module` is required: the path of the module'],
    [
      'a limit for a stuck loop that outlasts its sessions',
      { stuckLoop: 110_001 },
      "`stuckLoop` must be a number of milliseconds or a string such as '30s', above 0 and at most '110s', not 110,001: a stuck",
    ],
    ['an invalid limit for a stuck loop', { stuckLoop: Number.NaN }, "at most '110s', not NaN: "],
    ['a number as text', { stuckLoop: '60000' }, 'not "60000": a stuck executor'],
    ['a misspelt name', { stukLoop: 60_000 }, 'There is no option stukLoop: did you mean stuckLoop?'],
    ['a name with two letters exchanged', { procesess: 2 }, 'There is no option procesess: did you mean processes?'],
    ['a name that resembles no option', { workforce: 2 }, 'There is no option workforce: the options are module, processes, '],
    [
      'an address with a name that is not its own',
      { temporal: { adress: 'x:1' } },
      'There is no option temporal.adress: did you mean temporal.address?',
    ],
    ['an unknown migration mode', { migrate: 'always' }, "`migrate` must be 'auto', 'check' or 'off', not \"always\"."],
    ['a converter itself', { dataConverter: {} }, '`dataConverter` must be the path of a module that exports a dataConverter, not {}.'],
    ['TLS as text', { temporal: { tls: 'true' } }, '`temporal.tls` must be true, false or an object'],
    ['a certificate as text', { temporal: { tls: { serverRootCACertificate: 'PEM' } } }, '`temporal.tls` must be'],
    ['a certificate without its key', { temporal: { tls: { clientCertPair: { crt: Buffer.from('x') } } } }, '`temporal.tls` must be'],
    ['telemetry as a flag', { telemetry: true }, '`telemetry` must be false or an object, not true.'],
    [
      'a misspelt port',
      { telemetry: { prometheus: { prt: 1 } } },
      'There is no option telemetry.prometheus.prt: did you mean telemetry.prometheus.port?',
    ],
    ['what is not a logger', { logger: console.log }, '`logger` must be a logger'],
  ])('a supervisor is refused with %s', (_, options, message) => {
    expect(() => checkSupervise({ module: './agents.ts', ...options } as SuperviseOptions)).toThrow(refusal(message))
  })

  it('a supervisor is refused before a process is started', async () => {
    await expect(superviseWorkers({ module: './agents.ts', processes: 0 })).rejects.toEqual(refusal('`processes` must be an integer'))
  })
})

describe('a worker in one process', () => {
  it('a worker in one process without agents is refused with the function that lacks them', async () => {
    const message = 'The worker serves no agents. Pass at least one to createWorker({ agents: [ … ] }).'
    await expect(createWorker({} as CreateWorkerOptions)).rejects.toMatchObject({ code: 'no_agents', message })
  })

  it.each<[string, object]>([
    ['a converter by path', { dataConverter: { payloadConverterPath: '/converter.js', failureConverterPath: undefined } }],
    ['codecs', { dataConverter: { payloadCodecs: [{ encode: () => [], decode: () => [] }] } }],
    ['interceptors', { interceptors: { client: {}, activity: [() => ({})], workflowModules: ['/interceptors.js'] } }],
    ['a tuner', { tuner: { tunerOptions: { targetMemoryUsage: 0.8, targetCpuUsage: 0.9 } } }],
    ['TLS by the system’s certificates', { temporal: { tls: true } }],
    ['TLS without a configuration', { temporal: { tls: null } }],
    ['mutual TLS', { temporal: { tls: { serverRootCACertificate: PEM, clientCertPair: { crt: PEM, key: new Uint8Array(PEM) } } } }],
  ])('a worker in one process accepts %s', (_, options) => {
    expect(() => checkCreate({ agents: [], ...options } as CreateWorkerOptions)).not.toThrow()
  })

  it.each<[string, object, string]>([
    ['a misspelt option', { servicse: {} }, 'There is no option servicse: did you mean services?'],
    ['an empty task queue', { taskQueue: '' }, '`taskQueue` must be a task queue\'s name, not "".'],
    ['a path for a converter', { dataConverter: './converter.ts' }, '`dataConverter` must be a DataConverter'],
    ['one codec for a list', { dataConverter: { payloadCodecs: {} } }, '`dataConverter` must be a DataConverter'],
    ['a path for interceptors', { interceptors: './interceptors.ts' }, '`interceptors` must be'],
    ['one interceptor for a list', { interceptors: { activity: () => ({}) } }, '`interceptors` must be'],
    ['a number for a tuner', { tuner: 5 }, '`tuner` must be'],
    ['an invalid Postgres address', { postgres: 5432 }, '`postgres` must be a URL'],
  ])('a worker in one process is refused with %s', (_, options, message) => {
    expect(() => checkCreate({ agents: [], ...options } as CreateWorkerOptions)).toThrow(refusal(message))
  })
})

describe('a preflight', () => {
  it('a preflight replays as many histories at once as there are cores, but not more than four', () => {
    const { concurrency, loadTimeoutMs } = checkPreflight({})
    expect([Math.min(Math.max(concurrency, 1), 4), loadTimeoutMs]).toEqual([concurrency, 60_000])
  })

  it.each<[string, object, string]>([
    ['a number for a converter', { dataConverter: 5 }, '`dataConverter` must be the path of a module, or a DataConverter'],
    ['a number for interceptors', { interceptors: 5 }, '`interceptors` must be the path of a module, or '],
    ['an empty sample', { sample: 0 }, '`sample` must be an integer from 1, not 0.'],
    ['no concurrency', { concurrency: 0 }, '`concurrency` must be an integer from 1 to 32, not 0.'],
    ['an invalid signal', { signal: true }, '`signal` must be an AbortSignal, not true.'],
    ['a misspelt name', { taskQeue: 'a' }, 'did you mean taskQueue?'],
  ])('a preflight is refused: %s', async (_, given, message) => {
    await expect(preflight(given)).rejects.toEqual(refusal(message))
  })
})
