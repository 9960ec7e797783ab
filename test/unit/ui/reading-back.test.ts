// A conversation that is read from its end backwards, only as far as it is shown: pages and streams are those of the whole session.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SessionEvent } from '../../../src/session/events.ts'
import type { PastSource } from '../../../src/session/past/source.ts'
import { addToVisible, nothingVisible } from '../../../src/session/past/visible.ts'
import { addToOutline, emptyOutline, type UiOutline } from '../../../src/ui/outline.ts'
import { hasOutput, outputSeq, withOutputOf } from '../../../src/ui/outputs.ts'
import { messagesOfPage, partOf, planPage, type UiPagePlan, type UiPageRequest } from '../../../src/ui/pages.ts'
import { readBack } from '../../../src/ui/reading-back.ts'
import { reachesBack, reachesLoaded, resumePoint, startStreaming, type UiCursor, type UiStreamOptions } from '../../../src/ui/streaming.ts'
import { seededRandom } from '../../../src/testing/crash/random.ts'
import { size } from '../../support/sizes.ts'
import { eventfulSessions, lateOutcomes, type SoundSession, soundSessions } from '../session/sound-session.ts'
import { sessionStarted } from '../../support/session-started.ts'

const POINTS: ReadonlySet<string> = new Set(['session_started', 'forked', 'rolled_back', 'recovery_started', 'tool_resolved'])

interface Read {
  source: PastSource
  events(): number
}

/** What a store has of these events. Counts the events that are read. */
function sourceOf(events: readonly SessionEvent[], page: number): Read {
  let count = 0
  const past = nothingVisible()
  for (const event of events) addToVisible(past, event)
  const said = past.entries.flatMap(({ event, out, archivedBy, takenAt = null }) =>
    event.type === 'message_received' && !archivedBy && (!out || out.taken === 'stay') ? [{ event, takenAt }] : [],
  )
  const counted = async <T>(read: T[]): Promise<T[]> => {
    count += read.length
    return read
  }
  const one = (event: SessionEvent | undefined): Promise<SessionEvent | undefined> => counted(event ? [event] : []).then(([found]) => found)
  const runUpTo = (upTo: number) => events.findLast(({ seq, type }) => seq <= upTo && type === 'run_started')
  return {
    events: () => count,
    source: {
      upTo: (seq) =>
        counted(
          events
            .filter((event) => event.seq <= seq)
            .slice(-page)
            .reverse(),
        ),
      after: (seq) => counted(events.filter((event) => event.seq > seq).slice(0, page)),
      turningPoints(after, before) {
        const points = events.filter(({ seq, type }) => seq > after && seq < before && POINTS.has(type))
        const runs = points.flatMap(({ seq, type }) => (type === 'tool_resolved' ? [] : (runUpTo(seq) ?? [])))
        return counted([...new Set([...points, ...runs])].sort((a, b) => a.seq - b.seq))
      },
      runUpTo: (seq) => one(runUpTo(seq)),
      messages: (ids) => counted(said.filter(({ event }) => ids.includes(event.messageId))),
      waiting: () => counted(said.flatMap(({ event, takenAt }) => (takenAt === null ? [event] : []))),
      output: (callId, before) => one(events.findLast((event) => event.seq < before && hasOutput(event, callId))),
    },
  }
}

function whole(events: readonly SessionEvent[]): UiOutline {
  const outline = emptyOutline()
  for (const event of events) addToOutline(outline, event)
  return outline
}

const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T

function contentsIn(events: readonly SessionEvent[], { seq, output }: { seq: number; output: number | undefined }): SessionEvent {
  const [event, source] = [seq, output].map((one) => events.find((event) => event.seq === one))
  return withOutputOf(event as SessionEvent, source)
}

/** The newest events may not be stored yet. */
interface Reading {
  events: readonly SessionEvent[]
  stored: number
  page: number
}

