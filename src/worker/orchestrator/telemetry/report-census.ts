// Reports how much is open and waiting in all sessions. Only one orchestrator of a deployment does so at a time, so that the sums are
// right.
import type { Logger } from '../../../agent/tool.ts'
import type { Census, CensusCount } from '../../../store/read/census.ts'
import type { Store } from '../../../store/store.ts'
import type { GaugeName, GaugeReading } from '../../../telemetry/instruments.ts'

const REPORTER = 'metrics'
/** How often the holder counts, and other orchestrators check whether the lease is free. */
const COUNT_MS = 15_000
const LEASE_MS = 40_000

/** The gauges that this process reports; none unless it holds the lease. */
export interface CensusReport {
  readings(): readonly GaugeReading[]
  end(): Promise<void>
}

/** Starts to count. While Postgres is unavailable, nothing is reported. */
export function reportCensus(store: Pick<Store, 'census' | 'leaseFeed' | 'releaseFeed'>, holder: string, logger: Logger): CensusReport {
  const reporter = { name: REPORTER, holder }
  let readings: readonly GaugeReading[] = []
  let isOver = false
  let timer: NodeJS.Timeout | undefined

  async function count(): Promise<void> {
    const begunAt = performance.now()
    try {
      const isMine = (await store.leaseFeed(reporter, LEASE_MS)) !== null
      readings = isMine ? readingsOf(await store.census()) : []
    } catch (err) {
      readings = []
      logger.debug({ err }, 'sessions could not be counted for metrics')
    }
    if (isOver) readings = []
    else timer = setTimeout(() => void count(), Math.max(1_000, begunAt + COUNT_MS - performance.now())).unref()
  }

  void count()
  return {
    readings: () => readings,
    async end() {
      isOver = true
      clearTimeout(timer)
      readings = []
      await store
        .releaseFeed(reporter)
        .catch((err: unknown) => logger.debug({ err }, 'the lease on the metrics could not be released; it expires by itself'))
    },
  }
}

function readingsOf({ sessions, errors, paused, calls, messages, unexported, feedDelayMs }: Census): GaugeReading[] {
  const of = (name: GaugeName, counted: readonly CensusCount[], label?: string): GaugeReading[] =>
    counted.map(({ agent, what, count }) => ({
      name,
      value: count,
      labels: { 'gen_ai.agent.name': agent, ...(label !== undefined && { [label]: what }) },
    }))
  return [
    ...of('pawl.sessions', sessions, 'pawl.status'),
    ...errors.flatMap(({ agent, what, count, needs, oldestMs }) => {
      const labels = { 'gen_ai.agent.name': agent, 'error.type': what, 'pawl.needs': needs }
      return [
        { name: 'pawl.sessions.error', value: count, labels },
        { name: 'pawl.error.age', value: oldestMs / 1_000, labels },
      ] as const
    }),
    ...paused.flatMap(({ agent, what, count, oldestMs }) => {
      const labels = { 'gen_ai.agent.name': agent, 'pawl.waits_for': what }
      return [
        { name: 'pawl.sessions.paused', value: count, labels },
        { name: 'pawl.pause.age', value: oldestMs / 1_000, labels },
      ] as const
    }),
    ...of('pawl.calls.waiting', calls, 'pawl.waits_for'),
    ...of('pawl.messages.waiting', messages),
    { name: 'pawl.feed.delay', value: feedDelayMs / 1_000, labels: {} },
    ...(unexported === undefined ? [] : [{ name: 'pawl.export.backlog', value: unexported, labels: {} } as const]),
  ]
}
