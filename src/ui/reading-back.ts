// Reads the outline of a conversation backwards from its end, as far as a page or a stream needs it. Skips what a rollback archived.
import type { EventOf, SessionEvent } from '../session/events.ts'
import { lightOf } from '../session/light.ts'
import { cutOf, NO_RUN } from '../session/past/cut.ts'
import type { PastSource } from '../session/past/source.ts'
import { addToVisible, nothingVisible } from '../session/past/visible.ts'
import type { SessionState } from '../session/state.ts'
import type { UiOutline } from './outline.ts'
import { hasOutput, repeatedBy } from './outputs.ts'
import { surviving } from './surviving.ts'

/** Where reading begins. */
export interface ReadingBack {
  source: PastSource
  /** `seq` of the newest event. */
  top: number
  /** The newest events, oldest first, which the source may not have yet. */
  tail: readonly SessionEvent[]
  state: SessionState | undefined
  /** Reads only what comes before this place, which is the start of an answer. Default: everything up to now. */
  before?: number | undefined
  /** The minimum number of events per read. */
  step?: number
}

/** An outline that is extended backwards. */
export interface GrowingOutline {
  /** The outline read so far; undefined until the beginning of an answer has been read. */
  outline(): UiOutline | undefined
  /** Reads about as many events as have been read so far. */
  extend(): Promise<void>
  /** Adds a message's event, wherever it is. */
  add(event: SessionEvent): void
}

/** The minimum number of events per read. Each read doubles what has been read. */
const STEP = 100
const CHARACTERS = 500_000

interface Entry {
  event: SessionEvent
  size: number
}

