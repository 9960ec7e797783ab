// Records the answers of hooks as events, and runs the activity for the hooks of a turn that no model call follows.
import { sleep } from '@temporalio/workflow'
import type { EndHooksResult } from '../calls/activities.ts'
import { defined } from '../session/defined.ts'
import { type HookOutcome, saidBy } from '../session/hooks/hooks.ts'
import type { Json } from '../session/json.ts'
import { MAX_DEATHS } from '../session/attempts.ts'
import { answerIn, type LostActivity, whyLost } from './lost-activity.ts'
import { endHooks } from './scheduling.ts'
import { eventsOf, type Journal } from './journal.ts'
import type { Session } from './session-parts.ts'
import { recordReports } from './calls/call.ts'

/** Records the hooks that ran, each with what it reported. `given`: the arguments that a person provided for the call. */
export function recordHooks(journal: Journal, run: number, ran: readonly HookOutcome[] = [], given?: Json): void {
  for (const { emitted, spent, ...one } of ran) {
    const call = saidBy(one, 'modify') && journal.state.current?.calls.find(({ callId }) => callId === one.callId)
    journal.append({ type: 'hook_answered', run, ...one, ...(call && defined({ args: given ?? call.input })) })
    // Reports come after the answer, so that a rollback to one of them does not make the hook run and report again.
    const { turn, on, hook, attempt, callId, tool } = one
    recordReports(journal, { run, turn, ...defined({ callId, tool }), on, hook }, { attempt, ...defined({ emitted, spent }) })
  }
}

/** Runs the hooks that were due when a run ended. Abandons them after a while, so that they cannot delay the session for long. */
export async function runEndHooks({ journal, flushing }: Session, after: { run: number; turn: number }): Promise<void> {
  const ended = { type: 'hooks_ended', ...after } as const
  for (let asks = 1; ; asks++) {
    const result = await askForHooks(journal, after)
    const { hooksDue } = journal.state
    // After a rollback, or if the run continues, its next model call runs the hooks.
    if (hooksDue?.run !== after.run || hooksDue.turn !== after.turn) return
    if (result.kind === 'ran') {
      recordHooks(journal, after.run, result.hooks)
      journal.append(ended)
    } else if (asks < MAX_ASKS && result.kind !== 'given_up') {
      await sleep(ASK_AGAIN_MS)
      continue
    } else {
      journal.append({ ...ended, error: result.kind === 'given_up' ? result.error : NOT_RUN[result.kind] })
    }
    flushing.nudge()
    return
  }
}

/** Two minutes in total, as for a run that waits for a worker that serves its agent. */
const MAX_ASKS = 12
const ASK_AGAIN_MS = 10_000

/** Why the hooks of a run's end did not run or did not finish. */
interface EndHooksFailure {
  code: 'agent_not_served' | 'archive_unavailable' | 'stale_watermark' | 'timeout' | 'worker_died' | 'cancelled' | 'failed'
  message: string
}

const NOT_RUN: Readonly<Record<Exclude<EndHooksResult['kind'], 'ran'>, EndHooksFailure>> = {
  not_served: { code: 'agent_not_served', message: 'No worker served the agent for two minutes.' },
  archive_unavailable: {
    code: 'archive_unavailable',
    message: 'Values that only the side store has could not be read for two minutes.',
  },
  stale_watermark: { code: 'stale_watermark', message: 'The events of the session could not be read back for two minutes.' },
}

async function askForHooks(
  journal: Journal,
  { run, turn }: { run: number; turn: number },
): Promise<EndHooksResult | { kind: 'given_up'; error: EndHooksFailure }> {
  try {
    return answerIn(await endHooks({ agent: journal.state.agent, ...eventsOf(journal), run, turn }))
  } catch (error) {
    const lost = whyLost(error)
    return lost.how === 'not_begun' ? { kind: 'not_served' } : { kind: 'given_up', error: whyNotEnded(lost) }
  }
}

function whyNotEnded(lost: Exclude<LostActivity, { how: 'not_begun' }>): EndHooksFailure {
  if (lost.how === 'cancelled') return { code: 'cancelled', message: 'The session was cancelled.' }
  if (lost.how === 'failed') return { code: 'failed', message: lost.message }
  if (lost.failureClass === 'Timeout') return { code: 'timeout', message: 'No worker ran the hooks to their end within two minutes.' }
  return { code: 'worker_died', message: `The hooks were tried ${MAX_DEATHS} times, and the last worker died: ${lost.message}` }
}
