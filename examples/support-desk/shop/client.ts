// How a tool talks to the shop: one HTTP request, with headers that identify a repeat, and errors that say what they mean.
import { ToolError } from 'pawl'

/** What goes with a request besides its path. */
export interface ShopCall {
  body?: object
  /** Sent as `Idempotency-Key`. */
  key?: string
  /** Sent as `X-Request-Id`: which tool call of which session it is. */
  requestId: string
  signal: AbortSignal
}

/** The shop's HTTP interface. */
export interface ShopClient {
  /**
   * @throws ToolError if the shop refused (4xx): it did nothing and would refuse again; the error's `code` is the shop's.
   * Any other error leaves open what the shop did.
   */
  request<T>(method: 'GET' | 'POST' | 'PUT', path: string, call: ShopCall): Promise<T>
}

/** Milliseconds to wait for an answer. */
const ANSWER_MS = 45_000

/** A client of the shop at `baseUrl`. */
export function createShopClient(baseUrl: string): ShopClient {
  return {
    async request<T>(method: string, path: string, { body, key, requestId, signal }: ShopCall): Promise<T> {
      const response = await fetch(new URL(path, baseUrl), {
        method,
        headers: {
          'content-type': 'application/json',
          'user-agent': `support-desk (pid ${process.pid})`,
          'x-request-id': requestId,
          ...(key !== undefined && { 'idempotency-key': key }),
        },
        ...(body && { body: JSON.stringify(body) }),
        signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]),
      })
      const answer = (await response.json()) as T & { code?: string; message?: string }
      if (response.ok) return answer
      const code = answer.code ?? `http_${response.status}`
      const message = `Refused by the shop (${code}): ${answer.message ?? response.statusText}`
      if (response.status < 500) throw new ToolError(message, { code, retryable: false, happened: false })
      throw new Error(`The shop failed (${code}): ${answer.message ?? response.statusText}`)
    },
  }
}
