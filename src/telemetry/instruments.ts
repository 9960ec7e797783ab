// The instruments: names, units and buckets, by OpenTelemetry's conventions for generative AI if they define a name.

/** How an instrument aggregates. `gauge`: the current value, read when metrics are collected. */
export type InstrumentKind = 'counter' | 'histogram' | 'gauge'

export interface Instrument {
  kind: InstrumentKind
  /** The unit, as a UCUM code. */
  unit: string
  description: string
  /** Upper bounds of a histogram's buckets. */
  buckets?: readonly number[]
}

/** The convention's buckets for model and tool calls, in seconds. */
const SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
/** Buckets for runs, which may wait for a person, in seconds. */
const RUN_SECONDS = [0.1, 0.4, 1.6, 6.4, 25.6, 102.4, 409.6, 1_638.4, 6_553.6, 26_214.4, 104_857.6]
const SHORT_SECONDS = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 60, 600, 3_600]
const TOKENS = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864]

const seconds = (description: string, buckets: readonly number[] = SECONDS) =>
  ({ kind: 'histogram', unit: 's', description, buckets }) as const
const counter = (unit: string, description: string) => ({ kind: 'counter', unit, description }) as const
const gauge = (unit: string, description: string) => ({ kind: 'gauge', unit, description }) as const

/** The instruments by name. */
export const INSTRUMENTS = {
  'pawl.runs.started': counter('{run}', 'Runs that began.'),
  'pawl.runs': counter('{run}', 'Runs that ended, by outcome.'),
  'pawl.turns': counter('{turn}', 'Turns that began.'),
  'pawl.errors': counter('{error}', 'Times that a session entered an error, by code.'),
  'pawl.error.duration': seconds('Time that a session spent in an error, by code and by whether a person ended it.', RUN_SECONDS),
  'pawl.incidents': counter(
    '{incident}',
    'Failed runs that recovered automatically, that a person recovered, or that were rolled back or abandoned.',
  ),
  'pawl.recoveries': counter('{recovery}', 'Recoveries whose run has ended or failed again, and those that were refused.'),
  'pawl.attempts.failed': counter('{attempt}', 'Failed attempts of model calls and tool calls, by whether they may be retried.'),
  'pawl.usd': counter('{USD}', 'Cost of model calls, where the price is known.'),
  'gen_ai.client.token.usage': {
    kind: 'histogram',
    unit: '{token}',
    description: 'Input and output tokens of a model call.',
    buckets: TOKENS,
  },
  'gen_ai.invoke_agent.duration': seconds('From the beginning of a run to its end.', RUN_SECONDS),
  'gen_ai.client.operation.duration': seconds('A request to a model, whether it succeeds or not.'),
  'gen_ai.client.operation.time_to_first_chunk': seconds('From a request to a model to the first piece of its streamed answer.'),
  'gen_ai.execute_tool.duration': seconds('From the start of a tool body to its end.'),
  'pawl.flush.lag': seconds('From an event until it is stored in Postgres.', SHORT_SECONDS),
  'pawl.executor.deaths': counter('{process}', 'Executors that died, by cause.'),
  'pawl.resume.duration': seconds('From the death of an executor until another one runs its call.', SHORT_SECONDS),
  'pawl.executors': gauge('{process}', 'Executors that are connected.'),
  'pawl.jobs': gauge('{job}', 'Model calls, tool calls and other jobs assigned to executors.'),
  'pawl.temporal.away': gauge('s', 'How long Temporal has been unavailable to this worker; 0 while it answers.'),
  'pawl.sessions': gauge('{session}', 'Open sessions by status.'),
  'pawl.sessions.error': gauge('{session}', 'Sessions in error by code, and by whether they need a person.'),
  'pawl.error.age': gauge('s', 'The longest time that one of these sessions has been in error.'),
  'pawl.sessions.paused': gauge('{session}', 'Paused sessions, by whether a person must unpause them or raise their budget.'),
  'pawl.pause.age': gauge('s', 'The longest time that one of these sessions has been paused.'),
  'pawl.calls.waiting': gauge('{call}', 'Tool calls that wait for a person or a client.'),
  'pawl.messages.waiting': gauge('{message}', 'Messages that are not in a turn yet.'),
  'pawl.feed.delay': gauge('s', 'Time for which stored events have been missing from the feed; 0 unless it is held up for seconds.'),
  'pawl.export.backlog': gauge('{flush}', 'Flushes whose spans are not exported yet, up to 10,000.'),
} as const satisfies Record<string, Instrument>

export type InstrumentName = keyof typeof INSTRUMENTS
/** The instruments that are read when metrics are collected. */
export type GaugeName = { [N in InstrumentName]: (typeof INSTRUMENTS)[N]['kind'] extends 'gauge' ? N : never }[InstrumentName]
/** The instruments that are recorded as things happen. */
export type RecordedName = Exclude<InstrumentName, GaugeName>

/** The attributes of a measurement. */
export type Labels = Record<string, string | boolean>

export interface Measurement {
  name: RecordedName
  value: number
  labels: Labels
}

/** The value of a gauge. */
export interface GaugeReading {
  name: GaugeName
  value: number
  labels: Labels
}
