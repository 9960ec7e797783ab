// Handles a request that a provider refuses as invalid although it accepted an earlier request of the session: finds the content at fault,
// so that the session can continue without it. Refused requests cost nothing, and the first accepted one returns the answer.
import { isModelError } from '../../agent/errors.ts'
import type { RefusedContent } from '../../session/events.ts'
import { cutText, TEXT_BYTES } from '../../session/protocol/texts.ts'
import { sentIndexes } from '../../session/transcript/model-messages.ts'
import { contentIn, isSameContent } from '../../session/transcript/replaced.ts'
import type { Transcript } from '../../session/transcript/transcript.ts'
import { failedAttempt } from '../attempt.ts'
import type { ModelAnswer } from '../../calls/jobs.ts'
import type { AttemptSoFar } from '../../session/attempts.ts'
import { ModelFailure } from './ask-model.ts'

/** Maximum number of requests without some of the content. */
const MAX_TRIES = 12
/** How many suspects of each kind are left out one at a time before all of them are left out. */
const SINGLES = 4

export interface RefusalContext {
  transcript: Transcript
  /** Counts the refused requests as failed attempts. */
  attempt: AttemptSoFar
  worker: string
  /** Whether a compaction may make a request fit that is too long. */
  mayCompact(): boolean
  /** Asks the model with this transcript. */
  ask(transcript: Transcript): Promise<ModelAnswer>
}

/**
 * The model's answer. If the provider refuses the request, the answer to the request without the content at fault, and which content that
 * is.
 */
export async function askWithoutRefused({ transcript, attempt, worker, mayCompact, ask }: RefusalContext): Promise<ModelAnswer> {
  try {
    return await ask(transcript)
  } catch (error) {
    const refusal = refusalIn(error, mayCompact)
    if (!refusal) throw error
    const refusals = [error as ModelFailure]
    for (const content of suspects(transcript, refusal)) {
      try {
        const answer = await ask(leavingOut(transcript, content, refusal.reason))
        for (const { cause, call } of refusals) {
          const about = { retryable: true, nextDelayMs: 0, worker, ...call }
          attempt.failed.push(failedAttempt(attempt.number++, cause, about))
        }
        return { ...answer, replaced: { content, reason: refusal.reason } }
      } catch (next) {
        if (!refusalIn(next, mayCompact)) throw next
        refusals.push(next as ModelFailure)
      }
    }
    throw error
  }
}

/** The transcript without the content, as later requests have it. */
function leavingOut(transcript: Transcript, content: readonly RefusedContent[], reason: string): Transcript {
  return { ...transcript, replaced: [...transcript.replaced, ...content.map((one) => ({ ...one, reason }))] }
}

/** A refused request: what the provider said, and which content it may be about. */
interface RefusedRequest {
  reason: string
  about: 'documents' | 'media' | 'anything'
}

const INVALID_STATUS: readonly unknown[] = [400, 413, 422]
const MEDIA = /image|media|picture|photo|pixel|base64|mime|download|file|document|\bpdf\b|\burl\b/i
const LOST_FILE = /\bfiles?(?:\b|_)/i
/** Request parameters that come from the agent's declaration, so that no content is at fault. */
const DECLARED =
  /: (?:\d{3} )?(?:tools?|system|thinking|model|max_tokens|max_output_tokens|output_config|stop_sequences|metadata|temperature|top_p|top_k|service_tier|tool_choice|reasoning)\b/

/** What the error says about content; undefined for any other failure. */
function refusalIn(error: unknown, mayCompact: () => boolean): RefusedRequest | undefined {
  const told = error instanceof ModelFailure && isModelError(error.cause) ? error.cause : undefined
  if (!told || told.retryable || told.phase === 'stream' || DECLARED.test(told.message)) return undefined
  const reason = cutText(told.message, TEXT_BYTES.reason)
  const isAboutMedia = MEDIA.test(told.message)
  if (told.code === 'unsupported') return isAboutMedia ? { reason, about: 'media' } : undefined
  // The provider no longer has a file, or never had it.
  if (told.status === 404 && LOST_FILE.test(told.message)) return { reason, about: 'media' }
  if (told.fallback) return undefined
  // 413 means that a limit in bytes was exceeded, and images and documents make up most of the bytes.
  if (told.status === 413) return { reason, about: 'media' }
  // A new document may have more tokens than the window, and no summary of what came before it helps.
  if (told.code === 'context_overflow') return mayCompact() ? undefined : { reason, about: 'documents' }
  if (told.code !== 'invalid_request_error' && !INVALID_STATUS.includes(told.status)) return undefined
  return { reason, about: isAboutMedia ? 'media' : 'anything' }
}

/**
 * The sets of content to leave out, in the order in which they are tried: the smallest sets and the newest content first. Content that was
 * accepted before is suspect only if it is an image or a document, because a URL may have expired and a file may have been deleted.
 */
function suspects(transcript: Transcript, { about }: RefusedRequest): RefusedContent[][] {
  const { messages, seqs, replaced } = transcript
  const lastAnswer = messages.findLastIndex(({ role }) => role === 'assistant')
  const all = sentIndexes(transcript).flatMap((index) => {
    const message = messages[index]
    const found = message ? contentIn(message, seqs[index] ?? 0) : []
    return found.filter((one) => !replaced.some((known) => isSameContent(known, one))).map((one) => ({ one, isNew: index >= lastAnswer }))
  })
  const pool = (isIn: (found: (typeof all)[number]) => boolean): RefusedContent[] =>
    all
      .filter(isIn)
      .map(({ one }) => one)
      .toReversed()
  const isMedia = ({ kind }: RefusedContent): boolean => kind === 'image' || kind === 'document'
  if (about === 'documents') return setsOf(pool(({ one, isNew }) => isNew && one.kind === 'document')).slice(0, MAX_TRIES)
  const newMedia = pool(({ one, isNew }) => isNew && isMedia(one))
  const oldMedia = pool(({ one, isNew }) => !isNew && isMedia(one))
  // If the first request is refused and has no media, content is not at fault.
  const others = lastAnswer < 0 || about === 'media' ? [] : pool(({ one, isNew }) => isNew && !isMedia(one))
  const newest = others.length > 0 ? [...setsOf(others), ...setsOf(newMedia)] : setsOf(newMedia)
  return [...newest, ...setsOf(oldMedia), ...allOf([...newMedia, ...oldMedia])].slice(0, MAX_TRIES)
}

function setsOf(pool: readonly RefusedContent[]): RefusedContent[][] {
  const singles = pool.slice(0, SINGLES).map((one) => [one])
  const half = pool.length > 2 * SINGLES ? [pool.slice(0, Math.ceil(pool.length / 2))] : []
  return [...singles, ...half, ...(pool.length > 1 ? [[...pool]] : [])]
}

function allOf(pool: readonly RefusedContent[]): RefusedContent[][] {
  return pool.length > 1 ? [[...pool]] : []
}
