// The workers of a deployment, as a page for operators shows them: which processes poll, which tasks wait, and which providers are overloaded.
import type { Client } from '@temporalio/client'
import { checkOptions, options, text } from '../../options/check.ts'
import type { Store } from '../../store/index.ts'
import { queueFacts } from '../doctor/temporal-facts.ts'
import { newestPolls } from '../doctor/judgements.ts'
import { type ShutGate, shutGatesIn } from '../doctor/shut-gates.ts'
import { storeOr } from '../no-store.ts'

/** A process that polls for tasks, or did so in the last few minutes. */
export interface WorkerProcess {
  /** Its name: machine and process. */
  identity: string
  /** Its build: the version of pawl and a digest of the workflow code. */
  build: string
  /** When it last polled, in milliseconds since 1970, by the clock of Temporal. An idle worker polls once a minute. */
  polledAt: number
}

/** What the workers of a deployment do. */
export interface WorkersReport {
  /** The task queue. */
  taskQueue: string
  /** The processes, the one that polled last first. Without any, no session continues. */
  workers: WorkerProcess[]
  /** Tasks that no worker has picked up yet, by task queue and type. Empty if the server does not report them. */
  backlog: { queue: string; type: 'workflow' | 'activity'; tasks: number; oldestMs: number }[]
  /** The rate gates that are shut: the calls of those accounts wait. */
  gates: ShutGate[]
}

/** The workers, and the rate gates that they share. */
export interface Workers {
  /**
   * The processes, tasks and gates now. @throws ConnectError `no_temporal` if the server does not answer; StoreError `store_unavailable`.
   */
  report(): Promise<WorkersReport>
  /**
   * Opens the rate gate of an account on all workers, because its provider accepts calls again. Returns whether it was shut.
   * @throws InvalidOptionError `invalid_option`; StoreError `no_store`, `store_unavailable`.
   */
  openGate(account: string, options: { by: string }): Promise<boolean>
}

const GATE = options({ account: text('an account, as report() names it'), by: text('text that says who opens it') })

export function workersOf({ client, store, taskQueue }: { client: Client; store: Store | undefined; taskQueue: string }): Workers {
  return {
    async report() {
      const [queues, gates] = await Promise.all([queueFacts(client, taskQueue), store ? shutGatesIn(store) : []])
      const polls = newestPolls(queues.flatMap(({ pollers }) => pollers)).sort((one, other) => other.at - one.at)
      return {
        taskQueue,
        workers: polls.map(({ identity, build, at: polledAt }) => ({ identity, build, polledAt })),
        backlog: queues.flatMap(({ name: queue, type, backlog }) =>
          backlog ? [{ queue, type, tasks: backlog.tasks, oldestMs: backlog.ageMs }] : [],
        ),
        gates,
      }
    },
    async openGate(account, given) {
      const { by } = checkOptions(GATE, { account, ...given })
      return storeOr(store).openGate(account, by)
    },
  }
}
