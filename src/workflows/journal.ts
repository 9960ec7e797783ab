// The journal of this execution: numbers, digests and folds each new event, and passes it to the event log.
import { ApplicationFailure, proxySinks, type Sinks } from '@temporalio/workflow'
import type { EventsInput } from '../calls/activities.ts'
import { type Background, backgroundOf } from '../session/background.ts'
import { spentBy, warningsDue } from '../session/spending/budget.ts'
import { checkpointAfter } from '../session/checkpointing.ts'
import { nextDigest } from '../session/digest.ts'
import type { EventBody, LogEntry, SessionEvent, Watermark } from '../session/events.ts'
import { apply, initialState } from '../session/fold/fold.ts'
import { bytesOfText } from '../session/transcript/measure.ts'
import type { EventsPage } from '../session/protocol/protocol.ts'
import type { CheckpointDue, SessionState } from '../session/state.ts'
import { defined } from '../session/defined.ts'

/** The sinks through which the workflow informs its worker. */
export interface PawlSinks extends Sinks {
  pawl: {
    /**
     * Passes events to the event log. Also called during replay, so that a replay rebuilds the log. `background`: set for events that this
     * execution makes; absent for those of an earlier one.
     */
    append(epoch: string, entries: LogEntry[], background?: Background): void
    /** Tells the worker that running activities were asked to stop. This is only a hint; the server decides. */
    stop(): void
  }
}

/** The session's events, an append-only list. */
export interface Journal {
  /** The last event before those in this journal. */
  readonly base: Watermark
  /** The fold of the events so far. Read it again after each append. */
  readonly state: SessionState
  /** The core version of this execution. */
  readonly coreVersion: number
  /** Whether the session began without consulting the store, which has not yet confirmed that the session is new. */
  isUnconfirmed: boolean
  append(body: EventBody): void
  /** Ends the journal: further appends fail with `workflow_reset`. */
  end(): void
  readonly hasEnded: boolean
  /** Makes a checkpoint in addition to those of the agent's policy. Must not be called during a turn. */
  checkpoint(due: CheckpointDue): void
  /** Notes that the policy's interval since checkpoint `version` has passed, so that the end of the next turn makes a checkpoint. */
  checkpointTime(version: number): void
  /** The last event. It is durable whenever an activity receives it, because the same workflow task schedules the activity. */
  watermark(): Watermark
  /** The events above `seq`. */
  since(seq: number): SessionEvent[]
  page(after: number, maxBytes: number): Pick<EventsPage, 'base' | 'events' | 'from' | 'to' | 'more'>
}

const { pawl: sinks } = proxySinks<PawlSinks>()

/** Makes the worker check soon whether the session's attempts must stop. The next heartbeat may be seconds away. */
export function hintStop(): void {
  sinks.stop()
}

export function eventsOf({ state, watermark, isUnconfirmed }: Journal): EventsInput {
  const { epoch, origin } = state
  return { epoch, watermark: watermark(), ...(origin && { origin }), ...(isUnconfirmed && { isNew: true }) }
}

/**
 * A journal that continues from `base` and begins with `tail`; `carried` is the state at `base`.
 */
export function openJournal(base: Watermark, carried: SessionState | undefined, coreVersion: number, tail: SessionEvent[] = []): Journal {
  const own: { event: SessionEvent; entry: LogEntry }[] = []
  let state = carried
  let last = base
  let timeFor: number | undefined
  let hasEnded = false

  function append(body: EventBody): void {
    const event = write(body)
    const due = state ? checkpointAfter(state, event, timeFor === (state.checkpoint?.version ?? 0)) : undefined
    if (due) checkpoint(due)
    if (state && spentBy(event)) for (const warning of warningsDue(state)) append(warning)
  }

  function checkpoint({ reasons, by }: CheckpointDue): void {
    if (!state) return
    const { current, lastMessageId } = state
    write({
      type: 'checkpoint_made',
      version: (state.checkpoint?.version ?? 0) + 1,
      ...(state.run > 0 && { run: state.run }),
      ...(current && { turn: current.turn }),
      reasons,
      ...defined({ by, lastMessageId }),
    })
  }

  function write(body: EventBody): SessionEvent {
    if (hasEnded)
      throw ApplicationFailure.nonRetryable(
        'The workflow was reset in the meantime. Check the session, then send the request again.',
        'workflow_reset',
      )
    const event = { v: 1, seq: last.seq + 1, at: Date.now(), ...body } as SessionEvent
    add(event, backgroundOf(state))
    return event
  }

  function add(event: SessionEvent, background?: Background): void {
    const json = JSON.stringify(event)
    const entry = { seq: event.seq, prev: last.digest, digest: nextDigest(last.digest, json), json }
    if (event.type === 'session_started') state = initialState(event)
    else if (state) apply(state, event)
    own.push({ event, entry })
    last = { seq: entry.seq, digest: entry.digest, at: event.at }
    if (state) sinks.append(state.epoch, [entry], background)
  }

  function page(after: number, maxBytes: number): ReturnType<Journal['page']> {
    const start = Math.min(Math.max(0, after - base.seq), own.length)
    let end = start
    for (let bytes = 0; end < own.length; end++) {
      bytes += bytesOfText(own[end]?.entry.json ?? '')
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
    isUnconfirmed: false,
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
