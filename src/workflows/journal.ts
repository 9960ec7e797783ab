// The session's events as this execution makes them: numbers, digests, folds and hands each one to the event log.
import { ApplicationFailure, proxySinks, type Sinks } from '@temporalio/workflow'
import type { EventsInput } from '../activities/contract.ts'
import { checkpointDue } from '../session/checkpointing.ts'
import { nextDigest } from '../session/digest.ts'
import type { EventBody, LogEntry, SessionEvent, Watermark } from '../session/events.ts'
import { apply, initialState } from '../session/fold.ts'
import type { EventsPage } from '../session/protocol.ts'
import type { SessionState } from '../session/state.ts'
import { defined } from '../session/defined.ts'

/** What the workflow tells its worker. */
export interface PawlSinks extends Sinks {
  pawl: {
    /** The events, for the event log. Called during replay too, so that a replay rebuilds the log. */
    append(epoch: string, entries: LogEntry[]): void
    /** What is running was asked to stop. A hint: whether it is to, the server says. */
    stop(): void
  }
}

/** The events of a session, growing. */
export interface Journal {
  /** The last event before those that this journal holds. */
  readonly base: Watermark
  /** What the events so far fold to. Read it anew after each append. */
  readonly state: SessionState
  /** The core that this execution folds and decides with. */
  readonly coreVersion: number
  append(body: EventBody): void
  /** Nothing is appended any more: what tries fails as `workflow_reset`. */
  end(): void
  readonly hasEnded: boolean
  /** Makes a checkpoint, beside those that the agent's policy makes. */
  checkpoint(reason: string, by?: string): void
  /** The time has come that a policy by time sets for the checkpoint after `version`: the turn that ends next makes it. */
  checkpointTime(version: number): void
  /** The last event. Handed to an activity, it is durable: the same workflow task schedules the activity. */
  watermark(): Watermark
  /** The events above `seq`. */
  since(seq: number): SessionEvent[]
  page(after: number, maxBytes: number): Pick<EventsPage, 'base' | 'events' | 'from' | 'to' | 'more'>
}

const { pawl: worker } = proxySinks<PawlSinks>()

/** Has the worker ask soon whether the session's attempts are to stop: its next heartbeat, which would tell, may be seconds away. */
export function hintStop(): void {
  worker.stop()
}

/** Which events the activities of this session may read now. */
export function eventsOf({ state, watermark }: Journal): EventsInput {
  return { epoch: state.epoch, watermark: watermark(), ...(state.origin && { origin: state.origin }) }
}

/**
 * A journal that goes on from `base`, where `carried` is what the events up to there fold to, and begins with `tail`.
 */
export function openJournal(base: Watermark, carried: SessionState | undefined, coreVersion: number, tail: SessionEvent[] = []): Journal {
  const own: { event: SessionEvent; entry: LogEntry }[] = []
  let state = carried
  let last = base
  let timeFor: number | undefined
  let hasEnded = false

  function append(body: EventBody): void {
    const event = write(body)
    const reason = state ? checkpointDue(state, event, timeFor === (state.checkpoint?.version ?? 0)) : undefined
    if (reason !== undefined) checkpoint(reason)
  }

  function checkpoint(reason: string, by?: string): void {
    if (!state) return
    const { current, lastMessageId } = state
    write({
      type: 'checkpoint_made',
      version: (state.checkpoint?.version ?? 0) + 1,
      ...(state.run > 0 && { run: state.run }),
      ...(current && { turn: current.turn }),
      reason,
      ...defined({ by, lastMessageId }),
    })
  }

  function write(body: EventBody): SessionEvent {
    if (hasEnded)
      throw ApplicationFailure.nonRetryable('The workflow was reset meanwhile: look at the session and ask again.', 'workflow_reset')
    const event = { v: 1, seq: last.seq + 1, at: Date.now(), ...body } as SessionEvent
    add(event)
    return event
  }

  function add(event: SessionEvent): void {
    const json = JSON.stringify(event)
    const entry = { seq: event.seq, prev: last.digest, digest: nextDigest(last.digest, json), json }
    if (event.type === 'session_started') state = initialState(event)
    else if (state) apply(state, event)
    own.push({ event, entry })
    last = { seq: entry.seq, digest: entry.digest }
    if (state) worker.append(state.epoch, [entry])
  }

  function page(after: number, maxBytes: number): ReturnType<Journal['page']> {
    const start = Math.min(Math.max(0, after - base.seq), own.length)
    let end = start
    for (let bytes = 0; end < own.length; end++) {
      bytes += utf8Bytes(own[end]?.entry.json ?? '')
      if (end > start && bytes > maxBytes) break
    }
    const at = (count: number): Watermark => {
      const entry = own[count - 1]?.entry
      return entry ? { seq: entry.seq, digest: entry.digest } : base
    }
    return { base, events: own.slice(start, end).map((one) => one.event), from: at(start), to: at(end), more: end < own.length }
  }

  for (const event of tail) add(event)

  return {
    base,
    get state() {
      if (!state) throw new Error('pawl: the journal has no session_started yet')
      return state
    },
    coreVersion,
    append,
    end: () => {
      hasEnded = true
    },
    get hasEnded() {
      return hasEnded
    },
    checkpoint,
    checkpointTime: (version) => {
      timeFor = version
    },
    watermark: () => last,
    since: (seq) => own.slice(Math.max(0, seq - base.seq)).map(({ event }) => event),
    page,
  }
}

function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length
}
