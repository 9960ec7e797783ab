// Replays kept histories against the workflow code as it is now, and hears the events that it makes.
import { Readable } from 'node:stream'
import type { LogEntry } from '../../src/session/events.ts'
import type { OpenExecution } from '../../src/worker/preflight/open-sessions.ts'
import { workflowBundle } from '../../src/worker/orchestrator/bundle.ts'
import { quietReplays, replayEach } from '../../src/worker/preflight/replaying.ts'
import type { KeptExecution } from './recording/kept.ts'

/** How a replay went. */
export interface Replayed {
  /** Why the history does not fit the workflow code; undefined if it does. */
  error: Error | undefined
  /** What the workflow told its event log, in order. */
  entries: LogEntry[]
}

/** Replays histories, one after another. */
export interface Replayer {
  replay(workflowId: string, execution: KeptExecution): Promise<Replayed>
  close(): Promise<void>
}

interface Asked extends OpenExecution {
  done(replayed: Replayed): void
}

/** Makes a replayer of the workflow code in `src/`, with one worker: starting one costs more than most replays. */
export async function startReplayer(): Promise<Replayer> {
  quietReplays()
  const asked = new Readable({ objectMode: true, read: () => undefined })
  const items = asked[Symbol.asyncIterator]() as AsyncIterator<Asked, undefined>
  const next = async (): Promise<Asked | undefined> => (await items.next()).value
  const { workflowBundle: bundle } = await workflowBundle({})
  const replaying = replayEach({ workflowBundle: bundle, dataConverter: {} }, 'default', next, async ({ done }, replayed) => done(replayed))
  return {
    // A replayer that has ended has failed.
    replay: (workflowId, { history }) =>
      Promise.race([
        new Promise<Replayed>((done) => asked.push({ workflowId, executionId: '', history, done })),
        replaying.then(() => Promise.reject(new Error('the replayer has ended'))),
      ]),
    close() {
      asked.push(null)
      return replaying
    },
  }
}
