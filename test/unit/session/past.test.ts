// Whatever a session has gone back to, all readers of its past say the same of each call.
import { describe, expect, it } from 'vitest'
import { messageRowsOf } from '../../../src/client/session/message-rows.ts'
import type { ContentBlock, Message } from '../../../src/session/content.ts'
import { defined } from '../../../src/session/defined.ts'
import { nextDigest } from '../../../src/session/digest.ts'
import { callIdOf, type EventBody, type EventOf, requestIdOf, type SessionEvent, type Target } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { addToHookPast, noPast } from '../../../src/session/hooks/past.ts'
import { keptAt, restoredFrom } from '../../../src/session/recovery/kept.ts'
import { effectsAfter, locate, type Place, TargetRefused } from '../../../src/session/recovery/targets.ts'
import { addToSlices, emptySlices, type SliceRules } from '../../../src/session/slices/slices.ts'
import { addToTranscript, emptyTranscript } from '../../../src/session/transcript/transcript.ts'
import { uiMessagesOf } from '../../../src/ui/messages.ts'
import type { UiPart } from '../../../src/ui/protocol.ts'
import { projectedTables } from '../../support/projected.ts'
import { FIXED_SESSIONS, metInSessions, type SoundSession } from './sound-session.ts'

type Ended = EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown'>

/** What the model is told about a call: the text of its result. */
interface Told {
  text: string
  isError: boolean
}

const textOf = (content: unknown): string => (typeof content === 'string' ? content : JSON.stringify(content))

/** By request, what a conversation tells about it. */
function toldIn(messages: readonly Pick<Message, 'content'>[]): Map<string, Told> {
  const blocks = messages.flatMap(({ content }): ContentBlock[] => (typeof content === 'string' ? [] : content))
  return new Map(
    blocks.flatMap((block) =>
      block.type === 'tool_result' ? [[block.tool_use_id, { text: textOf(block.content), isError: block.is_error === true }] as const] : [],
    ),
  )
}

function transcriptOf(events: readonly SessionEvent[]) {
  const transcript = emptyTranscript()
  for (const event of events) addToTranscript(transcript, event)
  return transcript
}

/** By request, the outcome that counts for a slice. */
const OUTCOMES: SliceRules = {
  name: 'outcomes',
  version: 1,
  initial: {},
  on: Object.fromEntries(
    (['tool_completed', 'tool_failed', 'tool_unknown'] as const).map((type) => [
      type,
      (all: Record<string, Ended>, event: Ended) => ({ ...all, [requestIdOf(event.callId)]: event }),
    ]),
  ),
}

function slicesOf(events: readonly SessionEvent[]): Record<string, Ended> {
  const fold = emptySlices([OUTCOMES])
  for (const event of events) addToSlices(fold, event, ({ error }) => expect.fail(String(error)))
  return fold.values.outcomes as Record<string, Ended>
}

/** By request, what a chat page shows. */
function shownIn(events: readonly SessionEvent[]): Map<string, UiPart> {
  const parts = uiMessagesOf(events).flatMap((message) => message.parts)
  return new Map(parts.flatMap((part) => (typeof part.toolCallId === 'string' ? [[part.toolCallId, part] as const] : [])))
}

/** By request, the outcome that hooks may still have to see. */
function hooksOf(events: readonly SessionEvent[]): Map<string, { result?: unknown; error?: { message: string } }> {
  const past = noPast()
  for (const event of events) addToHookPast(past, event)
  return new Map(past.noted.flatMap((one) => (one.is === 'outcome' ? [[requestIdOf(one.outcome.callId), one.outcome] as const] : [])))
}

/** Calls whose newest outcome the model was told; the others were closed when their run ended, or are still open. */
function isTold({ text }: Told): boolean {
  return !text.startsWith('This call was not run: the run was stopped') && !text.startsWith('The outcome of this call is unknown: it may')
}

