// Replays histories with this build's workflow code, one after another, and collects the events that it produces. Polls nothing.
import { DefaultLogger, type InjectedSinks, makeTelemetryFilterString, Runtime, type WorkerOptions } from '@temporalio/worker'
import type { LogEntry } from '../../session/events.ts'
import type { PawlSinks } from '../../workflows/journal.ts'
import { SessionsWorker } from '../orchestrator/temporal/sessions-worker.ts'
import type { WorkflowCode } from '../orchestrator/temporal/bundle.ts'
import type { OpenExecution } from './open-sessions.ts'

/** How a replay ended. */
export interface ReplayOutcome {
  /** The error that stopped the workflow code. */
  error: Error | undefined
  /** The events that it produced, in order. */
  entries: LogEntry[]
  /** The length of the history at the workflow task that produced the last event. */
  reached: number
}

/** Replays the executions that `next` returns, until `next` returns undefined. Calls `onReplayed` after each one, before the next. */
export async function replayEach<E extends OpenExecution>(
  code: WorkflowCode,
  namespace: string,
  next: () => Promise<E | undefined>,
  onReplayed: (execution: E, replayed: ReplayOutcome) => Promise<void>,
): Promise<void> {
  let current: E | undefined
  let entries: LogEntry[] = []
  let reached = 0
  const sinks: InjectedSinks<PawlSinks> = {
    pawl: {
      append: {
        callDuringReplay: true,
        fn({ historyLength }, _epoch, more) {
          entries.push(...more)
          reached = historyLength
        },
      },
      stop: { fn: () => undefined },
    },
  }

  async function* histories(): AsyncGenerator<{ workflowId: string; history: OpenExecution['history'] }> {
    for (current = await next(); current; current = await next()) {
      entries = []
      reached = 0
      yield current
    }
  }

  for await (const { error } of SessionsWorker.runReplayHistories({ ...code, ...asServed(namespace), sinks }, histories())) {
    if (current) await onReplayed(current, { error, entries, reached })
  }
}

/**
 * Runs the workflow code as workers do: in its own thread, with the namespace that codecs may depend on. The SDK's type lacks these
 * options.
 */
function asServed(namespace: string): object {
  return {
    namespace,
    debugMode: false,
    workflowThreadPoolSize: 1,
  } satisfies Partial<WorkerOptions>
}

/**
 * Silences the SDK, which prints a stack trace for each history that cannot be replayed, and leaves signals to the caller. This lasts as
 * long as replays run, because the SDK's runtime ends with its last worker.
 */
export function quietReplays(): void {
  try {
    Runtime.install({
      logger: new DefaultLogger('ERROR', () => undefined),
      shutdownSignals: [],
      telemetryOptions: { logging: { filter: makeTelemetryFilterString({ core: 'ERROR' }) } },
    })
  } catch {
    // The caller has already installed a runtime or created a worker.
  }
}
