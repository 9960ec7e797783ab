// Loads what a session needs before it opens, without a time limit. Meanwhile, the session's state reports what it waits for. No failure
// here ends the workflow, because that would lose all incoming messages.
import { CancellationScope, condition } from '@temporalio/workflow'
import type { LoadInput, NotYet } from '../../calls/activities.ts'
import type { RecoverRequest, UnopenedState } from '../../session/protocol/protocol.ts'
import type { SessionError } from '../../session/state.ts'
import { cutText, TEXT_BYTES } from '../../session/protocol/texts.ts'
import { Undecodable } from '../../session/protocol/undecodable.ts'
import { whyLost } from '../lost-activity.ts'
import { refuse } from '../session-parts.ts'

/** The wait before an activity that failed permanently is rescheduled. The activity's own waits leave no history. */
const FIRST_PAUSE_MS = 10_000
const LONGEST_PAUSE_MS = 3_600_000

export interface ExecutionOpening {
  state(): UnopenedState
  /** Why the session is not open yet, once opening is known to take long. */
  readonly trouble: SessionError | undefined
  /** Loads something with an activity, which it repeats until it succeeds. */
  load<R extends object>(activity: (how: LoadInput) => Promise<R | NotYet>): Promise<R>
  /** The update `recover` during opening: retries now, or continues without events that cannot be read. */
  recover(request: RecoverRequest): UnopenedState
}

export function startOpening(): ExecutionOpening {
  let trouble: SessionError | undefined
  let waitsFor: LoadInput['waitsFor']
  let abandoned = false
  let hurried = false
  let active: CancellationScope | undefined

  function enter({ code, reason }: NotYet['notYet']): void {
    waitsFor = code
    trouble = { code, reason: cutText(reason, TEXT_BYTES.reason), at: Date.now(), strategy: 'automatic' }
  }

  /** Returns undefined if a person requested a retry. */
  async function ask<R extends object>(activity: (how: LoadInput) => Promise<R | NotYet>): Promise<R | NotYet | undefined> {
    const how: LoadInput = { ...(waitsFor && { waitsFor }), ...(abandoned && { abandoned: true }) }
    active = new CancellationScope()
    try {
      const answer = await active.run(() => activity(how))
      return isSound(answer)
        ? answer
        : { notYet: { code: 'session_not_loaded', reason: 'The loaded session cannot be decoded. Check the workers’ data converter.' } }
    } catch (error) {
      const lost = whyLost(error)
      return lost.how === 'cancelled' ? undefined : { notYet: { code: 'session_not_loaded', reason: lost.message } }
    } finally {
      active = undefined
    }
  }

  return {
    state: () => (trouble ? { status: 'error', error: trouble } : { status: 'loading' }),
    get trouble() {
      return trouble
    },
    async load(activity) {
      for (let failures = 0; ; ) {
        const answer = await ask(activity)
        if (answer === undefined) continue
        if (!('notYet' in answer)) {
          trouble = waitsFor = undefined
          return answer
        }
        enter(answer.notYet)
        if (waitsFor !== 'session_not_loaded') continue
        hurried = false
        await condition(() => hurried, Math.min(FIRST_PAUSE_MS * 2 ** failures++, LONGEST_PAUSE_MS))
      }
    },
    recover(request) {
      if (!trouble) return refuse('not_in_error', 'The session is loading and not in error, so there is nothing to recover.')
      if (trouble.code === 'execution_unreadable') {
        if (request?.strategy !== 'abandon')
          refuse('recovers_by_itself', `${trouble.reason} To continue without these events, abandon them.`)
        abandoned = true
      } else if (trouble.code !== 'session_not_loaded') {
        refuse('recovers_by_itself', `The session opens by itself once the cause is gone. ${trouble.reason}`)
      }
      hurried = true
      active?.cancel()
      return { status: 'loading' }
    },
  }
}

/** A codec may have converted the activity's result to something else. */
function isSound(answer: unknown): answer is object {
  return answer !== null && typeof answer === 'object' && !(answer instanceof Undecodable)
}
