// A job that an executor holds: what it has reported, and its link to the orchestrator.
import { setTimeout as sleep } from 'node:timers/promises'
import type { AskModelInput } from '../../calls/activities.ts'
import { AttemptLost } from '../../calls/errors.ts'
import type { JobLink } from '../../calls/jobs.ts'
import type { PrepaidShare } from '../../calls/reads.ts'
import { defined } from '../../session/defined.ts'
import type { Json } from '../../session/json.ts'
import { confirmedJustNow } from '../confirmed-just-now.ts'
import type { BodyWatch } from '../parent-watch.ts'
import type { HeldJobReport } from '../protocol.ts'
import { steadyNow } from '../steady-clock.ts'
import type { DeltaSender, Uplink } from './uplink.ts'

/**
 * How long a result is kept for another orchestrator, because the current one may die before the server has the result. Normally, passing
 * it on takes milliseconds. Another attempt cannot reproduce the result of an `external` body, so pawl keeps such a result longer.
 */
const KEEP_ANSWER_MS = { repeatable: 5_000, external: 30_000 }

export interface HeldJob extends Omit<HeldJobReport, 'job' | 'entered' | 'streamed'> {
  stop: AbortController
  entered?: { at: number; timeoutMs: number }
  /** The output of its model, if it streams. */
  output?: DeltaSender
  /** What was taken for its model call before it asked. */
  share?: PrepaidShare
  /** For how many more milliseconds the outcome is kept. They count down only while an orchestrator is connected. */
  keepMs: number
}

export const keepMsOf = (one: Pick<HeldJob, 'order' | 'riding'>): number => KEEP_ANSWER_MS[isOnce(one) ? 'external' : 'repeatable']

/** Whether the job has a body that must never be entered twice. */
const isOnce = ({ order, riding }: Pick<HeldJob, 'order' | 'riding'>): boolean => (order.ticket.once ?? riding?.once) === true

/** What the executor tells a new orchestrator about its jobs. */
export function holdingsOf(held: ReadonlyMap<string, HeldJob>): HeldJobReport[] {
  return [...held].map(([job, { order, begun, entered, progress, riding, reserved, tokensSoFar, output, answer, outcome }]) => ({
    job,
    order,
    begun,
    ...(entered && { entered: { agoMs: steadyNow() - entered.at, timeoutMs: entered.timeoutMs } }),
    ...defined({ progress, riding, reserved, tokensSoFar, answer }),
    ...(output && !outcome && { streamed: output.soFar() }),
    ...(outcome && { outcome }),
  }))
}

/** The link of a job to the orchestrator. Its reports are kept in `one` for the next orchestrator. */
export function linkTo(job: string, one: HeldJob, uplink: Uplink, bodies: BodyWatch | undefined): JobLink {
  const link: JobLink = {
    signal: one.stop.signal,
    async begin() {
      one.begun = true
      // The server's answer may have waited behind another body that blocked the event loop.
      if (!(await confirmedJustNow(() => uplink.ask({ ask: 'begin', job })))) throw new AttemptLost()
    },
    async ride(call) {
      // Set before the confirmation, as in `reserve`.
      one.riding = call
      try {
        if (!(await confirmedJustNow(() => uplink.ask({ ask: 'ride', job, call })))) throw new AttemptLost()
      } catch (error) {
        delete one.riding
        throw error
      }
    },
    admit: (request) => uplink.ask({ ask: 'admit', sessionId: one.order.ticket.sessionId, ...request }),
    leaveLimits(entry) {
      // If it cannot be noted, the call counts as running until its time is over.
      uplink.ask({ ask: 'leave_limits', sessionId: one.order.ticket.sessionId, ...entry }).catch(() => undefined)
    },
    entered(timeoutMs: number) {
      if (isOnce(one)) bodies?.entered(job, timeoutMs)
      one.entered = { at: steadyNow(), timeoutMs }
      uplink.post({ type: 'entered', job, timeoutMs })
    },
    progress(value: Json) {
      one.progress = value
      uplink.post({ type: 'progress', job, value })
    },
    async reserve(reservation) {
      // Set before the confirmation: if the orchestrator dies first, the next one learns of the reservation from the `hello`.
      one.reserved = reservation
      delete one.tokensSoFar
      await confirmed(() => uplink.ask({ ask: 'reserve', job, reservation }), one.stop.signal)
    },
    noteReservation(reservation) {
      one.reserved = reservation
      delete one.tokensSoFar
      uplink.post({ type: 'reserved', job, reservation })
    },
    async takeShare(of) {
      const { share } = one
      delete one.share
      if (share && share.usd >= of.usd) return share
      if (share) link.settleShare(share.token, 0)
      return uplink.ask({ ask: 'take_share', job, of })
    },
    settleShare: (token, usd) => uplink.post({ type: 'share_settled', token, usd }),
    asking() {
      const { kind, input } = one.order
      const waits = (kind === 'callModel' || kind === 'compact') && (input as AskModelInput).untilServed === true
      // If it cannot be confirmed, the attempt is made all the same.
      if (waits) link.begin().catch(() => undefined)
    },
    asked: (timed) => uplink.post({ type: 'asked', job, timed }),
    reportTokens: reporterOfTokens(job, one, uplink),
    delta(piece) {
      one.output ??= uplink.stream(job)
      one.output.add(piece)
    },
    answered(answer) {
      one.output?.end()
      one.answer = answer
      uplink.post({ type: 'answered', job, answer })
    },
    stillMine: () => uplink.ask({ ask: 'still_mine', job }),
  }
  return link
}

/** Reports at most once every few milliseconds, because a stream has a piece for every word or two. */
function reporterOfTokens(job: string, one: HeldJob, uplink: Uplink): (tokens: number) => void {
  let isDue = false
  return (tokens) => {
    one.tokensSoFar = tokens
    if (isDue) return
    isDue = true
    setTimeout(() => {
      isDue = false
      if (!one.outcome && one.tokensSoFar !== undefined) uplink.post({ type: 'tokens_so_far', job, tokens: one.tokensSoFar })
    }, REPORT_EVERY_MS)
  }
}

/** Short, so that little is unreported when an executor is killed. */
const REPORT_EVERY_MS = 20
const CONFIRM_RETRY_MS = 250

/** Asks until the server confirms, because it may be unavailable for a while. @throws AttemptLost, or the signal's reason. */
async function confirmed(ask: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted()
    try {
      await ask()
      return
    } catch (error) {
      if (error instanceof AttemptLost) throw error
      await sleep(CONFIRM_RETRY_MS, undefined, { signal })
    }
  }
}
