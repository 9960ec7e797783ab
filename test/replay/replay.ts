// Replays kept histories against the current workflow code and collects the events that it makes.
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
  /** What the workflow wrote to its event log, in order. */
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

/** Makes a replayer for the workflow code in `src/`, with a single worker: starting a worker costs more than most replays. */
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
