// The child's side of an agent call: accepts the caller's question once, and tells the caller how it ended and what it cost.
import { CancellationScope, patched, sleep } from '@temporalio/workflow'
import type { ReportInput } from '../../calls/activities.ts'
import { questionIdOf } from '../../session/agents/caller.ts'
import { defined } from '../../session/defined.ts'
import { shortHash } from '../../session/digest.ts'
import { hasRoomFor } from '../../session/fold/queue.ts'
import { checkMessage } from '../../session/protocol/incoming.ts'
import type { AskSignal } from '../../session/protocol/protocol.ts'
import { eventsOf, type Journal } from '../journal.ts'
import type { Flushing } from '../flushing.ts'
import { whyLost } from '../lost-activity.ts'
import { reportToCaller } from '../scheduling.ts'

const RETRY_MS = 5_000
const NOTHING = { tokens: 0, usd: 0 }

/** What a question has led to. */
export type AskOutcome = 'accepted' | 'known' | 'refused' | 'raised'

export interface Answering {
  /** Tells the caller what is due. Call this before each decision. */
  follow(): void
  /** Whether `follow` has something to do. */
  isDue(): boolean
  /** Whether the caller is still to be told of something. */
  isBusy(): boolean
  /** Accepts a question, or answers it again. */
  receive(ask: AskSignal): AskOutcome
  /** Whether the question, or one that has taken its place, is open. */
  isOpen(ask: AskSignal): boolean
}

/** `isHeld`: whether a rollback or a fork is in progress. A regeneration interrupts the run before it puts the question back. */
export function startAnswering(journal: Journal, flushing: Flushing, isHeld: () => boolean): Answering {
  let reports: ReportInput[] = []
  let isTelling = false
  /** The caller has asked again, because no report has reached it. */
  let isAskedAgain = false

  const isDue = (): boolean =>
    !isTelling &&
    (journal.state.caller?.due === true || isAskedAgain || reports.length > 0) &&
    !(isHeld() && patched('tells-when-released'))

  function follow(): void {
    if (!isDue()) return
    isTelling = true
    void CancellationScope.nonCancellable(tellAll)
  }

  async function tellAll(): Promise<void> {
    for (;;) {
      const refusal = reports.shift()
      if (refusal) {
        await told(refusal)
        continue
      }
      const report = isAskedAgain || journal.state.caller?.due ? outcomeNow() : undefined
      isAskedAgain = false
      if (!report) break
      const delivered = await told(report)
      const { as, run, spent } = report
      if (journal.hasEnded || as === 'refused') break
      journal.append({
        type: 'caller_told',
        as,
        ...defined({ run }),
        ...spent.total,
        ...(delivered ? {} : { delivered: false as const }),
      })
      // The session may already rest, and would store it with whatever comes next.
      if (patched('flush-after-telling')) flushing.nudge()
    }
    // Cleared in the same step as the check.
    isTelling = false
  }

  async function told(report: ReportInput): Promise<boolean> {
    for (;;) {
      try {
        return (await reportToCaller(report)).delivered
      } catch (error) {
        if (whyLost(error).how === 'cancelled') return false
        await sleep(RETRY_MS)
      }
    }
  }

  function outcomeNow(): ReportInput | undefined {
    const { state, base } = journal
    const { caller, spend, agent, sessionId } = state
    if (!caller?.call || !caller.outcome) return undefined
    const { as, run, code, reason } = caller.outcome
    const total = { tokens: spend?.tokens ?? 0, usd: spend?.usd ?? 0 }
    // The whole run is in this execution, unless it continued as new on the way.
    const isHere = run !== undefined && journal.since(base.seq).some((event) => event.type === 'run_started' && event.run === run)
    return {
      ...eventsOf(journal),
      ...(isHere && { from: base }),
      caller: { sessionId: caller.sessionId, taskQueue: caller.taskQueue },
      key: caller.key,
      child: sessionId,
      agent,
      call: caller.call,
      as,
      ...defined({ run, code, reason }),
      spent: { total, before: caller.told ?? NOTHING },
    }
  }

  function refuse({ caller, call, agent }: AskSignal, reason: string): AskOutcome {
    const { sessionId } = journal.state
    const to = { sessionId: caller.sessionId, taskQueue: caller.taskQueue }
    const spent = { total: NOTHING, before: NOTHING }
    reports = [
      ...reports,
      {
        ...eventsOf(journal),
        caller: to,
        key: caller.key,
        child: sessionId,
        agent,
        call,
        as: 'refused',
        reason,
        spent,
      },
    ]
    return 'refused'
  }

  function receive(ask: AskSignal): AskOutcome {
    const { state } = journal
    const { caller } = state
    if (!isMine(ask)) return refuse(ask, `The session "${state.sessionId}" exists, and it does not answer this call.`)
    if (state.agent !== ask.agent) return refuse(ask, `The session "${state.sessionId}" talks to the agent "${state.agent}".`)
    if (!caller) return 'known'
    const { call, outcome } = caller
    if (call && (ask.call.seq <= call.seq || !outcome || outcome.as === 'answered')) {
      if (outcome) isAskedAgain = true
      else if (isMore(ask) && isOfNewest(ask)) return raise(ask)
      return 'known'
    }
    return accept(ask, questionIdOf(caller))
  }

  function accept(ask: AskSignal, messageId: string): AskOutcome {
    const { state } = journal
    if (state.accepted.includes(shortHash(messageId))) return 'known'
    const checked = checkMessage({ messageId, content: ask.content, by: `agent:${ask.by}` })
    if ('refusal' in checked) return refuse(ask, checked.refusal.reason)
    if (!hasRoomFor(state, { messageId, deadlineMs: undefined })) return refuse(ask, 'Too many messages wait for it.')
    const { content, by } = checked.message
    journal.append({ type: 'message_received', messageId, content, ...defined({ by }), call: ask.call })
    return 'accepted'
  }

  /** Whether the caller now allows more than it did. */
  function isMore({ call: { budget } }: AskSignal): boolean {
    const had = journal.state.caller?.call?.budget
    return (['maxUsd', 'maxTotalTokens'] as const).some((name) => had?.[name] !== undefined && (budget?.[name] ?? 0) > had[name])
  }

  function raise({ call: { budget = {} } }: AskSignal): AskOutcome {
    journal.append({ type: 'allowance_raised', budget })
    return 'raised'
  }

  /** A signal about an earlier question may arrive late, or again from an execution that this one takes over. */
  const isOfNewest = ({ call }: AskSignal): boolean =>
    call.seq >= (journal.state.caller?.call?.seq ?? 0) || !patched('heeds-its-own-question')

  const isMine = ({ caller: { sessionId, key } }: AskSignal): boolean =>
    journal.state.caller?.sessionId === sessionId && journal.state.caller.key === key

  return {
    follow,
    isDue,
    isBusy: () => isTelling || isDue(),
    receive,
    isOpen: (ask) =>
      isMine(ask) && journal.state.caller?.call !== undefined && journal.state.caller.outcome === undefined && isOfNewest(ask),
  }
}
