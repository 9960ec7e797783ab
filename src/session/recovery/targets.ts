// Points in a session's past, for rollbacks and forks: finding them, and the effects after them.
import { effectsAbove, noEffects, noteEffect } from '../effects.ts'
import { PawlError } from '../errors.ts'
import type { EffectReport } from '../call-facts.ts'
import type { SessionEvent, Target } from '../events.ts'
import { fold } from '../fold/fold.ts'
import { cutOf, NO_RUN } from '../past/cut.ts'
import { addToVisible, nothingVisible } from '../past/visible.ts'
import { SUGGESTIONS } from '../suggestions.ts'
import { TARGET_REQUIRED, targetIn } from '../protocol/requests.ts'
import type { SessionState } from '../state.ts'
import { addToTranscript } from '../transcript/adding.ts'
import { emptyTranscript } from '../transcript/transcript.ts'
import { defined } from '../defined.ts'

/** A target that was found. */
export interface TargetPlace {
  /**
   * The last event that belongs to the target. The transcript has no open calls at that point, because an answer with unfinished calls is
   * omitted.
   */
  seq: number
  digest: string
  /** Id of the transcript's last message at that point. */
  lastMessageId?: string
}

/**
 * The target does not exist or cannot be used. Codes: `checkpoint_not_found`, `message_not_found`, `run_not_found`, `session_not_found`,
 * `target_archived`, `invalid_target`.
 */
export class TargetRefused extends PawlError {
  override readonly name = 'TargetRefused'
}

/** Maximum effects that a report lists. */
const EFFECTS_REPORTED = 100

/** Checks that an outside value is a target. @throws TargetRefused. */
export function checkTarget(raw: unknown): Target {
  const target = targetIn(raw)
  if (!target) throw new TargetRefused('invalid_target', TARGET_REQUIRED)
  return target
}

/** An event, and its digest in the log. */
interface Entry {
  event: SessionEvent
  digest: string
}

/**
 * Finds a target among all events of a session; without a target, the newest place. `archived`: whether to search the archived past, too,
 * because a fork may begin there.
 * @throws TargetRefused.
 */
export function locate(entries: Iterable<Entry>, target: Target | undefined, options: { archived?: boolean } = {}): TargetPlace {
  const search = searchFor(target)
  for (const entry of entries) search.add(entry)
  return search.found(options)
}

/** A search for a target. */
interface Search {
  /** The session's next event. */
  add(entry: Entry): void
  /** The place, once all events have been added. @throws TargetRefused. */
  found(options?: { archived?: boolean }): TargetPlace
}

/** A search to which the caller adds events one by one. */
export function searchFor(target: Target | undefined): Search {
  const transcript = emptyTranscript()
  let boundaries: TargetPlace[] = []
  let state: SessionState | undefined
  let newest = NO_RUN
  let found: { seq: number; isCurrent: boolean } | undefined
  const archiveAfter = (from: number): void => {
    if (found && found.seq > from) found = { ...found, isCurrent: false }
  }
  const add = ({ event, digest }: Entry): void => {
    addToTranscript(transcript, event)
    state = fold(state, [event])
    if (event.type === 'session_started') [boundaries, found] = [[], undefined]
    const cut = cutOf(event, newest)
    if (cut && !cut.outcomes) archiveAfter(cut.after)
    if (event.type === 'run_started') newest = { run: event.run, seq: event.seq }
    const at = target ? seqOf(event, target) : event.seq
    if (at !== undefined) found = { seq: at, isCurrent: true }
    if (transcript.open === null) {
      boundaries.push({ seq: event.seq, digest, ...defined({ lastMessageId: state?.lastMessageId }) })
    }
  }
  const placeFound = ({ archived }: { archived?: boolean } = {}): TargetPlace => {
    if (!found || !target) {
      const last = boundaries.at(-1)
      if (!target && last) return last
      throw target ? notFound(target) : new TargetRefused('session_not_found', 'The session has no events. Check its id.')
    }
    const { seq, isCurrent } = found
    if (!isCurrent && !archived) {
      throw new TargetRefused('target_archived', `A rollback or a recovery has archived ${nameOf(target)}. Fork from it instead.`)
    }
    const place = boundaries.findLast((boundary) => boundary.seq <= seq)
    if (!place) throw new TargetRefused(notFound(target).code, `There is nothing before ${nameOf(target)}. Start a new session instead.`)
    return place
  }
  return { add, found: placeFound }
}