/** Reads until the outline is enough. */
async function outlineUntil(
  { events, stored, page }: Reading,
  isEnough: (outline: UiOutline) => boolean,
  before?: number,
  message?: string,
) {
  const known = events.slice(0, stored)
  const { source, events: count } = sourceOf(known, page)
  const { state } = whole(events)
  const reading = await readBack({ source, top: events.length, tail: events.slice(stored), state, before, step: page })
  const asked = events.findLast((event) => event.type === 'message_received' && event.messageId === message)
  if (asked) reading.add(asked)
  for (;;) {
    const outline = reading.outline()
    if (outline && isEnough(outline)) return { outline, count: count() }
    await reading.extend()
  }
}

async function planOf(reading: Reading, paging: UiPageRequest): Promise<UiPagePlan> {
  let plan: UiPagePlan | undefined
  const isEnough = (outline: UiOutline): boolean => {
    plan = planPage(outline, paging)
    return plan.isComplete
  }
  await outlineUntil(reading, isEnough, paging.before)
  return plan ?? expect.fail('no plan')
}

const shownBy = (events: readonly SessionEvent[], plan: UiPagePlan) => {
  const parts = plan.toRead.map((place) => partOf(contentsIn(events, place), place))
  return { messages: plain(messagesOfPage(plan, parts)), cursor: plan.cursor }
}

const anySession = fc.oneof(soundSessions, eventfulSessions)
const RUNS = { numRuns: size(40, 1_000), endOnFailure: true }
const readings = fc.record({ session: anySession, seed: fc.integer({ min: 1, max: 1_000_000 }) })

function readingOf({ session, seed }: { session: SoundSession; seed: number }): Reading & { random: () => number } {
  const random = seededRandom(seed)
  const past = session.events.slice(0, 1 + Math.floor(random() * session.events.length))
  const late = lateOutcomes(past, seed)
  const events = [
    ...past,
    ...late.map((body, n) => ({ v: 1, seq: past.length + n + 1, at: past.at(-1)?.at ?? 0, ...body }) as SessionEvent),
  ]
  const stored = Math.max(1, events.length - Math.floor(random() * random() * 20))
  return { events, stored, page: 1 + Math.floor(random() * 12), random }
}

