// What happened in a session, for people: messages, answers with their calls, and what pawl and operators did. Pure.
import { fateOf } from '../../../src/session/attempts.ts'
import type { FailedAttempt } from '../../../src/session/call-facts.ts'
import type { AssistantBlock, UserBlock } from '../../../src/session/content.ts'
import type { EventOf, SessionEvent } from '../../../src/session/events.ts'
import { callIdOf } from '../../../src/session/ids.ts'
import {
  abandonedAs,
  abandonedCalls,
  addToCalls,
  isWithdrawn,
  madeAgain,
  statusAfter,
  type TurnCalls,
} from '../../../src/session/past/call-status.ts'
import { cutOf } from '../../../src/session/past/cut.ts'
import { addToVisible, nothingVisible, type PastEntry } from '../../../src/session/past/visible.ts'
import type { CallState } from '../../../src/session/state.ts'
import { isKnown } from './known.ts'
import type { ShownQuestion } from './question-form.ts'

export interface Step {
  seq: number
  at: number
  tone: 'quiet' | 'good' | 'busy' | 'warn' | 'bad'
  text: string
  detail?: string
}

export interface CallItem {
  callId: string
  tool: string
  effect: string
  input: unknown
  /** `skipped`: its run ended, or continued without it, before it ran. */
  status: CallState['status'] | 'skipped'
  /** Digest of what is to be decided. */
  digest?: string
  /** What the tool has asked the user last. */
  question?: ShownQuestion
  /** The session that answers the call, if it is one of another agent. */
  child?: string
  /** What happened to the call, in order. */
  steps: Step[]
  result?: unknown
  effectId?: string
}

export type Item = {
  seq: number
  at: number
  /** It no longer counts. */
  isOut: boolean
  /** How often it was changed: an item of the same number and version looks the same. */
  version: number
} & (
  | { kind: 'message'; messageId: string; text: string; by?: string | undefined }
  | { kind: 'answer'; run: number; turn: number; model: string; text: string; calls: CallItem[]; tokens: number; attempt: number }
  | { kind: 'step'; step: Step }
)

/** A timeline that grows by one event at a time. Its items are changed in place. */
export interface Timeline {
  readonly items: readonly Item[]
  add(event: SessionEvent): void
}

/** A call, and the item that it is in. */
interface KnownCall {
  call: CallItem
  item: Item & { kind: 'answer' }
}

/** The timeline up to the last of the events. */
export function timelineOf(events: readonly SessionEvent[]): Item[] {
  const timeline = startTimeline()
  for (const event of events) timeline.add(event)
  return [...timeline.items]
}

export function startTimeline(): Timeline {
  const past = nothingVisible()
  const items: Item[] = []
  /** Of each item. */
  const entries: PastEntry[] = []
  const calls = new Map<string, KnownCall>()
  /** Those of the newest answer. */
  const turn: TurnCalls = new Map()

  function show(entry: PastEntry, item: Item): void {
    items.push(item)
    entries.push(entry)
  }

  function refreshOut(): void {
    for (const [index, item] of items.entries()) {
      const isOut = entries[index]?.out !== undefined || entries[index]?.archivedBy !== undefined
      if (item.isOut === isOut) continue
      item.isOut = isOut
      item.version += 1
    }
  }

  return {
    items,
    add(event) {
      if (event.type === 'session_started') {
        items.length = 0
        entries.length = 0
        calls.clear()
      }
      abandon(calls, turn, event)
      addToCalls(turn, event)
      const isCut = cutOf(event, past.newest) !== undefined
      addToVisible(past, event)
      const entry = past.entries.at(-1)
      if (!entry) return
      const common = { seq: event.seq, at: event.at, isOut: false, version: 0 }
      if (event.type === 'message_received') {
        show(entry, { ...common, kind: 'message', messageId: event.messageId, text: textOf(event.content), by: event.by })
      } else if (event.type === 'model_completed') {
        const item = { ...common, kind: 'answer' as const, ...answerOf(event), calls: callsOf(event) }
        for (const call of item.calls) calls.set(call.callId, { call, item })
        show(entry, item)
      } else if ('callId' in event && event.callId !== undefined && calls.has(event.callId)) {
        const known = calls.get(event.callId)
        if (known) addToItem(known, event)
      } else {
        choose(calls, event)
        const step = stepOf(event)
        if (step) show(entry, { ...common, kind: 'step', step })
      }
      if (isCut) refreshOut()
    },
  }
}

