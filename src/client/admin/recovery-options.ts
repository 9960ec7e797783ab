// The options and the report of a bulk recovery, and the validation of the options.
import type { z } from 'zod'
import type { AutomaticStrategy } from '../../session/agent-facts.ts'
import { AUTOMATIC } from '../../session/recovery/recovery.ts'
import { textProblem } from '../../session/protocol/texts.ts'
import type { InErrorFilter } from '../../store/filters.ts'
import type { SessionInError } from '../../store/listed.ts'
import { checkOptions, flag, fn, integer, oneOf, options, signal, text, where } from '../../options/check.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import { defined } from '../../session/defined.ts'
import { SPAN, type SpanOptions, TAGS, tagsOf } from '../queries/list-options.ts'

/** Which sessions `pawl.recover` recovers, and how. At least one filter or `all` is required. */
export interface BulkRecoveryOptions extends SpanOptions {
  /** Sessions whose error has this code, or one of these codes: text that is not empty; a list has at least one. Default: any. */
  code?: string | string[]
  /** Sessions of this agent. Default: any. */
  agent?: string
  /** Sessions that have this tag: text that is not empty. Default: any. */
  tag?: string
  /** Sessions that have all of these tags: at least one, each of at least one character. Default: any. */
  tags?: string[]
  /** Recovers every session in error; replaces a filter. Default: false. */
  all?: boolean
  /** The strategy for every session. Default: the strategy that each session's error suggests. */
  strategy?: AutomaticStrategy
  /** Who requests it: at most 1,000 bytes; recorded with each recovery. Required. */
  by: string
  /** The reason: at most 3,000 bytes; recorded with each recovery, after `bulk recovery: `. Default: none. */
  reason?: string
  /** Only finds the sessions. Default: false. */
  dryRun?: boolean
  /** Recoveries to request per second, 0.01 to 1,000. Default: 10. */
  perSecond?: number
  /** The maximum number of sessions, an integer from 1. Default: all that match. */
  limit?: number
  /**
   * Called with each session's outcome, in no particular order, and not awaited. If it throws, no further recovery begins, and the call
   * rejects with its error. Default: none.
   */
  onSession?(session: BulkRecoverySession): void
  /** Stops after the recoveries in progress; the report then says `stopped`. Default: none. */
  signal?: AbortSignal
}

/** A session that a bulk recovery found, and its outcome. `error` is the error that it was found with. */
export interface BulkRecoverySession extends SessionInError {
  /**
   * `recovered`: its run continues, or was abandoned. `not_in_error`: it had left the error, or had another error that does not match.
   * `refused`: it cannot be recovered in this way. `failed`: it did not answer. `found`: in a dry run.
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
  /** Sessions that were found and, except in a dry run, attempted. */
  sessions: number
  /** Sessions that left their error. */
  recovered: number
  /** Sessions that had already left their error. */
  notInError: number
  /** Sessions that cannot be recovered in this way; see `problems`. */
  refused: number
  /** Sessions that did not answer; see `problems`. */
  failed: number
  /** The first 1,000 sessions that were refused or failed. */
  problems: BulkRecoverySession[]
  /** Whether `signal` stopped the recovery before the last session. */
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
  all: flag().optional(),
  strategy: oneOf(...AUTOMATIC).optional(),
  by: where<string>(
    (value) => typeof value === 'string' && value.trim() !== '' && textProblem(value, 'by') === undefined,
    'text of 1 to 1,000 bytes that says who requests it; it is recorded',
  ),
  reason: where<string>(
    (value) => typeof value === 'string' && Buffer.byteLength(JSON.stringify(value)) <= MAX_REASON_BYTES,
    'text of at most 3,000 bytes',
  ).optional(),
  dryRun: flag().optional(),
  perSecond: where<number>(
    (value) => typeof value === 'number' && value >= MIN_PER_SECOND && value <= MAX_PER_SECOND,
    'a number from 0.01 to 1,000',
  ).optional(),
  limit: integer(1).optional(),
  onSession: fn<NonNullable<BulkRecoveryOptions['onSession']>>().optional(),
  signal: signal().optional(),
})

type FilterOption = 'code' | 'agent' | 'tag' | 'tags' | 'since' | 'until' | 'all'

/** The filter and the other options. `by` and a filter (or `all`) are required. @throws InvalidOptionError `invalid_option`. */
export function checkBulkRecovery(given: unknown = {}): { filter: InErrorFilter } & Omit<z.output<typeof BULK_RECOVERY>, FilterOption> {
  const { code, agent, tag, tags, since, until, all, ...how } = checkOptions(BULK_RECOVERY, given)
  const codes = typeof code === 'string' ? [code] : code
  const filter = defined({ codes, agent, tags: tagsOf(tag, tags), since, until })
  if (!all && Object.keys(filter).length === 0) {
    throw new InvalidOptionError(
      'No filter was given. Pass code, agent, tag, tags, since or until, or all: true to recover every session in error.',
    )
  }
  return { filter, ...how }
}

function areTexts(value: unknown): boolean {
  const texts = Array.isArray(value) ? value : [value]
  return texts.length > 0 && texts.every((one) => typeof one === 'string' && one.trim() !== '')
}
