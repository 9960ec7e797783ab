// The parent's side of agent calls: asks the sessions that answer them, stops those that no call needs, and records their reports.
import { CancellationScope, patched, sleep, workflowInfo } from '@temporalio/workflow'
import type { ChildAsk } from '../../calls/activities.ts'
import {
  callsAtWork,
  childIdOf,
  MAX_DEPTH_OF_CALLS,
  MAX_OPEN_AGENT_CALLS,
  openAgentCalls,
  type OpenAgentCall,
  isAgentCall,
  ownPartOf,
  questionOf,
} from '../../session/agents/agent-calls.ts'
import type { CalledChild } from '../../session/agents/agent-call-facts.ts'
import { traceOf } from '../../session/agents/traces.ts'
import { grantFor, raisedGrants } from '../../session/agents/grants.ts'
import { MAX_KEY_LENGTH, reportIn } from '../../session/agents/signals.ts'
import { defined } from '../../session/defined.ts'
import type { EventBody } from '../../session/events.ts'
import { jsonBytes } from '../../session/json.ts'
import { hasRoomFor } from '../../session/fold/queue.ts'
import { checkMessage } from '../../session/protocol/incoming.ts'
import { cutText } from '../../session/protocol/texts.ts'
import { exactUsd } from '../../session/spending/model-price.ts'
import { isSessionId, type ReportSignal, type SessionSettings } from '../../session/protocol/protocol.ts'
import type { CallState, SessionState } from '../../session/state.ts'
import type { Journal } from '../journal.ts'
import { whyLost } from '../lost-activity.ts'
import { askChildren } from '../scheduling.ts'
import { whereIn } from '../calls/call.ts'

/** How long a call waits for a report before it asks again: a child may have been terminated, or its report lost. The wait doubles. */
const ASK_AGAIN_MS = 600_000
const LONGEST_MS = 6 * 3_600_000
/** The wait after an activity that failed permanently, such as one that no worker knows yet. */
const RETRY_MS = 5_000

export interface AgentCalls {
  /** Asks about new calls, and stops the sessions of those that are gone. Call this before each decision. */
  follow(): void
  /** Whether `follow` has something to do. */
  isDue(): boolean
  /** Whether a question or a stop is being delivered: continue-as-new would lose it. */
  isBusy(): boolean
  /** Whether calls are gone whose sessions have yet to be stopped: the next execution would not know of them. */
  mustStop(): boolean
  /** Records a report. */
  receive(raw: unknown): void
  /** Grants what a higher limit allows to the sessions that answer open calls. */
  grantMore(): void
}

export interface AgentCallsNeeds {
  journal: Journal
  settings: SessionSettings | undefined
  /** Whether a rollback or a fork is in progress: it decides whether a call can be made again. */
  isHeld(): boolean
  /** Called once a call has completed whose session works in the background. */
  onDetached(): void
}

