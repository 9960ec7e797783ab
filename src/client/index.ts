// `pawl/client`: what a backend uses. Imports nothing of the worker and no native file.
export { ConnectError } from '../connect/temporal.ts'
export type { TemporalAddress } from '../connect/temporal.ts'
export type { SessionEvent } from '../session/events.ts'
export type { SessionState } from '../session/state.ts'
export type { MessageRow } from '../store/store.ts'
export {
  InvalidMessage,
  MessageRejected,
  RecoveryRefused,
  ResultTimeout,
  RunFailed,
  RunInterrupted,
  SessionNotFound,
  SessionUnavailable,
} from './errors.ts'
export { Pawl } from './pawl.ts'
export type { ConnectOptions, RunHandle, RunResult, RunSettled, SendOptions, SessionHandle, SessionOptions } from './types.ts'
