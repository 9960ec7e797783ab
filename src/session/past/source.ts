// How a reader obtains parts of a session's past without reading all of it.
import type { SessionEvent } from '../events.ts'

/** A message that a turn has accepted, or that waits for one. */
export interface SaidMessage {
  event: SessionEvent
  /** `seq` of the `turn_started` that accepted it; null if none has. */
  takenAt: number | null
}

/** The stored past of a session. */
export interface PastSource {
  /** The newest events up to `seq`, newest first: at least one, if there is one. */
  upTo(seq: number): Promise<SessionEvent[]>
  /** The first events after `seq`, oldest first: at least one, if there is one. */
  after(seq: number): Promise<SessionEvent[]>
  /**
   * The events between these two that may change what is shown of earlier ones, oldest first: those that went back, started over, forked or
   * resolved a call. Includes the beginning of the newest run before each event that went back.
   */
  turningPoints(after: number, before: number): Promise<SessionEvent[]>
  /** The beginning of the newest run up to `seq`. */
  runUpTo(seq: number): Promise<SessionEvent | undefined>
  /** Those of the given messages that are not archived. */
  messages(ids: readonly string[]): Promise<SaidMessage[]>
  /** The messages that no turn has accepted. */
  waiting(): Promise<SessionEvent[]>
  /** The newest event before `seq` with an output of the call. */
  output(callId: string, before: number): Promise<SessionEvent | undefined>
}