export function startAgentCalls({ journal, settings, isHeld, onDetached }: AgentCallsNeeds): AgentCalls {
  const open = new Map<string, OpenAgentCall>()
  /** The calls that were open when this execution began, as far as it has not asked about them itself. */
  const earlier = new Map<string, OpenAgentCall>()
  const firstWaitMs = settings?.askAgainMs ?? ASK_AGAIN_MS
  let deliveries = 0
  let last: Promise<void> = Promise.resolve()
  let timer: CancellationScope | undefined
  /** Whether the timer has fired, and waits longer than at first. */
  let isPatient = false
  let home: CancellationScope | undefined

  const nameOf = ({ callId, seq }: OpenAgentCall): string => `${callId} ${seq}`
  for (const one of callsAtWork(journal.state)) earlier.set(nameOf(one), one)
  /** The calls that are gone, whose sessions may have to be stopped. */
  const missing = (wanted: readonly OpenAgentCall[]): string[] => {
    if (isHeld()) return []
    const names = new Set(wanted.map(nameOf))
    const isGone = (name: string): boolean => !names.has(name)
    const before = [...earlier.keys()].filter(isGone)
    return [...[...open.keys()].filter(isGone), ...(before.length > 0 && patched('stops-earlier-calls') ? before : [])]
  }

  function isDue(): boolean {
    const { current } = journal.state
    if (open.size + earlier.size === 0 && !journal.state.background && !current?.calls.some(isAgentCall)) return false
    const wanted = callsAtWork(journal.state)
    return wanted.some((one) => !open.has(nameOf(one))) || missing(wanted).length > 0
  }

  function follow(): void {
    home ??= CancellationScope.current()
    if (!isDue()) return
    const wanted = callsAtWork(journal.state)
    const gone = missing(wanted).flatMap((name) => open.get(name) ?? earlier.get(name) ?? [])
    for (const one of gone) forget(one)
    const fresh = wanted.filter((one) => !open.has(nameOf(one)))
    for (const one of fresh) {
      forget(one)
      open.set(nameOf(one), one)
    }
    deliver([...withoutRepeats(fresh).map((one) => asking(one)), ...gone.filter(isUnneeded).map((one) => asking(one, 'stop'))])
    // A new call is asked again in time, however long others have been open.
    if (open.size === 0 || (fresh.length > 0 && isPatient && patched('asks-again-in-time'))) {
      timer?.cancel()
      timer = undefined
    }
    if (open.size > 0 && !timer) askAgainLater()
  }

  function forget(one: OpenAgentCall): void {
    open.delete(nameOf(one))
    earlier.delete(nameOf(one))
  }

  /** Several calls with one key have one answer. */
  function withoutRepeats(calls: readonly OpenAgentCall[]): OpenAgentCall[] {
    return calls.filter(({ key }, index) => calls.findIndex((one) => one.key === key) === index)
  }

  /** Whether no run can make the call again with its key. */
  function isUnneeded({ key, intent }: OpenAgentCall): boolean {
    const { current, inbox } = journal.state
    if ([...open.values()].some((one) => one.key === key)) return false
    return current?.intent !== intent && !inbox.some((message) => message.intent === intent)
  }

  function asking({ call, callId, key, tool, seq, run, turn, child, taskQueue: own }: OpenAgentCall, what?: 'stop'): ChildAsk {
    const { sessionId, epoch, agent, context, tags, caller: above, current } = journal.state
    const { taskQueue } = workflowInfo()
    const caller = { sessionId, key, epoch, depth: (above?.depth ?? 0) + 1, taskQueue }
    const trace = current ? traceOf(current) : undefined
    const { budget, stretch, background } = child
    const of = { seq, run, turn, callId, tool, ...defined({ budget, stretch, trace, background }) }
    const given = call?.resolution.client?.agent?.context ?? context
    // A session that works in the background has the question: it is only asked for its report.
    const start = call ? { agent: child.agent, context: given, tags, caller, ...defined({ settings }) } : { mustExist: true as const }
    return {
      child: child.session,
      taskQueue: own ?? taskQueue,
      // A stop reaches only a session that is open, so it needs nothing to start one.
      ...(what !== 'stop' && { start }),
      ask: {
        caller,
        call: of,
        agent: child.agent,
        by: agent,
        content: what === 'stop' || !call ? '' : questionOf(call.input ?? null),
        ...(what === 'stop' && { stop: true as const }),
      },
    }
  }

  /** Deliveries follow one another, so that no question overtakes a stop. */
  function deliver(asks: ChildAsk[]): void {
    if (asks.length === 0) return
    deliveries += 1
    last = last
      .then(() => CancellationScope.nonCancellable(() => untilAllDelivered(asks)))
      .then(() => {
        deliveries -= 1
        // After a reset, another journal has the session.
        if (journal.hasEnded) return
        for (const { child, ask } of asks) if (!ask.stop) detach(child)
      })
  }

  /** Completes the call of a session that has the question, and works on it in the background. */
  function detach(session: string): void {
    for (const { child, call, run, turn } of openAgentCalls(journal.state)) {
      if (child.session !== session || !child.background || !call) continue
      journal.append({ type: 'tool_completed', ...whereIn({ run, turn }, call), attempt: 1, value: { session, status: 'started' } })
      onDetached()
    }
  }

  /** In several activities if one would have too large an input. */
  function untilAllDelivered(asks: ChildAsk[]): Promise<void> {
    const batches = inBatches(asks)
    const [first = []] = batches
    if (batches.length <= 1 || !patched('asks-in-batches')) return untilDelivered(asks)
    return batches.slice(1).reduce((before, batch) => before.then(() => untilDelivered(batch)), untilDelivered(first))
  }

  async function untilDelivered(asks: ChildAsk[]): Promise<void> {
    for (;;) {
      try {
        const { erased = [] } = (await askChildren({ asks })) ?? {}
        if (journal.hasEnded) return
        for (const one of callsAtWork(journal.state)) if (erased.includes(one.child.session)) record(erasedReport(one))
        return
      } catch (error) {
        if (whyLost(error).how === 'cancelled') return
        await sleep(RETRY_MS)
      }
    }
  }

  function askAgainLater(): void {
    const scope = new CancellationScope({ cancellable: true, ...defined({ parent: home }) })
    timer = scope
    isPatient = false
    scope
      .run(async () => {
        for (let waitMs = firstWaitMs; ; waitMs = Math.min(2 * waitMs, LONGEST_MS)) {
          await sleep(waitMs)
          isPatient = true
          deliver(withoutRepeats(callsAtWork(journal.state)).map((one) => asking(one)))
        }
      })
      .catch(() => undefined)
  }

  function receive(raw: unknown): void {
    const given = reportIn(raw)
    if (given?.child === childIdOf(journal.state.sessionId, given?.key ?? '')) record(given)
  }

  function record(report: ReportSignal): void {
    countSpent(journal, report)
    // A quick answer may arrive before the call has completed.
    if (report.as !== 'refused') detach(report.child)
    const ofKey = callsAtWork(journal.state).filter(({ key }) => key === report.key)
    // An older failure is not the answer to a newer question, which the child has not accepted, because it was still at work.
    const newer = report.as === 'answered' ? [] : ofKey.filter(({ seq }) => seq > report.call.seq)
    if (newer.length > 0 && patched('asks-at-once')) deliver(withoutRepeats(newer).map((one) => asking(one)))
    for (const one of ofKey) {
      if (newer.includes(one)) continue
      if (!one.call) {
        passOn(one, report)
        continue
      }
      forget(one)
      const where = whereIn({ run: one.run, turn: one.turn }, one.call)
      if (report.as === 'answered') {
        journal.append({ type: 'answer_received', ...where, by: `agent:${report.agent}` })
        journal.append({ type: 'tool_completed', ...where, attempt: 1, value: report.value ?? null })
      } else {
        journal.append({ type: 'tool_failed', ...where, attempt: 1, ...failureIn(report) })
      }
    }
  }

  /** The report of a session that was erased. What it had spent and not reported is not known any more. */
  function erasedReport({ key, child, callId, seq, run, turn, tool }: OpenAgentCall): ReportSignal {
    const known = journal.state.children?.[child.session] ?? { tokens: 0, usd: 0 }
    const outcome = { as: 'failed', code: 'session_erased', reason: 'Its session was erased before it answered.' } as const
    const call = { seq, run, turn, callId, tool }
    return { key, child: child.session, agent: child.agent, call, ...outcome, spent: { total: known, before: known } }
  }

  /** What a session has answered that worked in the background becomes a message. Without room for it, it is asked again later. */
  function passOn({ callId, child: { session } }: OpenAgentCall, report: ReportSignal): void {
    // A key may be too long for the id of a message.
    const messageId = `${ownPartOf(session)}@${callId}`
    const { state } = journal
    if (!hasRoomFor(state, { messageId, deadlineMs: undefined })) return
    const checked = checkMessage({ messageId, content: messageOf(report), by: `agent:${report.agent}` })
    if ('refusal' in checked) return
    const { content, by } = checked.message
    journal.append({ type: 'message_received', messageId, content, ...defined({ by }), answers: { session, callId } })
  }

  function grantMore(): void {
    for (const { open: one, budget } of raisedGrants(journal.state)) {
      const { run, turn, callId, tool } = one
      journal.append({ type: 'allowance_raised', run, turn, callId, tool, budget })
    }
    deliver(withoutRepeats(callsAtWork(journal.state)).map((one) => asking(one)))
  }

  const mustStop = (): boolean => missing(callsAtWork(journal.state)).length > 0
  return { follow, isDue, isBusy: () => deliveries > 0, mustStop, receive, grantMore }
}