describe('a conversation that is read backwards', () => {
  it('a conversation that is read backwards has the pages of one that is read as a whole', async () => {
    await fc.assert(
      fc.asyncProperty(readings, async (drawn) => {
        const reading = readingOf(drawn)
        const { events, random } = reading
        const paging = { limit: 1 + Math.floor(random() * 8), characters: random() < 0.3 ? 2_000 : 10_000_000, maxValueBytes: 1_000_000 }
        for (let before: number | undefined; ; ) {
          const expected = shownBy(events, planPage(whole(events), { ...paging, before }))
          const page = shownBy(events, await planOf(reading, { ...paging, before }))
          expect(page, `before ${before}`).toEqual(expected)
          if (page.cursor === undefined) return
          before = page.cursor
        }
      }),
      RUNS,
    )
  })

  it('a page of an earlier conversation, from a cursor of before it changed, is that of one that is read as a whole', async () => {
    await fc.assert(
      fc.asyncProperty(readings, async (drawn) => {
        const reading = readingOf(drawn)
        const { events, random } = reading
        const earlier = events.slice(0, 1 + Math.floor(random() * events.length))
        const paging = { limit: 1 + Math.floor(random() * 4), characters: random() < 0.5 ? 1_000 : 10_000_000, maxValueBytes: 1_000_000 }
        for (let before: number | undefined; ; ) {
          before = planPage(whole(earlier), { ...paging, before }).cursor
          if (before === undefined) return
          const expected = shownBy(events, planPage(whole(events), { ...paging, before }))
          expect(shownBy(events, await planOf(reading, { ...paging, before })), `before ${before}`).toEqual(expected)
        }
      }),
      RUNS,
    )
  })

  it('a page that is read backwards says how its answer ended if that happened after messages that nothing has answered', async () => {
    const usage = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
    const content = [{ type: 'tool_use', id: 'u', name: 'ask', input: {} }]
    const calls = [{ index: 0, tool: 'ask', effect: 'read', client: {} }]
    const call = { run: 1, turn: 1, tool: 'ask' }
    const ask = (callId: string) => [
      { ...call, callId, type: 'tool_issued', effect: 'read', inputDigest: 'd', index: 0, input: {} },
      { ...call, callId, type: 'answer_requested' },
    ]
    const events = sessionOf([
      { type: 'message_received', messageId: 'first', content: 'first' },
      { type: 'run_started', run: 1, messageId: 'first' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['first'] },
      { type: 'model_completed', run: 1, turn: 1, attempt: 1, model: 'm', content, usage, calls },
      ...ask('t_1_1_0'),
      { ...call, callId: 't_1_1_0', type: 'answer_received' },
      { ...call, callId: 't_1_1_0', type: 'tool_completed', attempt: 1, value: 'red' },
      { type: 'message_received', messageId: 'second', content: 'second' },
      { type: 'turn_started', run: 1, turn: 2, takes: ['second'] },
      { type: 'error_entered', run: 1, code: 'model_call_failed', reason: 'r', strategy: 'manual' },
      { type: 'recovery_started', strategy: 'selective', run: 1, turn: 1, toSeq: 5, redo: [{ callId: 't_1_1_0', as: 't_1_1_0#2' }] },
      { type: 'recovery_ended', strategy: 'selective', run: 1 },
      ...ask('t_1_1_0#2'),
      { type: 'run_interrupted', run: 1 },
      { type: 'message_received', messageId: 'third', content: 'third' },
      { type: 'run_started', run: 2, messageId: 'third' },
      { type: 'turn_started', run: 2, turn: 1, takes: ['third'] },
      { type: 'run_interrupted', run: 2 },
    ])
    for (let count = 1; count <= events.length; count += 1) {
      const past = events.slice(0, count)
      for (let stored = 1; stored <= count; stored += 1) {
        const paging = { limit: 1, characters: 1_000_000, maxValueBytes: 1_000_000 }
        for (let before: number | undefined; ; ) {
          const expected = shownBy(past, planPage(whole(past), { ...paging, before }))
          const page = shownBy(past, await planOf({ events: past, stored, page: 2 }, { ...paging, before }))
          expect(page, `${count} events, before ${before}, stored up to ${stored}`).toEqual(expected)
          if (page.cursor === undefined) break
          before = page.cursor
        }
      }
    }
  })

  it('a message that a rollback archived stays archived if a second one hides the first, before either is stored', async () => {
    const events = sessionOf([
      { type: 'message_received', messageId: 'first', content: 'order tea' },
      { type: 'run_started', run: 1, messageId: 'first' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['first'] },
      { type: 'message_received', messageId: 'archived', content: 'and coffee' },
      { type: 'rolled_back', toSeq: 4, upToSeq: 5, effects: [] },
      { type: 'rolled_back', toSeq: 2, upToSeq: 0, effects: [], again: { messages: [{ messageId: 'first', seq: 2 }], intent: 1 } },
      { type: 'run_started', run: 2, messageId: 'first' },
      { type: 'turn_started', run: 2, turn: 1, takes: ['first'] },
    ])
    for (let stored = 1; stored <= events.length; stored += 1) {
      expect(await usersMessages({ events, stored, page: 3 }, 10), `stored up to ${stored}`).toEqual(['first'])
    }
  })

  it('a message that an earlier answer has accepted is not on the last page, even if that answer is not stored yet', async () => {
    const call = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'mail' }
    const events = sessionOf([
      { type: 'message_received', messageId: 'first', content: 'mail it' },
      { type: 'run_started', run: 1, messageId: 'first' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['first'] },
      { ...call, type: 'tool_issued', effect: 'external', inputDigest: '', index: 0, input: {} },
      { ...call, type: 'tool_unknown', attempt: 1, reason: 'worker_died' },
      { type: 'message_received', messageId: 'second', content: 'and?' },
      { type: 'turn_started', run: 1, turn: 2, takes: ['second'] },
      { type: 'run_interrupted', run: 1 },
      { type: 'message_received', messageId: 'third', content: 'hello' },
      { type: 'run_started', run: 2, messageId: 'third' },
      { type: 'turn_started', run: 2, turn: 1, takes: ['third'] },
      { type: 'run_interrupted', run: 2 },
      { type: 'message_received', messageId: 'fourth', content: 'hello?' },
      { type: 'run_started', run: 3, messageId: 'fourth' },
      { type: 'turn_started', run: 3, turn: 1, takes: ['fourth'] },
      { ...call, type: 'tool_resolved', by: 'worker', happened: true, value: 'sent' },
    ])
    for (let stored = 1; stored <= events.length; stored += 1) {
      expect(await usersMessages({ events, stored, page: 1 }, 1), `stored up to ${stored}`).toEqual(['fourth'])
    }
  })

  it('a conversation that is read backwards has the streams of one that is read as a whole', async () => {
    await fc.assert(
      fc.asyncProperty(readings, async (drawn) => {
        const reading = readingOf(drawn)
        const { events, random } = reading
        const all = whole(events)
        const messages = events.flatMap((event) => (event.type === 'message_received' ? [event.messageId] : []))
        const after = Math.floor(random() * (events.length + 1))
        const message = messages[Math.floor(random() * messages.length)]
        const from: UiCursor =
          message !== undefined && random() < 0.5
            ? { message, since: random() < 0.7 ? 0 : after }
            : { after, ...answerAt(events, after, random) }
        const taken = 'message' in from ? takenIn(events, from.message) : null
        const { outline } = await outlineUntil(
          reading,
          (outline) => reachesBack(outline, from, taken),
          undefined,
          'message' in from ? message : undefined,
        )
        const later = drawn.session.events.slice(events.length, events.length + 30)
        for (const more of [{}, { isFresh: true as const }]) {
          // A stream changes its state in place.
          const of = (past: UiOutline) => streamed({ from, show: 'pieces', past: structuredClone(past), ...more }, events, later)
          expect(of(outline)).toEqual(of(all))
        }
      }),
      RUNS,
    )
  })

  it('a conversation that is read backwards resumes at the same answer', async () => {
    await fc.assert(
      fc.asyncProperty(readings, async (drawn) => {
        const reading = readingOf(drawn)
        const { events, random } = reading
        const { at, seq } = events[Math.floor(random() * events.length)] ?? { at: 0, seq: 0 }
        for (const loaded of [{ after: at }, { seq }]) {
          const { outline } = await outlineUntil(reading, (outline) => reachesLoaded(outline, loaded))
          expect(resumePoint(outline, loaded)).toEqual(resumePoint(whole(events), loaded))
        }
      }),
      RUNS,
    )
  })
})