/** Starts at the end, before anything has been read. */
export async function readBack({ source, top, tail, state, before, step = STEP }: ReadingBack): Promise<GrowingOutline> {
  /** The events read without gaps, apart from what a rollback archived; newest first. */
  const read: Entry[] = []
  /** Events from elsewhere that those need. */
  const others = new Map<number, Entry>()
  const asked = { messages: new Set<string>(), outputs: new Set<number>(), waiting: false }
  let waiting: ReadonlySet<number> = new Set()
  const named = new Set<number>()
  let characters = 0
  /** Where the next read starts. */
  let upTo = top
  /** Above this event, everything must be read, because it replaces results of calls below. */
  let wholeAbove = Number.MAX_SAFE_INTEGER
  let isWhole = false

  // A rollback that is not stored yet would skip messages that no source has.
  for (const event of messagesThatSurvive(tail)) add(event)
  const inbox = new Set(state?.inbox.map(({ messageId }) => messageId))
  if (before !== undefined) await beginBefore(before)
  await take(tail.toReversed())
  if (read.length > 0) await addWhatIsMissing()

  /** Skips what comes after this place, unless it contains results of calls before it. */
  async function beginBefore(place: number): Promise<void> {
    const points = await pointsFrom(place)
    for (const event of points) add(event)
    /** Nothing above this event is shown. */
    let shown = place - 1
    /** The answer that begins at this place, or the next one, comes after this event. */
    let next = shown
    /** What comes after it has been undone. */
    let ceiling = Number.MAX_SAFE_INTEGER
    for (const point of points.toReversed()) {
      if (point.seq > ceiling) continue
      if (point.type === 'session_started') {
        isWhole = true
        return
      }
      const run = points.findLast((event) => event.type === 'run_started' && event.seq < point.seq)
      const cut = cutOf(point, run?.type === 'run_started' ? run : NO_RUN)
      if (!cut) continue
      if (skips(point)) ceiling = cut.after
      if (cut.after >= place - 1) continue
      if (cut.outcomes || (skips(point) && (await mayHaveOutcomes(cut.after, point.seq)))) return
      if (!skips(point)) continue
      shown = cut.after
      next = point.seq
    }
    upTo = Math.min(upTo, shown)
    await readNextAnswer(next)
  }

  async function pointsFrom(place: number): Promise<SessionEvent[]> {
    const stored = await source.turningPoints(place - 1, Number.MAX_SAFE_INTEGER)
    const newer = tail.filter(
      (event) => event.seq >= place && (isTurningPoint(event) || ['run_started', 'tool_resolved'].includes(event.type)),
    )
    const first = newer[0]
    const run = first && (await runUpTo(first.seq))
    return [...stored.filter(({ seq }) => seq !== run?.seq), ...(run ? [run] : []), ...newer].sort((a, b) => a.seq - b.seq)
  }

  /** The answer before the place ends with the beginning of the next one. */
  async function readNextAnswer(after: number): Promise<void> {
    for (let from = after; ; ) {
      const stored = await source.after(from)
      const events = stored.length > 0 ? stored : tail.filter(({ seq }) => seq > from)
      for (const event of events) {
        add(event)
        from = event.seq
        if (event.type === 'turn_started' && event.takes.length > 0 && isShown(event)) return
      }
      if (events.length === 0) return
    }
  }

  function isShown({ seq }: SessionEvent): boolean {
    return surviving(sorted().map(({ event }) => event)).some((one) => one.event.seq === seq && !one.isArchived)
  }

  /** Whether the newest outcomes of earlier calls may be between the two events. */
  async function mayHaveOutcomes(after: number, before: number): Promise<boolean> {
    const points = [...(await source.turningPoints(after, before)), ...tail.filter(({ seq }) => seq > after && seq < before)]
    return points.some((event) => isChoice(event) || event.type === 'tool_resolved' || event.type === 'session_started')
  }

  async function take(newestFirst: readonly SessionEvent[]): Promise<void> {
    for (const event of newestFirst) {
      if (event.seq > upTo || isWhole) continue
      const one = entryOf(event)
      read.push(one)
      characters += one.size
      upTo = event.seq - 1
      if (event.type === 'session_started' || upTo === 0) isWhole = true
      if (!skips(event) || event.seq > wholeAbove) continue
      if (await mayHaveOutcomes(event.toSeq, event.seq)) wholeAbove = event.toSeq
      else upTo = event.toSeq
    }
  }

  async function extend(): Promise<void> {
    const goal = { events: read.length + Math.max(step, read.length), characters: characters + Math.max(CHARACTERS, characters) }
    while (!isWhole && read.length < goal.events && characters < goal.characters) {
      const page = await source.upTo(upTo)
      if (page.length === 0) isWhole = true
      await take(page)
    }
    await addWhatIsMissing()
  }

  async function addWhatIsMissing(): Promise<void> {
    await addRun()
    const events = sorted().map(({ event }) => event)
    await addMessages(events)
    await addOutputs(events)
    if (before !== undefined || asked.waiting) return
    asked.waiting = true
    // Some may have been accepted or archived in the tail, even by an event that a rollback there skips.
    const unanswered = messagesThatWait([...(await source.waiting()), ...tail])
    waiting = new Set(unanswered.map(({ seq }) => seq))
    for (const event of unanswered) add(event)
  }

  /** What a recovery takes out depends on where its run began. */
  async function addRun(): Promise<void> {
    const oldestFirst = read.toReversed().map(({ event }) => event)
    const [oldest] = oldestFirst
    const first = oldestFirst.find((event) => isTurningPoint(event) || event.type === 'run_started')
    if (isWhole || !oldest || !first || first.type === 'run_started') return
    const run = await runUpTo(oldest.seq - 1)
    if (run) add(run)
  }

  async function runUpTo(seq: number): Promise<SessionEvent | undefined> {
    return tail.findLast((event) => event.seq <= seq && event.type === 'run_started') ?? (await source.runUpTo(seq))
  }

  async function addMessages(events: readonly SessionEvent[]): Promise<void> {
    const known = new Set(events.flatMap((event) => (event.type === 'message_received' ? [event.messageId] : [])))
    const ids = [...new Set(events.flatMap(messagesOf))].filter((id) => !known.has(id) && !asked.messages.has(id))
    for (const id of ids) asked.messages.add(id)
    if (ids.length === 0) return
    for (const { event } of await source.messages(ids)) add(event)
  }

  async function addOutputs(events: readonly SessionEvent[]): Promise<void> {
    for (const event of events) {
      for (let replay: SessionEvent | undefined = event; replay; ) {
        const callId = repeatedBy(replay)
        const seq: number = replay.seq
        if (callId === undefined || asked.outputs.has(seq)) break
        asked.outputs.add(seq)
        const isSource = (one: SessionEvent): boolean => one.seq < seq && hasOutput(one, callId)
        replay = events.findLast(isSource) ?? tail.findLast(isSource) ?? (await source.output(callId, seq))
        // It may have been read, but the outline may begin after it.
        if (replay) add(replay)
      }
    }
  }

  function add(event: SessionEvent): void {
    others.set(event.seq, entryOf(event))
  }

  function sorted(): Entry[] {
    const all = new Map([...others.values(), ...read].map((one) => [one.event.seq, one]))
    return [...all.values()].sort((a, b) => a.event.seq - b.event.seq)
  }

  function outline(): UiOutline | undefined {
    const all = sorted()
    if (isWhole) return { ...outlineOf(all), state, start: 0, earlier: [] }
    const events = all.map(({ event }) => event)
    const start = startIn(events, read.at(-1)?.event.seq ?? 0)
    if (start === undefined) return undefined
    const taken = new Set(events.flatMap((event) => (event.seq >= start ? messagesOf(event) : [])))
    const run = events.findLast((event) => event.type === 'run_started' && event.seq < start)
    const calls = new Set(events.flatMap((event) => (event.type === 'tool_issued' && event.seq >= start ? [event.callId] : [])))
    const isEarlier = (event: SessionEvent): event is EventOf<'tool_resolved'> => event.type === 'tool_resolved' && !calls.has(event.callId)
    const isNeeded = ({ event }: Entry): boolean => {
      if (isEarlier(event)) return false
      if (event.seq >= start || event === run) return true
      if (event.type === 'message_received')
        return taken.has(event.messageId) || waiting.has(event.seq) || inbox.has(event.messageId) || named.has(event.seq)
      return others.has(event.seq)
    }
    return { ...outlineOf(all.filter(isNeeded)), state, start, earlier: events.filter((event) => event.seq >= start).filter(isEarlier) }
  }

  return {
    outline,
    extend,
    add(event) {
      named.add(event.seq)
      add(event)
    },
  }
}

