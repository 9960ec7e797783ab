// The refusals of the web handler itself.
import { PawlError } from '../session/errors.ts'

/** A part of a request that was refused. */
export interface RefusedPart {
  /** Its place in the request: `body.content`, `query.limit`, `path.run`. */
  at: string
  /** What is allowed there. */
  detail: string
}

/** Details of a refusal besides its message. */
export interface RefusalDetails {
  /** Which parts of the request were refused. */
  parts?: readonly RefusedPart[]
  /** Further response headers. */
  headers?: Readonly<Record<string, string>>
  /** The error behind it; never sent. */
  cause?: unknown
}

/**
 * A request that the web handler refused; it had no effect. Codes: `invalid_input`, `invalid_json`,
 * `unsupported_media_type`, `body_too_large`, `body_consumed`, `unknown_agent`, `unknown_cursor`, `unauthorized`, `forbidden`, `route_not_found`,
 * `method_not_allowed`, `too_many_watches`, `too_busy`, `chat_too_long`, `not_newest`, `rate_limited`, `draining`, `invalid_access`, `blob_not_found`, `webhook_not_found`, `too_many_webhooks`,
 * `internal_error`; of `pawl serve` also `invalid_http`, `headers_too_large`, `request_timeout`.
 */
export class ServiceError extends PawlError {
  override readonly name = 'ServiceError'
  /** The status of the response. */
  readonly status: number
  /** Which parts of the request were refused. */
  readonly parts: readonly RefusedPart[]
  /** Further response headers. */
  readonly headers: Readonly<Record<string, string>>

  /** `status`: the status of the response. */
  constructor(code: string, status: number, message: string, { parts = [], headers = {}, cause }: RefusalDetails = {}) {
    super(code, message, { cause })
    this.status = status
    this.parts = parts
    this.headers = headers
  }
}
