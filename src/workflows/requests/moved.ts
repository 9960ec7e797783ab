// Requests that a person has made while looking at an earlier event: refused if the session has moved on since.
import { patched } from '@temporalio/workflow'
import { isObject } from '../../session/json.ts'
import { isOrdinal, requestOf } from '../../session/protocol/requests.ts'
import { movedBy, movedText } from '../../session/recovery/moved.ts'
import { refuse, type Session } from '../session-parts.ts'

/** A validator refuses such a request, which leaves nothing in history. Passes without a session, because `refuseIfMoved` checks again. */
export function checkNotMoved(session: Session | undefined, request: unknown): void {
  const why = session && whyMoved(session, request, Number.POSITIVE_INFINITY)
  if (why !== undefined) refuse('session_moved', why)
}

/** The same action, which refuses a request if the session had moved on when it was received. */
export function unlessMoved<A, R>(
  carryOut: (session: Session, request: A, receivedAt?: number) => R,
): (session: Session, request: A, receivedAt?: number) => R {
  return (session, request, receivedAt) => {
    refuseIfMoved(session, request, receivedAt)
    return carryOut(session, request, receivedAt)
  }
}

/** Refuses the request if the session had moved on when it was received. `receivedAt`: the newest event then. */
export function refuseIfMoved(session: Session, request: unknown, receivedAt = Number.POSITIVE_INFINITY): void {
  const why = whyMoved(session, request, receivedAt)
  if (why !== undefined && patched('session-moved')) refuse('session_moved', why)
}

/** The request without what it had seen: for one that an earlier execution accepted, whose events this one may not have. */
export function withoutSeen(request: unknown): unknown {
  if (!isObject(request) || !('seenSeq' in request)) return request
  const { seenSeq: _, ...rest } = request
  return rest
}

function whyMoved({ journal }: Session, request: unknown, receivedAt: number): string | undefined {
  const { seenSeq } = requestOf<{ seenSeq?: unknown }>(request)
  if (!isOrdinal(seenSeq)) return undefined
  const newest = Math.min(journal.watermark().seq, receivedAt)
  // A number that the session has not reached is of another past: of an execution whose last events were lost.
  if (seenSeq < journal.base.seq || seenSeq > newest) return movedText(seenSeq, undefined)
  const event = movedBy(
    journal.since(seenSeq).filter(({ seq }) => seq <= newest),
    seenSeq,
  )
  return event && movedText(seenSeq, event)
}
