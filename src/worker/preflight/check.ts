// Checks sessions in parallel lanes: each fetches a history, replays it, compares the events, and asks the module.
import type { Client } from '@temporalio/client'
import { inLanes } from '../../waiting/concurrently.ts'
import { sessionIdOf } from '../../session/protocol/protocol.ts'
import type { WorkflowCode } from '../orchestrator/temporal/bundle.ts'
import type { CheckedSession, PreflightProblem } from '../preflight-report.ts'
import type { Checker } from './checker.ts'
import { problemOf } from './differences.ts'
import { fetchOpen, type ListedExecution, type OpenExecution } from './open-sessions.ts'
import { readRecorded, type RecordedHistory } from './recorded.ts'
import { type ReplayOutcome, replayEach } from './replaying.ts'
import { replayedSessionOf } from './replayed-session.ts'
import type { StoredSide } from './stored.ts'
import type { Tally } from './tally.ts'

export interface SessionCheckNeeds {
  client: Client
  code: WorkflowCode
  checker: Checker | undefined
  stored: StoredSide | undefined
  tally: Tally
  /** How many sessions are checked at the same time. */
  concurrency: number
  signal: AbortSignal | undefined
}

/** A session whose history could be read. */
interface Readable extends OpenExecution {
  recorded: RecordedHistory
}

/** The SDK's error for workers that were shut down. The runtime of a caller's program shuts them down on SIGINT and SIGTERM. */
const SHUTDOWN = 'ShutdownError'

/** Checks all sessions. Rejects if no further check is possible: Temporal's list fails, or the module's process has exited. */
export async function checkAll(checking: SessionCheckNeeds, sessions: AsyncGenerator<ListedExecution>): Promise<void> {
  const { client, code, tally, signal, concurrency } = checking
  const everyLane = meeting(concurrency)
  let hasFailed = false

  async function next(): Promise<Readable | undefined> {
    while (!hasFailed && !signal?.aborted) {
      const { done, value } = await sessions.next()
      if (done) return undefined
      const readable = await read(checking, value)
      if (readable) return readable
    }
    if (signal?.aborted) tally.stop()
    return undefined
  }

  /** The SDK's runtime ends with its last worker, even while another one is being created. */
  async function nextOrEnd(): Promise<Readable | undefined> {
    const session = await next()
    if (!session) await everyLane.arrive()
    return session
  }

  /** Checks one history at a time. If the SDK's worker fails, the session counts as unread, and another worker continues. */
  async function lane(): Promise<void> {
    for (;;) {
      let current: Readable | undefined
      try {
        const take = async (): Promise<Readable | undefined> => (current = await nextOrEnd())
        return await replayEach(code, client.options.namespace, take, async (session, replayed) => {
          current = undefined
          await judge(checking, session, replayed)
        })
      } catch (error) {
        if (error instanceof Error && error.name === SHUTDOWN) return tally.stop()
        if (!current) throw error
        tally.add(unread(current, 'replay_failed', error))
      }
    }
  }

  await inLanes(concurrency, async () => {
    try {
      await lane()
    } catch (error) {
      hasFailed = true
      void everyLane.arrive()
      throw error
    }
  })
}

/** A barrier: `arrive` resolves once `size` lanes have arrived. */
function meeting(size: number): { arrive(): Promise<void> } {
  let arrived = 0
  let open = (): void => undefined
  const isComplete = new Promise<void>((resolve) => {
    open = resolve
  })
  return {
    arrive() {
      arrived += 1
      if (arrived >= size) open()
      return isComplete
    },
  }
}

/** The session with its history. Undefined if it has closed or cannot be read; it is then counted as such. */
async function read({ client, tally }: SessionCheckNeeds, listed: ListedExecution): Promise<Readable | undefined> {
  let open: OpenExecution | undefined
  try {
    open = await fetchOpen(client, listed)
  } catch (error) {
    tally.add(unread(listed, 'history_unavailable', error))
    return undefined
  }
  if (!open) {
    tally.add({ ...idsOf(listed), outcome: 'closed', warnings: [] })
    return undefined
  }
  try {
    return { ...open, recorded: await readRecorded(open.history, client.options.loadedDataConverter) }
  } catch (error) {
    tally.add(unread(open, 'undecodable', error))
    return undefined
  }
}

async function judge({ checker, stored, tally }: SessionCheckNeeds, session: Readable, replayed: ReplayOutcome): Promise<void> {
  const place = idsOf(session)
  const problem = problemOf(session.history, session.recorded, replayed)
  if (problem) {
    const outcome = problem.code === 'replay_failed' ? 'unread' : 'breaks'
    const narrowed = (await stored?.narrow(place.sessionId, problem, replayed.entries)) ?? problem
    return tally.add({ ...place, outcome, problem: narrowed, warnings: [] })
  }
  const replayedSession = checker && replayedSessionOf(session.recorded, replayed.entries)
  tally.add({ ...place, outcome: 'replays', warnings: replayedSession ? await checker.check(replayedSession) : [] })
}

type FoundSession = ListedExecution & Partial<OpenExecution>

function idsOf({ workflowId, executionId, history }: FoundSession): Pick<CheckedSession, 'sessionId' | 'executionId' | 'historyLength'> {
  return { sessionId: sessionIdOf(workflowId), executionId, historyLength: history?.events?.length ?? 0 }
}

const UNREAD = {
  history_unavailable: 'The history could not be fetched. Run the preflight again.',
  undecodable: "A payload of the history cannot be decoded. Use the workers' own data converter.",
  replay_failed: 'The replay itself failed.',
} satisfies Partial<Record<PreflightProblem['code'], string>>

function unread(found: FoundSession, code: keyof typeof UNREAD, error: unknown): CheckedSession {
  const cause = error instanceof Error ? error.message : String(error)
  return { ...idsOf(found), outcome: 'unread', problem: { code, message: `${UNREAD[code]} (${cause})` }, warnings: [] }
}
