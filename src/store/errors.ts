// Classifies errors of Postgres and its driver. The store's error class is defined in connect.
import { StoreError } from '../connect/errors.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'

export { StoreError }

/** SQLSTATEs of an undefined table, schema and column: the side store was not migrated, or was dropped. */
const MISSING = new Set(['42P01', '3F000', '42703'])
/** SQLSTATE classes of invalid statements or data: a retry does not help. */
const OUR_FAULT = new Set(['09', '0A', '21', '22', '23', '27', '38', '39', '42', '44', '54', 'P0', 'XX'])

/** The SQLSTATE of a statement that exceeded its time limit, or that an operator has cancelled. */
const ENDED = '57014'

/** Converts any error of the store at `address` to a `StoreError`. */
export function asStoreError(error: unknown, address?: string): StoreError {
  if (error instanceof StoreError) return error
  const options = { cause: error }
  const state = sqlState(error)
  if (state !== undefined && MISSING.has(state)) {
    return new StoreError(
      'schema_behind',
      `The side store lacks tables (${reasonOf(error)}). Run \`${SUGGESTIONS.migrate()}\`, or start a worker with migrate: 'auto', which creates them.`,
      options,
    )
  }
  if (state === '42501') {
    return new StoreError(
      'permission_denied',
      `Postgres refused the statement: ${reasonOf(error)}. Grant the role the missing right with \`${SUGGESTIONS.grantRole()}\`.`,
      options,
    )
  }
  if (isBug(error) || (state !== undefined && OUR_FAULT.has(state.slice(0, 2)))) {
    return new StoreError('store_failed', `The side store failed: ${reasonOf(error)}. Please report this with the cause.`, options)
  }
  const server = `Postgres${address === undefined ? '' : ` at ${address}`}`
  if (isDeadlock(error)) {
    const advice = 'Check what else locks its rows for long; the next call retries.'
    return new StoreError(
      'store_unavailable',
      `${server} gave a transaction up for others, again and again: ${reasonOf(error)}. ${advice}`,
      options,
    )
  }
  if (state === ENDED) {
    const advice = 'Ask for less, such as a shorter time span, or check what keeps Postgres busy; the next call retries.'
    return new StoreError('store_unavailable', `${server} ended a statement early: ${reasonOf(error)}. ${advice}`, options)
  }
  return new StoreError(
    'store_unavailable',
    `${server} is unavailable: ${reasonOf(error)}. Check that it is running; the next call retries.`,
    options,
  )
}

/** SQLSTATE classes of values that a column cannot hold. */
const ABOUT_VALUES = new Set(['21', '22', '23', '54'])

/** Whether the sessions belong to another namespace: not an outage, because it lasts until the configuration changes. */
export function isForeignNamespace(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'foreign_namespace'
}

/** Whether the written values caused the error, so that a retry would also fail. */
export function isAboutValues(error: unknown): boolean {
  if (!(error instanceof StoreError)) return false
  return isBug(error.cause) || ABOUT_VALUES.has(sqlState(error.cause)?.slice(0, 2) ?? '')
}

/** Codes of failures of one session. */
const OF_ONE_SESSION: ReadonlySet<string> = new Set(['gap', 'flush_mismatch', 'invalid_events', 'session_erased', 'foreign_epoch'])

/** Whether the failure concerns one session. Any other one affects all sessions, and is reported once. */
export function isOfOneSession({ code }: { code: string }): boolean {
  return OF_ONE_SESSION.has(code)
}

/** Whether every session would fail in the same way, so the cause is neither this session's values nor its size. */
export function failsAllSessions(error: unknown): error is StoreError {
  return error instanceof StoreError && !isOfOneSession(error) && error.code !== 'store_failed' && !isTooSlow(error)
}

/** Whether the store has another past for the session's id. */
export function isForeignPast(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'foreign_epoch'
}

/** Whether the session was erased, so that nothing of it is stored again. */
export function isErased(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'session_erased'
}

/** Whether Postgres has rolled a transaction back because it and others waited for each other. */
export function isDeadlock(error: unknown): boolean {
  return sqlState(error) === '40P01'
}

/** Whether a statement exceeded its time limit. */
export function isTooSlow(error: unknown): boolean {
  return error instanceof StoreError && sqlState(error.cause) === ENDED
}

/** The SQLSTATE of an error of the driver; undefined if Postgres did not report it. */
export function sqlState(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}

function isBug(error: unknown): boolean {
  return error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError || error instanceof SyntaxError
}

/** Why something failed, on one line. */
export function reasonOf(error: unknown): string {
  // For a name with several addresses, only the nested errors have a message.
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}
