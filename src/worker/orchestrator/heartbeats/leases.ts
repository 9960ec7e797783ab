// The lease on an attempt: its heartbeats and their details, from acquisition to release.
import type { Payload } from '@temporalio/common'
import { AttemptLost } from '../../../calls/errors.ts'
import { confirmedJustNow } from '../../confirmed-just-now.ts'
import type { Ticket } from '../../../calls/jobs.ts'
import type { AttemptReport, RidingEffect } from '../../../session/attempts.ts'
import { PawlError } from '../../../session/errors.ts'
import type { Json } from '../../../session/json.ts'
import type { Reservation } from '../../../session/spending/reservation.ts'
import type { FromSender, HeartbeatAnswer, ToSender } from './heartbeats.ts'
import { steadyNow } from '../../steady-clock.ts'

export interface Lease {
  /** The heartbeat details: the report on the attempt in case its executor dies. */
  readonly report: AttemptReport
  /** Records that this executor has the attempt. The next confirmed heartbeat reports it. */
  given(executor: string): void
  /** Makes the server record the attempt. Rejects if the server cannot be reached or the attempt is lost. */
  announce(): Promise<void>
  /** Makes the server confirm now that the body is about to be entered. @throws AttemptLost, PawlError `heartbeat_failed`. */
  begin(): Promise<void>
  /** The same for a call that runs as part of this model call. No earlier heartbeat can replace the report. */
  ride(call: RidingEffect): Promise<void>
  /** That call's body is not entered after all. */
  leaveRide(): void
  progress(value: Json): void
  /**
   * Makes the server record what is reserved for a model call; no earlier heartbeat can replace it.
   * @throws AttemptLost, PawlError `heartbeat_failed`.
   */
  reserve(reservation: Reservation): Promise<void>
  /** Records what may be spent on a model call. The next heartbeat reports it. */
  noteReservation(reservation: Reservation): void
  /** Sends changed details and waits for the confirmation. */
  record(change: Partial<AttemptReport>): Promise<void>
  stillMine(): Promise<boolean>
  /** Whether the server confirmed the attempt so recently that it cannot give up on it within the next two seconds. */
  isHeld(): boolean
  release(): void
}

/** Calls back when the session's attempts may have been asked to stop, until the returned function is called. */
export type WatchStops = (sessionId: string, wake: () => void) => () => void

export interface Leases {
  /** Acquires a lease; `onStop` is called once if the attempt must stop. */
  take(ticket: Ticket, onStop: (why: 'cancelled' | 'lost') => void): Lease
  /** Accepts a message from the sending half. */
  receive(message: FromSender): void
  /** The session's attempts may have been asked to stop. Asks the server as soon as it can know. */
  askForStops(sessionId: string): void
}

/** The number of heartbeats within one timeout. */
const HEARTBEATS_IN_TIMEOUT = 3.3
/** The share of the heartbeat timeout within which the newest confirmation must lie for an attempt to count as held. */
const HELD_SHARE = 0.7
const ENCODE_RETRY_MS = 500
/** When to ask the server: the workflow task that requests a stop completes shortly after its hint, and later on a busy server. */
const ASK_AFTER_MS = [30, 150, 600]

/**
 * `post` sends the heartbeats. `encode` encodes a report with the worker's converter and codecs. `watchStops` covers sessions whose
 * workflows run in other orchestrators.
 */
