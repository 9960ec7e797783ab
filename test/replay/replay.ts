// Replays kept histories against the workflow code as it is now, and hears the events that it makes.
import { DefaultLogger, type InjectedSinks, type ReplayWorkerOptions, Runtime, Worker } from '@temporalio/worker'
import type { LogEntry } from '../../src/session/events.ts'
import { workflowBundle } from '../../src/worker/orchestrator/bundle.ts'
import type { PawlSinks } from '../../src/workflows/journal.ts'
import type { KeptExecution } from './recording/kept.ts'

/** How a replay went. */
export interface Replayed {
  /** Why the history does not fit the workflow code; undefined if it does. */
  error: Error | undefined
  /** What the workflow told its event log, in order. */
  entries: LogEntry[]
}

/** Replays histories. */
export interface Replayer {
  replay(workflowId: string, execution: KeptExecution): Promise<Replayed>
}

/** Makes a replayer of the workflow code in `src/`. */
export async function startReplayer(): Promise<Replayer> {
  Runtime.install({ logger: new DefaultLogger('ERROR') })
  const bundle: Partial<ReplayWorkerOptions> = await workflowBundle({})
  return {
    async replay(workflowId, { history }) {
      const entries: LogEntry[] = []
      const sinks: InjectedSinks<PawlSinks> = {
        pawl: {
          append: { fn: (_info, _epoch, more) => void entries.push(...more), callDuringReplay: true },
          stop: { fn: () => undefined },
        },
      }
      try {
        await Worker.runReplayHistory({ ...bundle, sinks }, history, workflowId)
        return { error: undefined, entries }
      } catch (error) {
        return { error: error as Error, entries }
      }
    },
  }
}