/** Compares all readers; returns how many calls they agree on. */
function agree({ events, entries }: Pick<SoundSession, 'events' | 'entries'>): number {
  const { messages, open } = transcriptOf(events)
  const told = toldIn(messages)
  const slices = slicesOf(events)
  const shown = shownIn(events)
  const hooks = hooksOf(events)
  // Rows are slow to project, and without such a recovery, a call has one outcome.
  const isChosen = events.some((event) => event.type === 'recovery_started' && event.strategy === 'selective')
  const tables = projectedTables(isChosen ? entries.map(({ digest, json }) => ({ digest, json, epoch: 'e' })) : [])
  const rows = new Map(tables.tool_calls.map((row) => [String(row.call_id), row]))
  const newest = new Map(events.flatMap((event) => (event.type === 'tool_issued' ? [[requestIdOf(event.callId), event.callId]] : [])))
  const results = tables.messages
    .filter(({ kind }) => kind === 'tool_results')
    .map(({ content }) => ({ content: content as ContentBlock[] }))
  if (isChosen) expect(toldIn(results), 'rows of messages').toEqual(told)
  expect(toldIn(messageRowsOf(events)), 'messages of the client').toEqual(told)
  for (const [request, { text, isError }] of [...told].filter(([, one]) => isTold(one))) {
    const outcome = slices[request]
    expect(outcome, `${request} in slices`).toBeDefined()
    if (!outcome) continue
    const about = `${request}, which the model was told as ${text}`
    if (outcome.type !== 'tool_completed') expect(outcome.message, `${about}, in slices`).toBe(text)
    else if (!text.startsWith('[idempotent replay')) expect(textOf(outcome.content ?? outcome.value), `${about}, in slices`).toBe(text)
    const page = shown.get(request)
    expect(page, `${about}, on a page`).toBeDefined()
    if (!isError) expect(page?.state, `${about}, on a page`).toBe('output-available')
    else if (page?.state === 'output-error') expect(page.errorText, `${about}, on a page`).toBe(text)
    if (outcome.type === 'tool_completed' && outcome.replayOf === undefined && !text.startsWith('['))
      expect(page?.output, `${about}, on a page`).toEqual(outcome.value)
    const hooked = hooks.get(request)
    if (hooked?.error) expect([true, text], `${about}, for hooks`).toEqual([isError, hooked.error.message])
    else if (hooked) expect(isError, `${about}, for hooks`).toBe(false)
    const row = rows.get(newest.get(request) ?? request)
    // Calls of an inherited past have their rows in the original session.
    if (!row) continue
    if (!isError) expect(['completed', 'replayed'], `${about}, in tool_calls`).toContain(row.status)
  }
  // A turn in progress has changed them already.
  if (!open) expectPlan(events, told)
  expectHooks(events, told)
  return told.size
}

/** The plan and the memory have the changes of the calls that the model is shown, and of no others. */
function expectPlan(events: readonly SessionEvent[], told: ReadonlyMap<string, Told>): void {
  const { plan, memory } = fold(undefined, events) ?? {}
  const since = events.findLastIndex(({ type }) => type === 'session_started')
  const versions = (type: 'plan_changed' | 'memory_changed'): number[] =>
    events.slice(since).flatMap((event) => (event.type === type && told.has(requestIdOf(event.callId)) ? [event.version] : []))
  expect(plan?.current?.version ?? 0, 'plan').toBe(Math.max(0, ...versions('plan_changed')))
  expect(memory?.current?.version ?? 0, 'memory').toBe(Math.max(0, ...versions('memory_changed')))
}

/** Hooks may still see an outcome of each call that the model is shown in the turns since the run began. */
function expectHooks(events: readonly SessionEvent[], told: ReadonlyMap<string, Told>): void {
  const past = noPast()
  for (const event of events) addToHookPast(past, event)
  const seen = new Set(past.noted.flatMap((one) => (one.is === 'outcome' ? [requestIdOf(one.outcome.callId)] : [])))
  for (const { is, event } of past.noted) {
    if (is !== 'answer' || event.type !== 'model_completed') continue
    const requests = event.calls.map(({ index }) => callIdOf(event.run, event.turn, index))
    for (const request of requests) {
      const one = told.get(request)
      if (one && isTold(one)) expect(seen, `${request}, for hooks`).toContain(request)
    }
  }
}

/** Targets that a rollback may have, and the session after it: those behind a choice of calls, and the newest one. */
function wentBack({ events, entries }: SoundSession): Pick<SoundSession, 'events' | 'entries'>[] {
  const head = events.length
  const { current, error } = fold(undefined, events) ?? {}
  const stopped: EventBody[] = current && !error ? [{ type: 'run_interrupted', run: current.run }] : []
  const past = grown({ events, entries }, stopped)
  const parsed = past.events.map((event, index) => ({ event, digest: past.entries[index]?.digest ?? '' }))
  const places = new Map<number, Place>()
  for (const target of events.flatMap(targetsIn)) {
    try {
      const place = locate(parsed, target)
      places.set(place.seq, place)
    } catch (refused) {
      expect(refused).toBeInstanceOf(TargetRefused)
    }
  }
  const chosen = events.flatMap((event) => (event.type === 'recovery_started' && event.strategy === 'selective' ? [event] : []))
  const isBehind = ({ seq }: Place): boolean => chosen.some((one) => seq > (one.toSeq ?? 0) && seq < one.seq)
  const found = [...places.values()].sort((a, b) => a.seq - b.seq)
  return found
    .filter((place, n) => isBehind(place) || n === found.length - 1)
    .map(({ seq: toSeq, lastMessageId }) => {
      const { effects } = effectsAfter(past.events, toSeq)
      const restored = restoredFrom(keptAt(past.events, toSeq), keptAt(past.events, head))
      return grown(past, [{ type: 'rolled_back', toSeq, upToSeq: head, effects, ...defined({ lastMessageId, restored }) }])
    })
}

