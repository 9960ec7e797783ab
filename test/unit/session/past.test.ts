// Whatever a session has gone back to, all readers of its past say the same of each call.
import { describe, expect, it } from 'vitest'
import { messageRowsOf } from '../../../src/client/session/message-rows.ts'
import { runReportOf } from '../../../src/client/session/run-report.ts'
import type { ContentBlock, Message } from '../../../src/session/content.ts'
import { defined } from '../../../src/session/defined.ts'
import { nextDigest } from '../../../src/session/digest.ts'
import { callIdOf, requestIdOf } from '../../../src/session/ids.ts'
import type { EventBody, EventOf, SessionEvent, Target } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { addToHookPast, noPast } from '../../../src/session/hooks/past.ts'
import { DID_NOT_HAPPEN } from '../../../src/session/past/call-status.ts'
import { keptAt, restoredFrom } from '../../../src/session/recovery/kept.ts'
import { effectsAfter, locate, type TargetPlace, TargetRefused } from '../../../src/session/recovery/targets.ts'
import { addToSlices, emptySlices, type SliceRules } from '../../../src/session/slices/slices.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript } from '../../../src/session/transcript/transcript.ts'
import { uiMessagesOf } from '../../../src/ui/messages.ts'
import type { LoosePart } from '../../../src/ui/protocol.ts'
import type { ListedRun, ListedToolCall } from '../../../src/store/listed.ts'
import { type PlainRow, type PlainTables, projectedTables } from '../../support/projected.ts'
import { size } from '../../support/sizes.ts'
import { FIXED_SESSIONS, lateOutcomes, metInSessions, type SoundSession } from './sound-session.ts'
import { sessionStarted } from '../../support/session-started.ts'

type Ended = EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown' | 'tool_resolved'>

/** What the model is told about a call: the text of its result. */
interface ToldResult {
  text: string
  isError: boolean
  /** A note says how it ended: the outcome became known after the model was told that it is unknown. */
  noted?: true
}

const textOf = (content: unknown): string => (typeof content === 'string' ? content : JSON.stringify(content))