/** Maximum bytes of JSON of the questions in one activity. A larger question has one of its own, which the server's limit of 2 MB allows. */
const BATCH_BYTES = 1_000_000

function inBatches(asks: readonly ChildAsk[]): ChildAsk[][] {
  const batches: ChildAsk[][] = []
  let left = 0
  for (const ask of asks) {
    const bytes = jsonBytes(ask)
    if (bytes > left) {
      batches.push([])
      left = BATCH_BYTES
    }
    batches.at(-1)?.push(ask)
    left -= bytes
  }
  return batches
}

/** Counts what the child has spent since it was last counted. A report may come twice, or after the call has ended. */
function countSpent(journal: Journal, { child, agent, as, call, spent }: ReportSignal): void {
  const { children, granted } = journal.state
  const known = children?.[child] ?? spent.before
  // A session that refuses answers another call.
  const total = as === 'refused' ? known : spent.total
  const tokens = total.tokens - known.tokens
  const usd = exactUsd(total.usd - known.usd)
  if (tokens <= 0 && usd <= 0 && !granted?.[child]) return
  const { run, turn, callId, tool } = call
  journal.append({
    type: 'spent',
    run,
    turn,
    callId,
    tool,
    attempt: 1,
    tokens: Math.max(0, tokens),
    usd: Math.max(0, usd),
    note: `agent ${agent}`,
    child: { session: child, total },
  })
}

