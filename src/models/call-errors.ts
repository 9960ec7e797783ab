// What the errors of all adapters have in common: when to retry, the causes behind a lost connection, and streams that end early.
import { ModelError } from '../agent/errors.ts'
import { numberText } from '../session/number-text.ts'
import { beginningOf } from '../session/beginning.ts'

/** Whether the provider had begun to answer when the error was thrown. */
export type CallPhase = 'request' | 'stream'

/** The phase in the form that a ModelError expects. */
export const streamOf = (phase: CallPhase): 'stream' | undefined => (phase === 'stream' ? phase : undefined)

/** The stream ended before the answer was complete. `next`: the sentence that says what to do. */
export function answerCut(model: string, next: string): ModelError {
  return new ModelError('stream_cut', `${model}: the stream ended before the answer was complete. ${next}`, {
    retryable: true,
    phase: 'stream',
  })
}

/** No data arrived for `ms` milliseconds. `next`: the sentence that says what to do. */
export function answerTimedOut(model: string, ms: number, phase: CallPhase, next: string): ModelError {
  return new ModelError('timeout', `${model}: no data arrived for ${numberText(ms)} ms. ${next}`, {
    retryable: true,
    phase: streamOf(phase),
  })
}

/** Milliseconds that `retry-after-ms` or `retry-after` (seconds or an HTTP date) request; undefined without a usable value. */
export function retryAfterMsOf(headers: Headers, now: number = Date.now()): number | undefined {
  const ms = numberOf(headers.get('retry-after-ms'))
  if (ms !== undefined && ms >= 0) return untilIn(ms, ms, now)
  const text = headers.get('retry-after')
  if (text === null) return undefined
  const seconds = numberOf(text)
  if (seconds !== undefined) return seconds < 0 ? undefined : untilIn(seconds * 1000, seconds, now)
  const date = Date.parse(text)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}

/** Thirty years in milliseconds: a longer wait must be a timestamp. */
const TOO_LONG_MS = 1e12
const FAR_FUTURE_MS = 1e14

/** Some proxies send a timestamp in seconds or milliseconds since 1970. */
function untilIn(ms: number, given: number, now: number): number {
  if (ms < TOO_LONG_MS) return Math.ceil(ms)
  return Math.max(0, Math.ceil(ms < FAR_FUTURE_MS ? ms : given) - now)
}

/** undici's own errors for a body that is silent for 5 minutes and for a request without a response. */
export function isSocketTimeout(error: unknown): boolean {
  return causesOf(error).some((cause) =>
    /^UND_ERR_(BODY|HEADERS|CONNECT)_TIMEOUT$|^ETIMEDOUT$/.test(String((cause as { code?: unknown }).code)),
  )
}

function causesOf(error: unknown): Error[] {
  const causes: Error[] = []
  let at: unknown = error instanceof Error ? error.cause : undefined
  while (at instanceof Error && causes.length < 5) {
    causes.push(at)
    at = at.cause
  }
  return causes
}

const MAX_TEXT = 2_000

/** The error's message and those of its causes. The innermost has the host and errno. */
export function withCauses(message: string, error: unknown): string {
  const causes = causesOf(error).map((cause) => cause.message.replace(/\.$/, ''))
  const texts = [...new Set([message.replace(/\.$/, ''), ...causes])].filter((text) => text !== '')
  return beginningOf(texts.join(': '), MAX_TEXT)
}

function numberOf(text: string | null): number | undefined {
  const value = text === null || text.trim() === '' ? Number.NaN : Number(text)
  return Number.isFinite(value) ? value : undefined
}