/** By request, what a conversation tells about it. */
function toldIn(messages: readonly Pick<Message, 'content'>[]): Map<string, ToldResult> {
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

/** By request, what a conversation tells about it, with the notes on outcomes that became known later. */
function toldBy({ messages, notes }: ReturnType<typeof transcriptOf>): Map<string, ToldResult> {
  const told = toldIn(messages)
  for (const { outcome, text } of notes) {
    const request = outcome && requestIdOf(outcome.callId)
    // The call itself may have left the transcript.
    if (request && told.has(request)) told.set(request, { text, isError: !outcome.happened, noted: true })
  }
  return told
}

/** By request, the outcome that counts for a slice. */
const OUTCOMES: SliceRules = {
  name: 'outcomes',
  version: 1,
  initial: {},
  on: Object.fromEntries(
    (['tool_completed', 'tool_failed', 'tool_unknown', 'tool_resolved'] as const).map((type) => [
      type,
      (all: Record<string, Ended>, event: Ended) => {
        const request = requestIdOf(event.callId)
        // The outcome of a call that waits for its resolution follows.
        const isOutcome = event.type !== 'tool_resolved' || (all[request] && (event.value !== undefined || !event.happened))
        return isOutcome ? { ...all, [request]: event } : all
      },
    ]),
  ),
}

function slicesOf(events: readonly SessionEvent[]): Record<string, Ended> {
  const fold = emptySlices([OUTCOMES])
  for (const event of events) addToSlices(fold, event, ({ error }) => expect.fail(String(error)))
  return fold.values.outcomes as Record<string, Ended>
}

/** By request, what a chat page shows. */
function shownIn(events: readonly SessionEvent[]): Map<string, LoosePart> {
  const parts = uiMessagesOf(events, 'shown').flatMap((message) => message.parts as LoosePart[])
  return new Map(parts.flatMap((part) => (typeof part.toolCallId === 'string' ? [[part.toolCallId, part] as const] : [])))
}

/** By request, the outcome that hooks may still have to see. */
function hooksOf(events: readonly SessionEvent[]): Map<string, { result?: unknown; error?: { message: string } }> {
  const past = noPast()
  for (const event of events) addToHookPast(past, event)
  return new Map(past.noted.flatMap((one) => (one.is === 'outcome' ? [[requestIdOf(one.outcome.callId), one.outcome] as const] : [])))
}

/** The model was told something else than an outcome: the call was closed when its run ended. */
const CLOSED_AS = { never_ran: 'This call was not run: the run was stopped', unknown: 'The outcome of this call is unknown: it may' }

/** Calls whose newest outcome the model was told; the others were closed when their run ended, or are still open. */
function isTold({ text }: ToldResult): boolean {
  return !Object.values(CLOSED_AS).some((closed) => text.startsWith(closed))
}

function isChoice(event: SessionEvent): boolean {
  return event.type === 'recovery_started' && event.strategy === 'selective'
}

/** Compares all readers; returns how many calls they agree on. */
function agree({ events, entries }: Pick<SoundSession, 'events' | 'entries'>): number {
  const transcript = transcriptOf(events)
  const shownToModel = toldIn(transcript.messages)
  const told = toldBy(transcript)
  const slices = slicesOf(events)
  const shown = shownIn(events)
  const hooks = hooksOf(events)
  const state = fold(undefined, events)
  const ends = new Map(state?.current?.calls.map(({ callId, status }) => [requestIdOf(callId), status]))
  // Rows are slow to project, and without these, each call has one outcome.
  const late = events.findLast(({ type }) => type !== 'rolled_back' && type !== 'run_interrupted')
  const isChosen = late?.type === 'tool_resolved' || events.some(isChoice)
  const isStopped = state?.current && (state.status === 'error' || state.status === 'waiting')
  const tables = projectedTables(isChosen || isStopped ? entries.map(({ digest, json }) => ({ digest, json, epoch: 'e' })) : [])
  const rows = new Map(tables.tool_calls.map((row) => [String(row.call_id), row]))
  const newest = new Map(events.flatMap((event) => (event.type === 'tool_issued' ? [[requestIdOf(event.callId), event.callId]] : [])))
  const results = tables.messages
    .filter(({ kind }) => kind === 'tool_results')
    .map(({ content }) => ({ content: content as ContentBlock[] }))
  if (tables.events.length > 0) expect(toldIn(results), 'rows of messages').toEqual(shownToModel)
  expect(toldIn(messageRowsOf(events)), 'messages of the client').toEqual(shownToModel)
  const reports = reportsOf(events, tables)
  // The model is told the results of an open turn once its last call has ended.
  expectPreviews(events, tables, [...shownToModel.keys(), ...(transcript.open?.results.keys() ?? [])])
  expectCurrent(events, reports)
  for (const [request, one] of told) {
    const { text, isError } = one
    const about = `${request}, which the model was told as ${text}`
    const row = rows.get(newest.get(request) ?? request)
    const status = ends.get(request)
    if (status) expect(status === 'completed', `${about}, in the state: ${status}`).toBe(!isError)
    // Calls of an inherited past have their rows in the original session.
    if (row) expect(isCompleted(String(row.status)), `${about}, in tool_calls: ${row.status}`).toBe(!isError)
    if (row?.status === 'skipped' && !isTold(one)) expect(text, `${about}, in tool_calls: skipped`).toContain(CLOSED_AS.never_ran)
    if (row && row.status !== 'skipped' && !isTold(one)) expect(text, `${about}, in tool_calls: ${row.status}`).toContain(CLOSED_AS.unknown)
    const reported = reports.get(runOf(request))?.get(newest.get(request) ?? request)
    if (row) expect(reported, `${about}, in a report`).toBeDefined()
    if (reported) expect(isCompleted(reported.status), `${about}, in a report: ${reported.status}`).toBe(!isError)
    if (reported) expect(reported.archived, `${about}, in a report: archived`).toBe(false)
    const page = shown.get(request)
    expect(page, `${about}, on a page`).toBeDefined()
    expect(page?.state === 'output-available', `${about}, on a page: ${page?.state}`).toBe(!isError)
    if (!isTold(one)) continue
    const outcome = slices[request]
    expect(outcome, `${request} in slices`).toBeDefined()
    if (!outcome) continue
    const completion = outcome.type === 'tool_completed' || (outcome.type === 'tool_resolved' && outcome.happened) ? outcome : undefined
    expect(completion !== undefined, `${about}, in slices: ${outcome.type}`).toBe(!isError)
    if (one.noted) expect(outcome.type, `${about}, in slices`).toBe('tool_resolved')
    else if (!completion) expect('message' in outcome ? outcome.message : DID_NOT_HAPPEN.message, `${about}, in slices`).toBe(text)
    else if (!text.startsWith('[idempotent replay'))
      expect(textOf(completion.content ?? completion.value), `${about}, in slices`).toBe(text)
    if (page?.state === 'output-error' && !one.noted) expect(page.errorText, `${about}, on a page`).toBe(text)
    if (completion && !('replayOf' in completion) && !text.startsWith('['))
      expect(page?.output, `${about}, on a page`).toEqual(completion.value)
    const hooked = hooks.get(request)
    if (hooked) expect(hooked.error !== undefined, `${about}, for hooks`).toBe(isError)
    if (hooked?.error && !one.noted) expect(text, `${about}, for hooks`).toBe(hooked.error.message)
  }
  // A turn in progress has changed them already.
  if (!transcript.open) expectPlan(events, told)
  expectHooks(events, told)
  return told.size
}

const runOf = (request: string): number => Number(request.split('_')[1])

const isCompleted = (status: string): boolean => status === 'completed' || status === 'replayed'

/** What is stored of a run; null: its rows are not projected, or belong to the session that was forked. */
function listedRun(tables: PlainTables, run: number): ListedRun | null {
  const started = tables.events.findLast((row) => row.type === 'run_started' && row.run === run)
  if (!started) return null
  const ended = tables.events.findLast((row) => row.run === run && (row.type === 'run_completed' || row.type === 'run_interrupted'))
  const ofRun = (row: PlainRow): boolean => row.run === run
  return {
    run,
    startedAt: new Date(Number(started.at)),
    end: ended ? { how: ended.type === 'run_completed' ? 'completed' : 'interrupted', at: new Date(Number(ended.at)) } : null,
    calls: tables.tool_calls.filter(ofRun).map(listedCall),
    failures: [],
    answers: [],
    archivedTurns: tables.archived_messages.filter((row) => ofRun(row) && row.kind === 'assistant').map(({ turn }) => Number(turn)),
  }
}

/** The members of a call's row that a report interprets. */
function listedCall({ call_id, turn, tool, effect, status }: PlainRow): ListedToolCall {
  return { callId: call_id, turn, tool, effect, status } as ListedToolCall
}

/** The calls of each run's report, by run and id. */
function reportsOf(events: readonly SessionEvent[], tables: PlainTables): Map<number, Map<string, { status: string; archived: boolean }>> {
  const state = fold(undefined, events)
  if (!state) return new Map()
  const runs = new Set([...tables.tool_calls.map(({ run }) => Number(run)), ...(state.current ? [state.run] : [])])
  return new Map(
    [...runs].map((run) => {
      const { turns } = runReportOf(state, run, listedRun(tables, run))
      return [run, new Map(turns.flatMap(({ calls, archived }) => calls.map(({ callId, status }) => [callId, { status, archived }])))]
    }),
  )
}

/** A report says of the newest answer's calls what the session's state says. */
function expectCurrent(events: readonly SessionEvent[], reports: ReturnType<typeof reportsOf>): void {
  const state = fold(undefined, events)
  for (const { callId, status } of state?.current?.calls ?? []) {
    const reported = reports.get(state?.run ?? 0)?.get(callId)?.status ?? 'absent'
    const asReported = AS_REPORTED[status] ?? [status]
    expect(asReported, `${callId} in a report, in the state: ${status}`).toContain(reported)
  }
}

/** A state does not tell how a call completed or failed. */
const AS_REPORTED: Record<string, string[]> = {
  completed: ['completed', 'replayed'],
  failed: ['failed', 'denied', 'skipped'],
  // Another call's outcome is unknown, and this one repeats it.
  unknown: ['unknown', 'skipped'],
}

/** A failed run that continues keeps the results that the transcript has, and no others. */
function expectPreviews(events: readonly SessionEvent[], tables: PlainTables, results: readonly string[]): void {
  const state = fold(undefined, events)
  if (!state?.current || state.status !== 'error' || tables.events.length === 0) return
  const { run } = state.current
  const { previews } = runReportOf(state, run, listedRun(tables, run))
  const kept = previews.find(({ strategy }) => strategy === 'continue_run')?.keeps.map(requestIdOf) ?? []
  expect(kept.sort(), 'what continue_run keeps').toEqual(results.filter((request) => runOf(request) === run).sort())
}

const MOMENTS: ReadonlySet<string> = new Set(['turn_started', 'run_completed', 'run_interrupted', 'error_entered'])

/** The session up to some events after which a call had an unknown outcome, after that became known. */
function resolvedLate({ events, entries }: SoundSession): Pick<SoundSession, 'events' | 'entries'>[] {
  const lengths = events.flatMap(({ type, seq }) => (MOMENTS.has(type) ? [seq] : []))
  const found = lengths.flatMap((length, nth) => {
    const bodies = lateOutcomes(events.slice(0, length), nth)
    return bodies.length > 0 ? [grown({ events: events.slice(0, length), entries: entries.slice(0, length) }, bodies)] : []
  })
  return found.filter((_, n) => n === 0 || n === found.length - 1)
}

/** The plan and the memory have the changes of the calls that the model is shown, and of no others. */
function expectPlan(events: readonly SessionEvent[], told: ReadonlyMap<string, ToldResult>): void {
  const { plan, memory } = fold(undefined, events) ?? {}
  const since = events.findLastIndex(({ type }) => type === 'session_started')
  const versions = (type: 'plan_changed' | 'memory_changed'): number[] =>
    events.slice(since).flatMap((event) => (event.type === type && told.has(requestIdOf(event.callId)) ? [event.version] : []))
  expect(plan?.current?.version ?? 0, 'plan').toBe(Math.max(0, ...versions('plan_changed')))
  expect(memory?.current?.version ?? 0, 'memory').toBe(Math.max(0, ...versions('memory_changed')))
}

/** Hooks may still see an outcome of each call that the model is shown in the turns since the run began. */
function expectHooks(events: readonly SessionEvent[], told: ReadonlyMap<string, ToldResult>): void {
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

/** Targets that a rollback may have, and the session after it: those behind another outcome of a call, and the newest one. */
function wentBack({ events, entries }: Pick<SoundSession, 'events' | 'entries'>): Pick<SoundSession, 'events' | 'entries'>[] {
  const head = events.length
  const { current, error } = fold(undefined, events) ?? {}
  const stopped: EventBody[] = current && !error ? [{ type: 'run_interrupted', run: current.run }] : []
  const past = grown({ events, entries }, stopped)
  const parsed = past.events.map((event, index) => ({ event, digest: past.entries[index]?.digest ?? '' }))
  const places = new Map<number, TargetPlace>()
  for (const target of events.flatMap(targetsIn)) {
    try {
      const place = locate(parsed, target)
      places.set(place.seq, place)
    } catch (refused) {
      expect(refused).toBeInstanceOf(TargetRefused)
    }
  }
  const changed = events.flatMap((event) => {
    if (event.type === 'recovery_started' && event.strategy === 'selective') return [{ after: event.toSeq ?? 0, before: event.seq }]
    if (event.type !== 'tool_resolved' || event.value === undefined) return []
    const { seq } = events.find((one) => one.type === 'tool_unknown' && one.callId === event.callId) ?? event
    return [{ after: seq, before: event.seq }]
  })
  const isBehind = ({ seq }: TargetPlace): boolean => changed.some(({ after, before }) => seq >= after && seq < before)
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
  it('all readers of a session agree on each call that the model is shown, after every way of going back', () => {
    // Each is read after every way of going back, which takes long.
    const fixed = size(80, 400)
    const met = metInSessions((session) => [session, ...wentBack(session)].reduce((sum, one) => sum + agree(one), 0), fixed)
    expect(met).toBeGreaterThan(fixed)
  })

  it('all readers of a session agree on calls whose outcome became known late, even after a rollback to an earlier point', () => {
    const met = metInSessions((session) =>
      resolvedLate(session)
        .flatMap((one) => [one, ...wentBack(one)])
        .reduce((sum, one) => sum + agree(one), 0),
    )
    expect(met).toBeGreaterThan(FIXED_SESSIONS / 8)
  })

  it('all readers of a session keep, after a rollback, the changes to plan and memory by a call that was made again', () => {
    const turn = { run: 1, turn: 1 }
    const use = (index: number) => ({ ...turn, callId: callIdOf(1, 1, index), attempt: 0 })
    const bodies: EventBody[] = [
      sessionStarted(),
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