function sessionOf(bodies: readonly object[]): SessionEvent[] {
  const start = sessionStarted()
  return [start, ...bodies].map((body, index) => ({ v: 1, seq: index + 1, at: 1, ...body }) as SessionEvent)
}

async function usersMessages(reading: Reading, limit: number): Promise<string[]> {
  const plan = await planOf(reading, { limit, characters: 1_000_000, maxValueBytes: 1_000_000 })
  return shownBy(reading.events, plan).messages.flatMap(({ id, role }) => (role === 'user' ? [id] : []))
}

function answerAt(events: readonly SessionEvent[], after: number, random: () => number): { answer?: string } {
  const turn = events.findLast((event) => event.type === 'turn_started' && event.seq <= after && event.takes.length > 0)
  return turn?.type === 'turn_started' && random() < 0.5 ? { answer: `m_${turn.run}_${turn.turn}` } : {}
}

function takenIn(events: readonly SessionEvent[], messageId: string): number | null {
  const past = nothingVisible()
  for (const event of events) addToVisible(past, event)
  const entry = past.entries.findLast(
    ({ event, archivedBy }) => event.type === 'message_received' && event.messageId === messageId && !archivedBy,
  )
  return entry?.takenAt ?? null
}

/** What a stream sends, and whether it ends. */
function streamed(options: UiStreamOptions, events: readonly SessionEvent[], later: readonly SessionEvent[]): unknown {
  const { stream, toShow } = startStreaming(options)
  const sent = [...toShow.flatMap((place) => stream.past(contentsIn(events, place), place)), stream.end(), stream.last()]
  const all = [...events, ...later]
  for (const event of later) {
    if (stream.end() === 'ended') break
    sent.push(...stream.event(contentsIn(all, { seq: event.seq, output: outputSeq(all, event) })), stream.end())
  }
  return plain([...sent, stream.last()])
}
