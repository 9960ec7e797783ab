// Replays kept histories against the workflow code of the last build and collects the events that it makes.
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { LogEntry } from '../../src/session/events.ts'
import type { OpenExecution } from '../../src/worker/preflight/open-sessions.ts'
import type { WorkflowCode } from '../../src/worker/orchestrator/temporal/bundle.ts'
import { quietReplays, replayEach } from '../../src/worker/preflight/replaying.ts'
import type { KeptExecution } from './recording/kept.ts'

/**
 * The workflow bundle that the package contains, as `npm run build` made it. To bundle `src/` again would take longer than the replays.
 * The payload converter is part of it.
 */
export const BUILT: WorkflowCode = {
  workflowBundle: { codePath: fileURLToPath(new URL('../../dist/workflow-bundle.js', import.meta.url)) },
  dataConverter: {},
}

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

interface ReplayRequest extends OpenExecution {
  done(replayed: Replayed): void
}

/** Makes a replayer for the built workflow code, with a single worker: starting a worker costs more than most replays. */
export async function startReplayer(): Promise<Replayer> {
  quietReplays()
  const asked = new Readable({ objectMode: true, read: () => undefined })
  const items = asked[Symbol.asyncIterator]() as AsyncIterator<ReplayRequest, undefined>
  const next = async (): Promise<ReplayRequest | undefined> => (await items.next()).value
  const replaying = replayEach(BUILT, 'default', next, async ({ done }, replayed) => done(replayed))
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
