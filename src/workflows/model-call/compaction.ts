// Compacts a conversation that is too long for the model, piece by piece. Each piece is recorded once it is summarised.
import type { CompactResult, TooLarge } from '../../calls/activities.ts'
import { defined } from '../../session/defined.ts'
import type { RunState } from '../../session/state.ts'
import { cutText, TEXT_BYTES } from '../../session/protocol/texts.ts'
import { askUntilAnswered, type UnansweredEnd } from './ask-until-answered.ts'
import { countAttempts } from '../calls/attempts.ts'
import type { Failure, Session } from '../session-parts.ts'

/** These errors are not about the compaction, so the run fails with them. */
const OF_THE_RUN: readonly string[] = ['deadline_exceeded', 'stale_watermark', 'budget_exhausted', 'unpriced_model']

/**
 * Compacts the conversation before the model call of `run`'s turn. Returns undefined if the model may be called. That includes a failed
 * compaction, unless the provider refused the request.
 */
export async function compactConversation(session: Session, run: RunState, given: TooLarge): Promise<UnansweredEnd | undefined> {
  const { tokens, bytes, besides, window, forced } = given
  const tooLarge: TooLarge = { tokens, bytes, besides, window, ...defined({ forced }) }
  for (;;) {
    const piece = await summarisePiece(session, run, tooLarge)
    if (piece.end === 'stopped' || piece.end === 'held_up') return piece
    if (piece.end === 'failed') return OF_THE_RUN.includes(piece.code) ? piece : giveUp(session, run, tooLarge, piece)
    if (!piece.more) return undefined
  }
}

type Piece = UnansweredEnd | { end: 'compacted'; more: boolean }

function summarisePiece(session: Session, run: RunState, tooLarge: TooLarge): Promise<Piece> {
  const { journal } = session
  const { run: number, turn } = run
  return askUntilAnswered<CompactResult, Piece>(session, run, {
    what: 'compaction',
    attempts: countAttempts((error) => journal.append({ type: 'model_attempt_failed', run: number, turn, error, purpose: 'compaction' })),
    schedule: (activities, input) => activities.compact({ ...input, tooLarge }),
    answered(result) {
      const { attempt, upToSeq, summary, messages, resultBytes, model, provider, usage, price, spent, more } = result
      const { tokens, window, forced } = tooLarge
      const about = { attempt, upToSeq, summary, messages, tokens, window }
      const call = defined({ forced, resultBytes, model, provider, usage, price, spent })
      journal.append({ type: 'compacted', run: number, turn, ...about, ...call })
      return { end: 'compacted', more: more === true }
    },
  })
}

/** Ends the compaction and leaves the conversation unchanged. */
function giveUp(
  { journal }: Session,
  { run, turn }: RunState,
  { tokens, window, forced }: TooLarge,
  failure: Failure,
): UnansweredEnd | undefined {
  const { code, transient } = failure
  const reason = cutText(failure.reason, TEXT_BYTES.reason)
  journal.append({ type: 'compaction_failed', run, turn, code, reason, tokens, window, ...defined({ forced }) })
  if (!forced) return undefined
  const why = cutText(`The conversation is too long for the model, and it could not be compacted (${code}): ${reason}`, TEXT_BYTES.reason)
  // A transient failure is not a reason to abandon the run.
  return transient ? { end: 'failed', code, reason: why, transient } : { end: 'failed', code: 'context_overflow', reason: why }
}
