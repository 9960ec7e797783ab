// What is loaded before a session is open. It takes as long as it takes: meanwhile the session's state says what it waits for, and nothing
// that goes wrong with it ends the workflow, which would lose every message that comes.
import { CancellationScope, condition } from '@temporalio/workflow'
import type { Loading, NotYet } from '../activities/contract.ts'
import type { RecoverRequest, Unopened } from '../session/protocol.ts'
import type { SessionError } from '../session/state.ts'
import { cutText, TEXT_BYTES } from '../session/texts.ts'
import { Undecodable } from '../session/undecodable.ts'
import { whyLost } from './activities.ts'
import { refuse } from './open-session.ts'

/** An activity that has failed for good is asked for again after a while; what it waits for itself costs no history. */
const FIRST_PAUSE_MS = 10_000
const LONGEST_PAUSE_MS = 3_600_000

/** The opening of one execution. */
export interface Opening {
  /** What the query `state` answers meanwhile. */
  state(): Unopened
  /** Why the session is not open yet, once that is known to take long. */
  readonly trouble: SessionError | undefined
  /** Has an activity load something, again and again until it has. */
  load<R extends object>(activity: (how: Loading) => Promise<R | NotYet>): Promise<R>
  /** What a person can do about it: have it tried again now, or go without events that cannot be read. */
  recover(request: RecoverRequest): Unopened
}

/** The opening of one execution. */
export function startOpening(): Opening {
  let trouble: SessionError | undefined
  let waitsFor: Loading['waitsFor']
  let abandoned = false
  let hurried = false
  let active: CancellationScope | undefined

  function enter({ code, reason }: NotYet['notYet']): void {
    waitsFor = code
    trouble = { code, reason: cutText(reason, TEXT_BYTES.reason), at: Date.now(), strategy: 'automatic' }
  }

  /** Undefined: a person has had it tried again. */
  async function ask<R extends object>(activity: (how: Loading) => Promise<R | NotYet>): Promise<R | NotYet | undefined> {
    const how: Loading = { ...(waitsFor && { waitsFor }), ...(abandoned && { abandoned: true }) }
    active = new CancellationScope()
    try {
      const answer = await active.run(() => activity(how))
      return isSound(answer) ? answer : { notYet: { code: 'session_not_loaded', reason: 'What was loaded cannot be decoded.' } }
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
      if (!trouble) return refuse('not_in_error', 'The session is loading, not in error: there is nothing to recover.')
      if (trouble.code === 'execution_unreadable') {
        if (request?.strategy !== 'abandon') refuse('recovers_by_itself', `${trouble.reason} To go without these events, abandon them.`)
        abandoned = true
      } else if (trouble.code !== 'session_not_loaded') {
        refuse('recovers_by_itself', `The session opens by itself once this is over. ${trouble.reason}`)
      }
      hurried = true
      active?.cancel()
      return { status: 'loading' }
    },
  }
}

/** An activity's result, too, may have passed through a codec that gave something else back. */
function isSound(answer: unknown): answer is object {
  return answer !== null && typeof answer === 'object' && !(answer instanceof Undecodable)
}
