// Errors of the connections to Temporal and Postgres.
import { PawlError } from '../session/errors.ts'

/** No Temporal server answers. Code `no_temporal`. */
export class ConnectError extends PawlError {
  override readonly name = 'ConnectError'
}

/**
 * What the side store rejects with. Codes:
 * `store_unavailable` Postgres does not answer, or not in time: try again later ·
 * `schema_behind` migrations are missing · `store_too_new` a newer release has migrated it in a way that this one cannot write ·
 * `permission_denied` the role may not do this · `role_not_found` there is no role to grant to ·
 * `gap` events before the flushed ones are missing · `digest_mismatch` the flushed events do not continue the stored ones ·
 * `checkpoint_too_large` · `checkpoint_fold_failed` · `checkpoint_unfounded` why a checkpoint was not written (in `errors` only) ·
 * `invalid_events` what was flushed are no events · `session_erased` the session's content is not to come back · `foreign_epoch` another chain of executions wrote the stored events ·
 * `invalid_store_options` · `invalid_postgres_url` what is to name a Postgres cannot · `store_closed` · `store_failed` anything else: a bug.
 */
export class StoreError extends PawlError {
  override readonly name = 'StoreError'
}