/** Applies a recovery that chooses among the calls. One that is made again keeps its status, and has another id from then on. */
function choose(calls: Map<string, KnownCall>, event: SessionEvent): void {
  const again = madeAgain(event)
  // A failed call that is to be skipped waits for that, as if it had only been requested.
  for (const { call, item } of calls.values()) {
    const { status } = call
    if (status === 'skipped' || again.has(call.callId) || !isWithdrawn(event, call.callId, { status })) continue
    call.status = 'requested'
    item.version += 1
  }
  for (const [before, callId] of again) repeat(calls, before, callId)
}

/** Nobody decides any longer about a call whose run has ended, except whether it happened. */
function abandon(calls: ReadonlyMap<string, KnownCall>, turn: TurnCalls, event: SessionEvent): void {
  for (const [callId, known] of abandonedCalls(event, turn)) {
    const { call, item } = calls.get(callId) ?? {}
    if (!call || !item || known.status === 'awaiting_resolution') continue
    const as = abandonedAs(known)
    call.status = as === 'never_ran' ? 'skipped' : as
    item.version += 1
  }
}

/** The call under its new id stands after the one before it, in the same answer. */
function repeat(calls: Map<string, KnownCall>, before: string, again: string): void {
  const known = calls.get(before)
  if (!known || calls.has(again)) return
  const { tool, effect, input } = known.call
  const call: CallItem = { callId: again, tool, effect, input, status: 'requested', steps: [] }
  const { item } = known
  item.calls.splice(item.calls.indexOf(known.call) + 1, 0, call)
  item.version += 1
  calls.set(again, { call, item })
}

function answerOf({ run, turn, model, content, usage, attempt }: EventOf<'model_completed'>) {
  return { run, turn, model, attempt, text: textOf(content), tokens: usage.output_tokens }
}

function textOf(content: string | readonly (UserBlock | AssistantBlock)[]): string {
  if (typeof content === 'string') return content
  return content
    .map((block) => {
      if (block.type === 'text') return block.text
      if (block.type === 'image' || block.type === 'document') return `[${block.type}]`
      return ''
    })
    .filter((text) => text !== '')
    .join('\n\n')
}

function callsOf({ run, turn, content, calls }: EventOf<'model_completed'>): CallItem[] {
  const asked = content.filter((block) => block.type === 'tool_use')
  return calls.map(({ index, generation, tool, effect }) => ({
    callId: callIdOf(run, turn, index, generation),
    tool,
    effect,
    input: asked[index]?.input ?? null,
    status: 'requested' as const,
    steps: [],
  }))
}

/** Adds an event about the call. */
function addToItem({ call, item }: KnownCall, event: SessionEvent): void {
  item.version += 1
  call.status = statusAfter(event, call.status === 'skipped' ? undefined : call.status) ?? call.status
  if (event.type === 'tool_issued') Object.assign(call, { input: event.input, effect: event.effect })
  if (event.type === 'approval_requested') call.digest = event.digest
  if (event.type === 'answer_requested' && event.asks) Object.assign(call, { digest: event.asks.digest, question: event.asks.question })
  if (event.type === 'answer_requested' && event.child) call.child = event.child.session
  if (event.type === 'tool_completed' || event.type === 'tool_resolved') {
    const result = event.content ?? event.value
    if (result !== undefined) call.result = result
    if (event.effectId !== undefined) call.effectId = event.effectId
  }
  const step = callStepOf(event)
  if (step) call.steps.push(step)
}

const byWhom = (by: string | undefined): string => (by === undefined ? '' : ` by ${by}`)

/** How an attempt ended. */
function endOf(error: FailedAttempt): { tone: Step['tone']; how: string } {
  const fate = fateOf(error)
  if (fate === 'left') return { tone: 'quiet', how: 'left the model call' }
  if (fate === 'failure') return { tone: 'warn', how: `failed: ${error.code ?? error.class}` }
  return { tone: 'bad', how: error.class === 'HeartbeatTimeout' ? 'was lost: its worker did not respond' : 'was killed with its process' }
}

