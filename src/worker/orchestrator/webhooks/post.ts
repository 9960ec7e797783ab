// Posts to a webhook's target. Redirects are not followed: they could lead anywhere, with the content in hand.
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { isPublic, PrivateAddressError, publicLookup } from './addresses.ts'
import type { WebhookRequest } from './request.ts'

/** What the target answered. */
export interface TargetAnswer {
  status: number
  /** Milliseconds for which it asked to wait. */
  retryAfterMs?: number
}

export interface PostOptions {
  /** Whether the target may have a private address. */
  allowsPrivate: boolean
  signal: AbortSignal
}

/** Rejects if no answer arrives. The body of an answer is not read. */
export async function post(url: string, { body, headers }: WebhookRequest, { allowsPrivate, signal }: PostOptions): Promise<TargetAnswer> {
  const { protocol, hostname } = new URL(url)
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  // An address needs no lookup, so it is checked here.
  if (!allowsPrivate && isIP(host) !== 0 && !isPublic(host)) throw new PrivateAddressError(`${host} is a private address`)
  const request = protocol === 'https:' ? httpsRequest : httpRequest
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      method: 'POST',
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      signal,
      ...(!allowsPrivate && { lookup: publicLookup as never }),
    })
    sent.on('error', reject)
    // Node ends a connection that the target wants to use for another protocol without an error.
    sent.on('close', () => reject(new Error('the connection ended without an answer')))
    sent.on('response', (answer) => {
      const { statusCode: status = 0 } = answer
      const retryAfterMs = waitIn(answer.headers['retry-after'])
      // What else it says is of no use, and may be endless.
      answer.destroy()
      resolve({ status, ...(retryAfterMs > 0 && { retryAfterMs }) })
    })
    sent.end(body)
  })
}

/** Milliseconds that a `retry-after` asks for, in seconds or as a date; not a number if it asks for nothing. */
function waitIn(retryAfter: string | undefined): number {
  const seconds = Number(retryAfter)
  return Number.isNaN(seconds) ? Date.parse(retryAfter ?? '') - Date.now() : seconds * 1_000
}
