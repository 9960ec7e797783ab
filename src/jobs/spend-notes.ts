// What user code reports through `ctx.spend`. Each report is checked at once, so that an error reaches the code that caused it.
import { ToolError } from '../agent/errors.ts'
import { defined } from '../session/defined.ts'
import { numberText } from '../session/number-text.ts'
import { isSpendNote, SPEND_LIMITS, type SpendNote } from '../session/spending/spend-notes.ts'

export interface SpendReporter {
  /** @throws ToolError `invalid_spend` or `too_many_spends`. */
  spend(spent: SpendNote): void
  /** The accepted reports, in order. */
  readonly notes: readonly SpendNote[]
}

/** Collects what an attempt or a hook spends. */
export function spendReporter(whose: 'attempt' | 'hook'): SpendReporter {
  const notes: SpendNote[] = []
  return {
    notes,
    spend(spent) {
      if (!isSpendNote(spent)) {
        const message = `ctx.spend accepts { usd, tokens, note }: numbers from 0 to ${numberText(SPEND_LIMITS.amount)}, tokens without a fraction, at least one of them, and a note of at most ${SPEND_LIMITS.noteChars} characters.`
        throw new ToolError(message, { code: 'invalid_spend', retryable: false })
      }
      if (notes.length === SPEND_LIMITS.notes) {
        const message = `One ${whose} reports at most ${SPEND_LIMITS.notes} costs. Add them up.`
        throw new ToolError(message, { code: 'too_many_spends', retryable: false })
      }
      const { usd, tokens, note } = spent
      notes.push(defined({ usd, tokens, note }))
    },
  }
}