function entryOf(event: SessionEvent): Entry {
  return { event: lightOf(event), size: JSON.stringify(event).length }
}

function outlineOf(entries: readonly Entry[]): Pick<UiOutline, 'events' | 'sizes'> {
  return { events: entries.map(({ event }) => event), sizes: entries.map(({ size }) => size) }
}

function messagesThatSurvive(events: readonly SessionEvent[]): SessionEvent[] {
  return surviving(events).flatMap(({ event }) => (event.type === 'message_received' ? [event] : []))
}

function messagesThatWait(events: readonly SessionEvent[]): SessionEvent[] {
  const past = nothingVisible()
  for (const event of events) addToVisible(past, event)
  return [...past.waiting.values()].map(({ event }) => event)
}

function isTurningPoint({ type }: SessionEvent): boolean {
  return ['session_started', 'forked', 'rolled_back', 'recovery_started'].includes(type)
}

/** The messages that the event assigns to a run, or returns to the queue. */
function messagesOf(event: SessionEvent): readonly string[] {
  if (event.type === 'rolled_back') return event.again?.messages.map(({ messageId }) => messageId) ?? []
  return event.type === 'turn_started' ? event.takes : []
}

function isChoice(event: SessionEvent): boolean {
  return event.type === 'recovery_started' && event.strategy === 'selective'
}

/** Whether only messages are shown between the event and the point that it goes back to. */
function skips(event: SessionEvent): event is EventOf<'rolled_back'> {
  return event.type === 'rolled_back' && !event.keepsRun
}

/** The oldest answer that is complete in these events, from its beginning on. `from`: the place after which they have no gaps. */
function startIn(events: readonly SessionEvent[], from: number): number | undefined {
  const shown = new Set(surviving(events).flatMap(({ event, isArchived }) => (isArchived ? [] : [event.seq])))
  /** For each run, its oldest turn that something later changes. */
  const oldestTurns = new Map<number, number>()
  let start: number | undefined
  for (const event of events.toReversed()) {
    if (event.seq < from) break
    if (event.type === 'turn_started' && event.takes.length > 0 && shown.has(event.seq)) {
      if ((oldestTurns.get(event.run) ?? event.turn) >= event.turn) start = event.seq
    }
    const { run, turn } = turnOf(event)
    if (run !== undefined && turn !== undefined) oldestTurns.set(run, Math.min(turn, oldestTurns.get(run) ?? turn))
  }
  return start
}

/** The turn that the event changes. It may have begun before a message that a later turn of the run accepted. */
function turnOf(event: SessionEvent): { run?: number | undefined; turn?: number | undefined } {
  const isOfTurn = ('callId' in event && event.callId !== undefined) || event.type === 'recovery_started'
  return isOfTurn && 'turn' in event && 'run' in event ? { run: event.run, turn: event.turn } : {}
}
