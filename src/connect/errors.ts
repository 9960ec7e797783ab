// Errors of the connections to Temporal and Postgres.
import { PawlError } from '../session/errors.ts'

/** Codes: `not_configured` no Temporal server is configured · `no_temporal` the server does not answer. */
export class ConnectError extends PawlError {
  override readonly name = 'ConnectError'
}

/**
 * An error of the side store. Codes:
 * `store_unavailable` Postgres does not answer in time; try again later ·
 * `schema_behind` migrations are missing · `store_too_new` a newer release migrated the schema, and this release can no longer write to it
 * · `permission_denied` the role lacks a privilege · `role_not_found` the role to grant to does not exist · `gap` events before the flushed
 * ones are missing · `flush_mismatch` the flushed events do not continue the stored ones · `checkpoint_too_large` ·
 * `checkpoint_fold_failed` · `checkpoint_unfounded` why a checkpoint was not written (in `errors` only) · `invalid_events` the flushed
 * values are not events · `session_erased` the session was erased, and its content must not return · `foreign_epoch` another chain of
 * executions wrote the stored events · `foreign_namespace` the sessions belong to another Temporal namespace · `invalid_store_options` no
 * Postgres is configured, or the schema's name is not allowed · `invalid_postgres_url` the value cannot be a Postgres address ·
 * `store_closed` the client or worker was closed · `store_failed` anything else: a bug.
 */
export class StoreError extends PawlError {
  override readonly name = 'StoreError'
}
