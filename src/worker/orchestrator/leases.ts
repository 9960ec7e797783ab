// The lease on an attempt: heartbeats from the moment it was taken until it is released, and what they carry.
import type { Payload } from '@temporalio/common'
import { AttemptLost } from '../../jobs/errors.ts'
import type { Ticket } from '../../jobs/contract.ts'
import type { AttemptReport } from '../../session/attempts.ts'
import { PawlError } from '../../session/errors.ts'
import type { Json } from '../../session/json.ts'
import type { FromSender, HeartbeatAnswer, ToSender } from './heartbeats.ts'

/** A lease on one attempt. */
export interface Lease {
  /** What heartbeats carry now: what is known of the attempt if its executor dies. */
  readonly report: AttemptReport
  /** Asks the server to record the attempt. Rejects when it cannot be reached, or the attempt is lost. */
  announce(): Promise<void>
  /** Has the server confirm, just now, that the body is about to be entered. @throws AttemptLost, PawlError `heartbeat_failed`. */
  begin(): Promise<void>
  progress(value: Json): void
  /** What changed of the attempt, confirmed. */
  record(change: Partial<AttemptReport>): Promise<void>
  stillMine(): Promise<boolean>
  release(): void
}

/** The leases of one orchestrator. */
export interface Leases {
  /** Takes the lease; `onStop` is told once that the attempt is to stop. */
  take(ticket: Ticket, onStop: (why: 'cancelled' | 'lost') => void): Lease
  /** Takes a message of the sending half. */
  receive(message: FromSender): void
}

/** Chances to reach the server before it gives the attempt up. */
const HEARTBEATS_IN_TIMEOUT = 3.3
/** Less than a heartbeat timeout: within it the server cannot have given the attempt up. */
const JUST_NOW_MS = 3_000
const MAX_ASKS = 5
const ENCODE_RETRY_MS = 500

/** Leases whose heartbeats `post` has sent; `encode` makes details of a report, by the worker's own converter and codec. */
export function startLeases(post: (message: ToSender) => void, encode: (report: AttemptReport) => Promise<Payload[]>): Leases {
  const stops = new Map<number, (why: 'cancelled' | 'lost') => void>()
  const requests = new Map<number, { resolve(answer: HeartbeatAnswer): void; reject(error: PawlError): void }>()
  let lastId = 0
  let lastRequest = 0

  function ask(id: number, more: { details?: Payload[]; alone?: true }): Promise<HeartbeatAnswer> {
    const request = ++lastRequest
    return new Promise((resolve, reject) => {
      requests.set(request, { resolve, reject })
      post({ type: 'tell', id, request, ...more })
    })
  }

  function take(ticket: Ticket, onStop: (why: 'cancelled' | 'lost') => void): Lease {
    const id = ++lastId
    let { report } = ticket
    let isStarted = false
    let isReleased = false
    /** Reports are encoded one after another: a newer one must not be overtaken. */
    let encoding: Promise<unknown> = Promise.resolve()
    let isNoting = false
    stops.set(id, onStop)

    const start = (details: Payload[]): void => {
      if (isStarted || isReleased) return
      isStarted = true
      const everyMs = Math.round(ticket.heartbeatTimeoutMs / HEARTBEATS_IN_TIMEOUT)
      post({ type: 'start', id, taskToken: ticket.taskToken, everyMs, details })
    }

    /** The newest report, encoded. Heartbeats start with the first one. */
    const encodeReport = (): Promise<Payload[]> => {
      const encoded = encoding.then(async () => {
        const details = await encode(report)
        start(details)
        return details
      })
      encoding = encoded.catch(() => undefined)
      return encoded
    }

    /** A codec whose key service is away for a moment must not cost the attempt its heartbeats. */
    const startWhenEncoded = (): void => {
      if (isStarted || isReleased) return
      encodeReport().catch(() => setTimeout(startWhenEncoded, ENCODE_RETRY_MS).unref())
    }
    startWhenEncoded()

    const tell = async (details: Promise<Payload[]>, more: { alone?: true } = {}): Promise<void> => {
      if ((await ask(id, { details: await details, ...more })) === 'lost') throw new AttemptLost()
    }

    const change = (next: Partial<AttemptReport>): Promise<Payload[]> => {
      report = { ...report, ...next }
      return encodeReport()
    }

    return {
      get report() {
        return report
      },
      announce: () => tell(encodeReport()),
      begin: () => {
        const details = change({ begun: true })
        return confirmedJustNow(() => tell(details, ticket.once && { alone: true }))
      },
      progress(value) {
        report = { ...report, progress: value }
        // What is reported while another report is being encoded goes with the next one.
        if (isNoting) return
        isNoting = true
        void encoding
          .then(() => {
            isNoting = false
            return encodeReport()
          })
          .then(
            (details) => void (!isReleased && post({ type: 'note', id, details })),
            () => undefined,
          )
      },
      record: (next) => tell(change(next)),
      stillMine: async () => {
        // What the body reported before it asked is known to the server once this is answered.
        const details = await encodeReport().catch(() => undefined)
        return ask(id, details ? { details } : {}).then(
          (answer) => answer !== 'lost',
          () => false,
        )
      },
      release() {
        isReleased = true
        stops.delete(id)
        post({ type: 'end', id })
      },
    }
  }

  return {
    take,
    receive(message) {
      switch (message.type) {
        case 'stop':
          return stops.get(message.id)?.(message.why)
        case 'told':
          requests.get(message.request)?.resolve(message.answer)
          break
        case 'not_told': {
          const reason = `The server could not be told of the attempt: ${message.reason}. pawl retries it.`
          requests.get(message.request)?.reject(new PawlError('heartbeat_failed', reason))
          break
        }
      }
      requests.delete(message.request)
    },
  }
}

/**
 * Has the server confirm the attempt, by an answer that was not long under way: a process that was paused meanwhile finds an answer
 * waiting that was true before its attempt was given up and the effect verified. @throws AttemptLost if no answer is new enough.
 */
export async function confirmedJustNow(ask: () => Promise<void>, now: () => number = Date.now): Promise<void> {
  for (let asks = 0; asks < MAX_ASKS; asks++) {
    const askedAt = now()
    await ask()
    if (now() - askedAt < JUST_NOW_MS) return
  }
  throw new AttemptLost()
}