export function startLeases(
  post: (message: ToSender) => void,
  encode: (report: AttemptReport) => Promise<Payload[]>,
  watchStops: WatchStops,
): Leases {
  const taken = new Map<number, { sessionId: string; stop(why: 'cancelled' | 'lost'): void; askSoon(): void }>()
  /** When the newest confirmed heartbeat of each lease was sent. */
  const keptAt = new Map<number, number>()
  const requests = new Map<number, { resolve(answer: HeartbeatAnswer): void; reject(error: PawlError): void }>()
  let lastId = 0
  let lastRequest = 0

  function ask(id: number, more: { details?: Payload[]; alone?: true; last?: true }): Promise<HeartbeatAnswer> {
    const request = ++lastRequest
    return new Promise((resolve, reject) => {
      requests.set(request, { resolve, reject })
      post({ type: 'tell', id, request, ...more })
    })
  }

  function take(ticket: Ticket, onStop: (why: 'cancelled' | 'lost') => void): Lease {
    const id = ++lastId
    const reporting = startReporting(id, ticket, post, encode)
    /** Does nothing while earlier queries are pending, because the same stop may be reported in both ways. */
    const askSoon = repeatedly(ASK_AFTER_MS, () => {
      if (taken.has(id)) void stillMine()
    })
    const unwatch = watchStops(ticket.sessionId, askSoon)
    const end = (): void => {
      taken.delete(id)
      unwatch()
    }
    taken.set(id, {
      sessionId: ticket.sessionId,
      askSoon,
      stop(why) {
        end()
        if (why === 'lost') keptAt.delete(id)
        onStop(why)
      },
    })

    async function tell(details: Promise<Payload[]>, more: { alone?: true; last?: true } = {}): Promise<void> {
      if ((await ask(id, { details: await details, ...more })) === 'lost') throw new AttemptLost()
    }

    async function stillMine(): Promise<boolean> {
      // The server then also knows everything that the body reported earlier.
      const details = await reporting.encoded().catch(() => undefined)
      return ask(id, details ? { details } : {}).then(
        (answer) => answer !== 'lost',
        () => false,
      )
    }

    return {
      get report() {
        return reporting.report
      },
      given: (executor) => reporting.set({ executor }),
      announce: () => tell(reporting.encoded()),
      async begin() {
        const details = reporting.change({ begun: true })
        if (!(await confirmedJustNow(() => tell(details, ticket.once && { alone: true })))) throw new AttemptLost()
      },
      async ride(riding) {
        const details = reporting.change({ riding })
        if (!(await confirmedJustNow(() => tell(details, { alone: true })))) throw new AttemptLost()
      },
      leaveRide() {
        reporting.set({ riding: undefined })
        reporting.note()
      },
      progress(value) {
        reporting.set({ progress: value })
        reporting.note()
      },
      // The attempt's next heartbeat has it. One of its own would cost every turn a request.
      noteReservation: (reserved) => reporting.set({ reserved }),
      reserve: (reserved) => tell(reporting.change({ reserved }), { last: true }),
      record: (next) => tell(reporting.change(next)),
      stillMine,
      isHeld: () => steadyNow() - (keptAt.get(id) ?? Number.NEGATIVE_INFINITY) < HELD_SHARE * ticket.heartbeatTimeoutMs,
      release() {
        reporting.end()
        keptAt.delete(id)
        end()
        post({ type: 'end', id })
      },
    }
  }

  return {
    take,
    receive(message) {
      switch (message.type) {
        case 'stop':
          return taken.get(message.id)?.stop(message.why)
        case 'kept':
          return void keptAt.set(message.id, steadyNow() - message.agoMs)
        case 'told':
          requests.get(message.request)?.resolve(message.answer)
          break
        case 'not_told': {
          const reason = `The attempt could not be reported to the server: ${message.reason}. pawl retries it.`
          requests.get(message.request)?.reject(new PawlError('heartbeat_failed', reason))
          break
        }
      }
      requests.delete(message.request)
    },
    askForStops(sessionId) {
      for (const one of taken.values()) if (one.sessionId === sessionId) one.askSoon()
    },
  }
}

/** The report on an attempt, and its encodings. */
interface LeaseReport {
  readonly report: AttemptReport
  set(next: Partial<AttemptReport>): void
  /** The newest report, encoded. Heartbeats start with the first one. */
  encoded(): Promise<Payload[]>
  /** The changed report, encoded. */
  change(next: Partial<AttemptReport>): Promise<Payload[]>
  /** Sends the newest report with the next heartbeat. */
  note(): void
  end(): void
}

function startReporting(
  id: number,
  ticket: Ticket,
  post: (message: ToSender) => void,
  encode: (report: AttemptReport) => Promise<Payload[]>,
): LeaseReport {
  let { report } = ticket
  let isStarted = false
  let isEnded = false
  /** Reports are encoded one after another, so that they stay in order. */
  let encoding: Promise<unknown> = Promise.resolve()
  let isNoting = false

  function start(details: Payload[]): void {
    if (isStarted || isEnded) return
    isStarted = true
    const everyMs = Math.round(ticket.heartbeatTimeoutMs / HEARTBEATS_IN_TIMEOUT)
    post({ type: 'start', id, taskToken: ticket.taskToken, everyMs, details })
  }

  function encoded(): Promise<Payload[]> {
    const next = encoding.then(async () => {
      const details = await encode(report)
      start(details)
      return details
    })
    encoding = next.catch(() => undefined)
    return next
  }

  /** A codec whose key service is briefly unavailable must not stop an attempt's heartbeats. */
  function startWhenEncoded(): void {
    if (isStarted || isEnded) return
    encoded().catch(() => setTimeout(startWhenEncoded, ENCODE_RETRY_MS).unref())
  }
  startWhenEncoded()

  function set(next: Partial<AttemptReport>): void {
    report = { ...report, ...next }
  }

  return {
    get report() {
      return report
    },
    set,
    encoded,
    change(next) {
      set(next)
      return encoded()
    },
    note() {
      // Reports that arrive during an encoding are sent with the next one.
      if (isNoting) return
      isNoting = true
      void encoding
        .then(() => {
          isNoting = false
          return encoded()
        })
        .then(
          (details) => void (!isEnded && post({ type: 'note', id, details })),
          () => undefined,
        )
    },
    end() {
      isEnded = true
    },
  }
}

/** Runs `work` after each of these delays, unless earlier runs are pending. */
function repeatedly(afterMs: readonly number[], work: () => void): () => void {
  let pending = 0
  return () => {
    if (pending > 0) return
    for (const ms of afterMs) {
      pending += 1
      setTimeout(() => {
        pending -= 1
        work()
      }, ms).unref()
    }
  }
}