/** Longer answers would not fit into a message. */
const MAX_ANSWER_BYTES = 900_000

/** The text of the message with which a session in the background reports. */
function messageOf(report: ReportSignal): string {
  const { agent, child, value = null } = report
  if (report.as !== 'answered') return `${failureIn(report).message} It worked in the background, in session ${child}.`
  const answer = typeof value === 'string' ? value : JSON.stringify(value)
  const cut = cutText(answer, MAX_ANSWER_BYTES)
  return `The agent "${agent}", which worked in the background in session ${child}, has answered:\n\n${cut}`
}

function failureIn({ as, agent, code, reason = '' }: ReportSignal): { code: string; message: string } {
  const why = reason === '' ? '' : ` ${reason}`
  if (as === 'refused') return { code: 'agent_refused', message: `The agent "${agent}" could not be asked.${why}` }
  if (as === 'interrupted') return { code: 'agent_interrupted', message: `The agent "${agent}" was interrupted before it answered.${why}` }
  return { code: 'agent_failed', message: `The agent "${agent}" failed${code === undefined ? '' : ` (${code})`}.${why}` }
}

/** The session that is to answer a call, or why none can. */
export function childFor(state: SessionState, call: CallState): { child: CalledChild } | { problem: Pick<FailedCall, 'code' | 'message'> } {
  const { resolution } = call
  const { name = '' } = resolution.client?.agent ?? {}
  const { key = '' } = resolution
  const session = childIdOf(state.sessionId, key)
  const depth = (state.caller?.depth ?? 0) + 1
  const { background } = resolution.client?.agent ?? {}
  const others = Object.keys(state.background ?? {}).filter((one) => one !== session).length
  if (background && others >= MAX_OPEN_AGENT_CALLS) {
    const message = `The agent "${name}" was not asked: ${others} agents already work in the background, which is the limit. Wait for an answer.`
    return { problem: { code: 'too_many_agents', message } }
  }
  if (depth > MAX_DEPTH_OF_CALLS) {
    const message = `The agent "${name}" was not asked: agents may call one another ${MAX_DEPTH_OF_CALLS} levels deep at most. Answer without it.`
    return { problem: { code: 'agents_too_deep', message } }
  }
  if (!isSessionId(session) || key === '' || key.length > MAX_KEY_LENGTH) {
    const message = `The agent "${name}" was not asked: the id of this session leaves no room for the id of the one that would answer.`
    return { problem: { code: 'session_id_too_long', message } }
  }
  const { stretch } = state.current ?? {}
  return { child: { session, agent: name, ...defined({ budget: grantFor(state, call), background, stretch }) } }
}

type FailedCall = EventBody & { type: 'tool_failed' }
