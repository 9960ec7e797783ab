// How an execution of a session begins: new, carried over by continue-as-new, or gone on with from the store.
import { condition, workflowInfo } from '@temporalio/workflow'
import type { Json } from '../session/json.ts'
import { CORE_VERSION, sessionIdOf, type SessionStart } from '../session/protocol.ts'
import { loadSession } from './activities.ts'
import { type Journal, openJournal } from './journal.ts'

const NOTHING = { seq: 0, digest: '' }

/** Opens the session's journal. `early` fills with what is signalled meanwhile. */
export async function openSession(start: SessionStart, early: readonly unknown[]): Promise<{ journal: Journal; previous?: string }> {
  const { carried } = start
  if (carried) {
    const { state, digest, previous } = carried
    return { journal: openJournal({ seq: state.seq, digest }, state), previous }
  }
  const { runId: executionId, workflowId } = workflowInfo()
  const loaded = start.isNew ? ({ found: false } as const) : await loadSession()
  if (loaded.found) {
    const { state, digest } = loaded
    const fromEpoch = state.epoch
    const journal = openJournal({ seq: state.seq, digest }, { ...state, epoch: executionId })
    journal.append({ type: 'session_resumed', executionId, fromEpoch, coreVersion: CORE_VERSION })
    if (state.current) journal.append({ type: 'run_interrupted', run: state.current.run, reason: 'its workflow had ended' })
    return { journal }
  }
  const journal = openJournal(NOTHING, undefined)
  const named = start.agent === undefined ? await firstAgent(early) : { agent: start.agent, context: start.context }
  journal.append({
    type: 'session_started',
    sessionId: start.sessionId ?? sessionIdOf(workflowId),
    agent: named.agent,
    context: named.context ?? null,
    tags: start.tags ?? [],
    executionId,
    coreVersion: CORE_VERSION,
  })
  return { journal }
}

/** A foreign client may start the session without arguments: then the first message says for whom it is. */
async function firstAgent(early: readonly unknown[]): Promise<{ agent: string; context?: Json | undefined }> {
  const naming = (): { agent: string; context?: Json } | undefined =>
    early.find((raw): raw is { agent: string; context?: Json } => typeof (raw as { agent?: unknown } | null)?.agent === 'string')
  await condition(() => naming() !== undefined)
  return naming() as { agent: string; context?: Json }
}
