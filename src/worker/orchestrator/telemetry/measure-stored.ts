// Measures events once Postgres has accepted them: each event once, whichever orchestrator it came through.
import { LRUCache } from 'lru-cache'
import type { Logger } from '../../../agent/tool.ts'
import type { SessionEvent } from '../../../session/events.ts'
import type { WrittenEvents } from '../../../store/rows.ts'
import type { Store } from '../../../store/store.ts'
import { measurementOfEnding, measurementsOf } from '../../../telemetry/measure.ts'
import type { Recorder } from './meters.ts'

/** For how many sessions the start of the run is remembered. */
const RUNS_KEPT = 10_000
const MS = 1_000

/** Returns the listener for stored events. It never throws, because a flush must not fail because of it. */
export function measureStored(
  record: Recorder,
  store: Pick<Store, 'newestRun' | 'events'>,
  logger: Logger,
): (stored: WrittenEvents) => void {
  const runs = new LRUCache<string, { run: number; startedAt: number }>({ max: RUNS_KEPT })

  function measure({ sessionId, agent, events, endings }: WrittenEvents): void {
    const [oldest] = events
    if (oldest) record('pawl.flush.lag', Math.max(0, Date.now() - oldest.at) / MS, {})
    for (const ending of endings) {
      const { name, value, labels } = measurementOfEnding(ending, agent)
      record(name, value, labels)
    }
    for (const event of events) {
      for (const { name, value, labels } of measurementsOf(event, agent)) record(name, value, labels)
      if (event.type === 'run_started') runs.set(sessionId, { run: event.run, startedAt: event.at })
      if (event.type === 'run_completed' || event.type === 'run_interrupted') void measureRun(sessionId, agent, event)
    }
  }

  async function measureRun(sessionId: string, agent: string, { run, at, seq, type }: EndOfRun): Promise<void> {
    try {
      const known = runs.get(sessionId)
      const startedAt = known?.run === run ? known.startedAt : await startOf(sessionId, run, seq)
      runs.delete(sessionId)
      if (startedAt === undefined) return
      const labels = { 'gen_ai.agent.name': agent, 'pawl.outcome': type === 'run_completed' ? 'completed' : 'interrupted' }
      record('gen_ai.invoke_agent.duration', Math.max(0, at - startedAt) / MS, labels)
    } catch (err) {
      logger.debug({ err, session: sessionId }, 'the duration of a run could not be measured')
    }
  }

  /** Reads the start of a run that another orchestrator stored. */
  async function startOf(sessionId: string, run: number, before: number): Promise<number | undefined> {
    const seq = await store.newestRun(sessionId, before)
    const [event] = seq === null ? [] : await store.events(sessionId, { after: seq - 1, limit: 1 })
    return event?.type === 'run_started' && event.run === run ? event.at : undefined
  }

  return (stored) => {
    try {
      measure(stored)
    } catch (err) {
      logger.debug({ err, session: stored.sessionId }, 'stored events could not be measured')
    }
  }
}

type EndOfRun = Extract<SessionEvent, { type: 'run_completed' | 'run_interrupted' }>