function targetsIn(event: SessionEvent): Target[] {
  if (event.type === 'checkpoint_made') return [{ checkpoint: event.version }]
  if (event.type === 'run_started') return [{ run: event.run }]
  return event.type === 'message_received' ? [{ message: event.messageId }] : []
}

function grown(past: Pick<SoundSession, 'events' | 'entries'>, bodies: readonly EventBody[]): Pick<SoundSession, 'events' | 'entries'> {
  const events = [...past.events]
  const entries = [...past.entries]
  for (const body of bodies) {
    const seq = (events.at(-1)?.seq ?? 0) + 1
    const event = { v: 1, seq, at: events.at(-1)?.at ?? 0, ...body } as SessionEvent
    const json = JSON.stringify(event)
    const prev = entries.at(-1)?.digest ?? ''
    events.push(event)
    entries.push({ seq, prev, digest: nextDigest(prev, json), json })
  }
  return { events, entries }
}

describe('all readers of a session', () => {
  it('say the same of each call that the model is shown, after every way of going back', () => {
    const met = metInSessions((session) => [session, ...wentBack(session)].reduce((sum, one) => sum + agree(one), 0))
    expect(met).toBeGreaterThan(FIXED_SESSIONS)
  })

  it('keep, after a rollback, the changes to plan and memory by a call that was made again', () => {
    const turn = { run: 1, turn: 1 }
    const use = (index: number) => ({ ...turn, callId: callIdOf(1, 1, index), attempt: 0 })
    const bodies: EventBody[] = [
      { type: 'session_started', sessionId: 's', agent: 'a', context: null, tags: [], executionId: 'e', coreVersion: 1 },
      { type: 'plan_changed', ...use(0), tool: 'plan_setup', version: 1, change: { do: 'setup', objective: 'to go', steps: [] } },
      { type: 'tool_completed', ...use(0), tool: 'plan_setup', value: 'recorded' },
      { type: 'tool_failed', ...use(1), tool: 'plan_add_step', code: 'no_plan', message: 'There is no plan yet.' },
      { type: 'tool_failed', ...use(2), tool: 'memory_append', code: 'unknown_block', message: 'no such block' },
      { type: 'checkpoint_made', version: 1, ...turn, reasons: ['turn'] },
      {
        type: 'recovery_started',
        run: 1,
        strategy: 'selective',
        turn: 1,
        toSeq: 1,
        redo: [1, 2].map((n) => ({ ...use(n), as: `${use(n).callId}#2` })),
      },
      ...[1, 2].flatMap((n): EventBody[] => {
        const again = { ...use(n), callId: `${use(n).callId}#2` }
        const change: EventBody =
          n === 1
            ? {
                type: 'plan_changed',
                ...again,
                tool: 'plan_add_step',
                version: 2,
                change: { do: 'add_step', step: { id: 'b', title: 'B' } },
              }
            : { type: 'memory_changed', ...again, tool: 'memory_append', version: 1, change: { do: 'append', block: 'notes', text: 'tea' } }
        return [change, { type: 'tool_completed', ...again, tool: 'plan_add_step', value: 'recorded' }]
      }),
      {
        type: 'plan_changed',
        ...use(0),
        turn: 2,
        callId: callIdOf(1, 2, 0),
        tool: 'plan_setup',
        version: 3,
        change: { do: 'setup', objective: 'to stay', steps: [] },
      },
      { type: 'tool_completed', ...use(0), turn: 2, callId: callIdOf(1, 2, 0), tool: 'plan_setup', value: 'recorded' },
    ]
    const { events } = grown({ events: [], entries: [] }, bodies)
    expect(keptAt(events, 6)).toMatchObject({
      plan: { version: 2, objective: 'to go', steps: [{ id: 'b' }] },
      memory: { version: 1, blocks: [{ block: 'notes', content: 'tea' }] },
    })
    expect(keptAt(events, 1)).toEqual({ plan: null, memory: null })
  })
})
