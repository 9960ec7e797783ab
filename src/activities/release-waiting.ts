// The activity `releaseWaiting`: has a standing approval that was just given for a context approve the calls that wait in the sessions it is for.
import { setTimeout as sleep } from 'node:timers/promises'
import { Context } from '@temporalio/activity'
import { type Client, WorkflowNotFoundError, WorkflowUpdateFailedError } from '@temporalio/client'
import { ApplicationFailure } from '@temporalio/common'
import type { Logger } from '../agent/tool.ts'
import type { ReleaseWaitingInput, ReleaseWaitingResult } from '../calls/activities.ts'
import { type ApproveAnswer, type ApproveRequest, UPDATES, workflowIdOf } from '../session/protocol/protocol.ts'
import type { RuleAndWaiting } from '../store/approval-rules.ts'
import type { Store } from '../store/store.ts'
import { inLanes } from '../waiting/concurrently.ts'
import { currentSession } from './current-session.ts'
import { heartbeating } from './heartbeating.ts'

/** A session answers within milliseconds, or after a replay if its worker has died. */
const ANSWERS_WITHIN_MS = 20_000
/** A session that did not answer is asked again by the next attempts. Its call waits for a person in the meantime. */
const ATTEMPTS = 5
/** A call that was requested just before the rule was stored is stored as waiting a moment later. */
const LOOK_AGAIN_MS = 2_000
const LANES = 10

type CallToRelease = RuleAndWaiting['calls'][number]
/** `over`: the rule approves no further calls. */
type Released = 'released' | 'kept' | 'over' | 'unanswered'

export function releaseWaitingActivity({ store, logger }: { store: Store; logger: Logger }) {
  return async function releaseWaiting({ rule: id }: ReleaseWaitingInput): Promise<ReleaseWaitingResult> {
    const { client } = currentSession()
    const { attempt } = Context.current().info
    return heartbeating(async () => {
      const first = await releaseAll(client, await store.rules.waiting(id))
      await sleep(LOOK_AGAIN_MS)
      const second = await releaseAll(client, await store.rules.waiting(id))
      const released = first.released + second.released
      const { unanswered } = second
      if (unanswered.length === 0) return { released }
      if (attempt < ATTEMPTS) throw new Error(`${unanswered.length} of the sessions with calls that wait did not answer.`)
      logger.warn(
        { rule: id, sessions: unanswered.slice(0, 10) },
        'calls that a standing approval covers still wait: their sessions do not answer',
      )
      return { released }
    })
  }
}

/** One after another if the rule has a number of uses: those that have waited longest come first. */
async function releaseAll(client: Client, found: RuleAndWaiting | null): Promise<{ released: number; unanswered: string[] }> {
  const unanswered: string[] = []
  let released = 0
  if (!found) return { released, unanswered }
  const { rule, calls } = found
  const left = [...calls]
  await inLanes(rule.uses === undefined ? LANES : 1, async () => {
    for (let call = left.shift(); call; call = left.shift()) {
      const outcome = await release(client, rule, call)
      if (outcome === 'released') released += 1
      if (outcome === 'unanswered') unanswered.push(call.sessionId)
      if (outcome === 'over') left.length = 0
    }
  })
  return { released, unanswered }
}

async function release(client: Client, rule: RuleAndWaiting['rule'], { sessionId, callId, digest }: CallToRelease): Promise<Released> {
  const workflow = client.workflow.getHandle(workflowIdOf(sessionId))
  try {
    await client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () =>
      workflow.executeUpdate<ApproveAnswer, [ApproveRequest]>(UPDATES.approve, { args: [{ callId, digest, rule }] }),
    )
    return 'released'
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return 'kept'
    if (!(error instanceof WorkflowUpdateFailedError)) return 'unanswered'
    return error.cause instanceof ApplicationFailure && error.cause.type === 'rule_not_found' ? 'over' : 'kept'
  }
}
