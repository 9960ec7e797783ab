// Limits of tools' calls over all workers: what an executor asks, and the side store answers.

/** A limit of a tool's calls over all workers. */
export interface CallLimit {
  tool: string
  /** How many calls run at a time, or how many begin within `perMs`. */
  of: 'concurrency' | 'rate'
  max: number
  perMs?: number
  /** The limit applies to calls with the same key. */
  key: string
}

/** An entry of a call's body that has ended. */
export type LimitedEntry = Pick<AdmissionRequest, 'sessionId' | 'callId' | 'entry'>

/** A call that asks whether its tool's limits admit it. */
export interface AdmissionRequest {
  sessionId: string
  callId: string
  /** The number of the attempt. */
  attempt: number
  /** Identifies this entry of the body, because a job that is moved to another process keeps the number of its attempt. */
  entry: string
  limits: readonly CallLimit[]
  /** For how many milliseconds it counts as running, unless it ends before. */
  forMs: number
  /** Whether it begins as soon as it is admitted. */
  begins: boolean
}
