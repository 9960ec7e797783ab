// What recovering in bulk takes and gives, and the check of what it is given.
import type { z } from 'zod'
import type { AutomaticStrategy } from '../../session/events.ts'
import { AUTOMATIC } from '../../session/recovery.ts'
import { textProblem } from '../../session/texts.ts'
import type { InErrorFilter, SessionInError } from '../../store/rows.ts'
import { checkOptions, fn, integer, oneOf, options, text, where } from '../../options/check.ts'
import { InvalidOption } from '../../options/errors.ts'
import { defined } from '../../session/defined.ts'
import { SPAN, type SpanOptions, TAGS, tagsOf } from '../queries/list-options.ts'
import { flag, signal } from './upkeep-options.ts'

/** Which sessions `pawl.recover` recovers, and how. At least one filter is required, or `all`. */
export interface BulkRecoveryOptions extends SpanOptions {
  /** With an error of this code, or of one of these. */
  code?: string | string[]
  /** Of this agent. */
  agent?: string
  /** Sessions that have this tag. */
  tag?: string
  /** Sessions that have all of these tags. */
  tags?: string[]
  /** Every session in error: stands in for a filter. */
  all?: boolean
  /** How, for every session. Default: the strategy that each session's error suggests. */
  strategy?: AutomaticStrategy
  /** Who requests it: at most 1,000 bytes; recorded with each recovery. Required. */
  by: string
  /** Why: at most 3,000 bytes; recorded with each recovery, behind `bulk recovery`. */
  reason?: string
  /** Only finds the sessions. */
  dryRun?: boolean
  /** Recoveries that are requested each second, 0.01 to 1,000. Default 10. */
  perSecond?: number
  /** At most so many sessions. Default: all that match. */
  limit?: number
  /** Called with each session, in no particular order. */
  onSession?(session: BulkRecoverySession): void
  /** Stops after the recoveries that are under way. */
  signal?: AbortSignal
}

/** A session that a bulk recovery found, and what came of it. `error` is the one that it was found with. */
export interface BulkRecoverySession extends SessionInError {
  /**
   * `recovered`: its run continues, or was abandoned. `not_in_error`: it had left the error, or had another one that does not match.
   * `refused`: it cannot be recovered in this way. `failed`: it did not answer. `found`: of a dry run.
   */
  outcome: 'recovered' | 'not_in_error' | 'refused' | 'failed' | 'found'
  /** Why it was refused or failed. */
  problem?: {
    /** As `session.recover` throws it: `choose_strategy`, `outcome_unknown`, `session_unavailable`, … */
    code: string
    /** What happened, and what to do about it. */
    message: string
  }
}

/** What a bulk recovery did. */
export interface BulkRecoveryReport {
  /** Sessions that were found and, unless it was a dry run, tried. */
  sessions: number
  /** Sessions that left their error. */
  recovered: number
  /** Sessions that had left it before. */
  notInError: number
  /** Sessions that cannot be recovered in this way; see `problems`. */
  refused: number
  /** Sessions that did not answer; see `problems`. */
  failed: number
  /** The first 1,000 sessions that were refused or failed. */
  problems: BulkRecoverySession[]
  /** Whether `signal` stopped it before the last session. */
  stopped: boolean
}

const MAX_REASON_BYTES = 3_000
const MAX_PER_SECOND = 1_000
const MIN_PER_SECOND = 0.01

const BULK_RECOVERY = options({
  code: where<string | string[]>(areTexts, 'a code such as overloaded_error, or a list of codes').optional(),
  agent: text().optional(),
  ...TAGS,
  ...SPAN,
  all: flag.optional(),
  strategy: oneOf(...AUTOMATIC).optional(),
  by: where<string>(
    (value) => typeof value === 'string' && value.trim() !== '' && textProblem(value, 'by') === undefined,
    'text of 1 to 1,000 bytes that says who requests it; it is recorded',
  ),
  reason: where<string>(
    (value) => typeof value === 'string' && Buffer.byteLength(JSON.stringify(value)) <= MAX_REASON_BYTES,
    'text of at most 3,000 bytes',
  ).optional(),
  dryRun: flag.optional(),
  perSecond: where<number>(
    (value) => typeof value === 'number' && value >= MIN_PER_SECOND && value <= MAX_PER_SECOND,
    'a number from 0.01 to 1,000',
  ).optional(),
  limit: integer(1).optional(),
  onSession: fn<NonNullable<BulkRecoveryOptions['onSession']>>().optional(),
  signal: signal.optional(),
})

type FilterOption = 'code' | 'agent' | 'tag' | 'tags' | 'since' | 'until' | 'all'

/** Which sessions, and the other options. @throws InvalidOption; nothing is recovered without a filter and a name. */
export function checkBulkRecovery(given: unknown = {}): { filter: InErrorFilter } & Omit<z.output<typeof BULK_RECOVERY>, FilterOption> {
  const { code, agent, tag, tags, since, until, all, ...how } = checkOptions(BULK_RECOVERY, given)
  const codes = typeof code === 'string' ? [code] : code
  const filter = defined({ codes, agent, tags: tagsOf(tag, tags), since, until })
  if (!all && Object.keys(filter).length === 0) {
    throw new InvalidOption(
      'No filter says which sessions: give code, agent, tag, tags, since or until, or all: true for every session in error.',
    )
  }
  return { filter, ...how }
}

function areTexts(value: unknown): boolean {
  const texts = Array.isArray(value) ? value : [value]
  return texts.length > 0 && texts.every((one) => typeof one === 'string' && one.trim() !== '')
}