/** Effects that completed or may have completed. */
export interface ReportedEffects {
  /** The newest of them, newest last. */
  effects: EffectReport[]
  /** How many there are besides. */
  more: number
  /** Those of the calls in question that are among these others. */
  among?: string[]
}

/** The effects above `seq`. `calls`: those of which it matters whether they are among the effects that are not reported. */
export function effectsAfter(events: Iterable<SessionEvent>, seq: number, calls: readonly string[] = []): ReportedEffects {
  const log = noEffects()
  for (const event of events) noteEffect(log, event)
  const all = effectsAbove(log, seq).map(({ callId, tool, status, effectId }) => ({ callId, tool, status, ...defined({ effectId }) }))
  const others = new Set(all.slice(0, -EFFECTS_REPORTED).map(({ callId }) => callId))
  const among = calls.filter((callId) => others.has(callId))
  return { effects: all.slice(-EFFECTS_REPORTED), more: others.size, ...(among.length > 0 && { among }) }
}

/** The users' messages that are not in the transcript up to `seq`, in order; from the inbox, only those up to `upToSeq`. */
export function messagesAfter(events: Iterable<SessionEvent>, seq: number, upToSeq: number): { messageId: string; seq: number }[] {
  const past = nothingVisible(({ type }) => type === 'message_received')
  for (const event of events) addToVisible(past, event)
  return past.entries.flatMap(({ event, out, archivedBy, takenAt }) => {
    if (event.type !== 'message_received' || out || archivedBy) return []
    const isAfter = takenAt === undefined ? event.seq <= upToSeq : takenAt > seq
    return isAfter ? [{ messageId: event.messageId, seq: event.seq }] : []
  })
}

/** The newest run, and its intent; undefined before the first one. */
export function newestRun(events: Iterable<SessionEvent>): { run: number; intent: number } | undefined {
  let newest: { run: number; intent: number } | undefined
  for (const event of events) if (event.type === 'run_started') newest = { run: event.run, intent: event.intent ?? event.run }
  return newest
}

/** The last event that belongs to the target, if this event determines it. */
function seqOf(event: SessionEvent, target: Target): number | undefined {
  if ('checkpoint' in target) return event.type === 'checkpoint_made' && event.version === target.checkpoint ? event.seq : undefined
  if ('run' in target) return event.type === 'run_started' && event.run === target.run ? event.seq - 1 : undefined
  if (event.type === 'message_received' && event.messageId === target.message) return event.seq - 1
  // For the model, events between the message's arrival and the turn that accepted it are older than the message.
  if (event.type === 'turn_started' && event.takes.includes(target.message)) return event.seq - 1
  return undefined
}

function nameOf(target: Target): string {
  if ('checkpoint' in target) return `checkpoint ${target.checkpoint}`
  return 'run' in target ? `run ${target.run}` : `message ${JSON.stringify(target.message)}`
}

function notFound(target: Target): TargetRefused {
  const kind = 'checkpoint' in target ? 'checkpoint' : 'run' in target ? 'run' : 'message'
  const next =
    kind === 'checkpoint' ? `\`${SUGGESTIONS.listCheckpoints()}\` lists those that it has` : "check it against the session's messages"
  return new TargetRefused(`${kind}_not_found`, `The session has no ${nameOf(target)}: ${next}.`)
}