function callStepOf(event: SessionEvent): Step | undefined {
  const { seq, at } = event
  const step = (tone: Step['tone'], text: string, detail?: string): Step => ({ seq, at, tone, text, ...(detail && { detail }) })
  switch (event.type) {
    case 'tool_attempt_failed': {
      const { tone, how } = endOf(event.error)
      return step(tone, `attempt ${event.error.attempt} ${how}`, event.error.message)
    }
    case 'tool_completed':
      return step(
        'good',
        event.replayOf === undefined ? `completed, attempt ${event.attempt}` : `answered from ${event.replayOf}, not executed again`,
      )
    case 'tool_failed':
      return step('bad', `failed: ${event.code}`, event.message)
    case 'tool_unknown':
      return step('warn', 'it is unknown whether the effect happened', event.message)
    case 'tool_resolved':
      return step(
        event.happened ? 'good' : 'quiet',
        `${event.happened ? 'it happened' : 'it did not happen'}, says ${event.decidedBy ?? event.by}`,
        event.note,
      )
    case 'approval_requested':
      return step('warn', 'waits for approval', event.reason)
    case 'approval_decided':
      return event.approved
        ? step('good', `approved${byWhom(event.by)}`, event.note)
        : step('bad', event.expired ? 'not approved in time' : `denied${byWhom(event.by)}`, event.reason ?? event.note)
    case 'answer_requested':
      if (event.child) return step('busy', 'waits for another agent')
      return step('warn', event.asks ? `${event.asks.question.from} asks the user` : 'waits for an answer', event.asks?.question.message)
    case 'answer_received':
      return step('good', `answered${byWhom(event.by)}`)
    case 'tool_progress':
      return step('busy', 'progress', JSON.stringify(event.value))
    case 'milestone_reached':
      return step('good', `milestone ${event.name}`)
    default:
      return undefined
  }
}

/** What pawl or a person did, apart from messages, answers and calls. */
function stepOf(event: SessionEvent): Step | undefined {
  const { seq, at } = event
  const step = (tone: Step['tone'], text: string, detail?: string): Step => ({ seq, at, tone, text, ...(detail && { detail }) })
  switch (event.type) {
    case 'session_started':
      return step('quiet', `session of ${event.agent} started`)
    case 'session_resumed':
      return step('quiet', 'session resumed in a new chain of executions', event.unreplayable?.reason)
    case 'forked':
      return step('quiet', `forked from ${event.from.sessionId}`)
    case 'model_attempt_failed': {
      const { tone, how } = endOf(event.error)
      return step(tone, `the model call, attempt ${event.error.attempt}, ${how}`, event.error.message)
    }
    case 'compacted':
      return step('quiet', `${event.messages} messages summarised`, event.summary)
    case 'content_replaced':
      return step('warn', 'content that the provider refuses was replaced by a note', event.reason)
    case 'budget_warning':
      return step('warn', `${event.spent} ${event.unit} of ${event.limit} spent (${event.scope})`)
    case 'budget_raised':
      return step('quiet', `budget of the ${event.scope} raised${byWhom(event.by)}`, event.reason)
    case 'checkpoint_made':
      return step('quiet', `checkpoint ${event.version}`, event.reasons.join(', '))
    case 'rolled_back':
      return step('warn', `rolled back to event ${event.toSeq}${byWhom(event.by)}`, event.reason)
    case 'run_interrupted':
      return step('warn', `interrupted${byWhom(event.by)}`, event.reason)
    case 'error_entered':
      return step('bad', `error: ${event.code}`, event.reason)
    case 'recovery_started':
      return step(
        'warn',
        `recovery: ${event.strategy.replaceAll('_', ' ')}${event.automatic ? ', by itself' : byWhom(event.by)}`,
        event.reason,
      )
    case 'session_paused':
      return step('warn', `paused${byWhom(event.by)}`, event.reason)
    case 'session_unpaused':
      return step('quiet', `unpaused${byWhom(event.by)}`)
    case 'session_closed':
      return step('quiet', 'session closed')
    default:
      return isKnown(event) ? undefined : step('quiet', `an event that this version of pawl does not know: ${(event as SessionEvent).type}`)
  }
}
