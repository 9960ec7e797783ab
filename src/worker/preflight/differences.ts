// Compares a replay with the history: it must produce the same commands and the same events. Pure.
import type { LogEntry, Watermark } from '../../session/events.ts'
import { CORE_VERSION } from '../../session/protocol/protocol.ts'
import type { History } from './open-sessions.ts'
import { idOf, type RecordedHistory } from './recorded.ts'
import type { ReplayOutcome } from './replaying.ts'
import type { PreflightProblem } from '../preflight-report.ts'

/** The reason why this build cannot continue the session; undefined if it can. */
export function problemOf(
  history: History,
  recorded: RecordedHistory,
  { error, entries, reached }: ReplayOutcome,
): PreflightProblem | undefined {
  return tooNew(recorded) ?? (error && problemIn(error, history, reached)) ?? otherEvents(recorded, entries)
}

function tooNew({ start: { carried } }: RecordedHistory): PreflightProblem | undefined {
  if (!carried || carried.coreVersion <= CORE_VERSION) return undefined
  const message = `The execution runs with core ${carried.coreVersion}, and this build knows core ${CORE_VERSION}: a newer release of pawl started it.`
  return { code: 'core_too_new', message }
}

/** The name of the SDK's error for workflow code that does not do what its history says. */
const NONDETERMINISM = 'DeterminismViolationError'
/** Finds the reason in the SDK's error, which prints a data structure. */
const REASON = /message: "((?:[^"\\]|\\.)*)"/
const PREFIX = /^(?:\[TMPRL\d+\] )?(?:Nondeterminism error: )?/
/** The history event that the reason names. */
const NAMED_EVENT = /HistoryEvent\(id: (\d+), \w+\)/
/** The SDK's own failures are not about the workflow code. */
const INTERNAL = /internal SDK issue/

function problemIn(error: Error, history: History, reached: number): PreflightProblem {
  const [, reason = error.message] = REASON.exec(error.message) ?? []
  const said = reason.replace(PREFIX, '').replaceAll('\\n', '\n').replaceAll('\\"', '"')
  if (INTERNAL.test(error.message)) return { code: 'replay_failed', message: `The history could not be replayed: ${said}.` }
  const later = reached > 0 ? `after history event ${reached}` : 'at its beginning'
  if (error.name !== NONDETERMINISM) return { code: 'task_fails', message: `The workflow code fails ${later}: ${said}` }
  const historyEvent = NAMED_EVENT.exec(said)?.[1]
  const place = historyEvent === undefined ? later : `at history event ${nameOf(Number(historyEvent), history)}`
  return {
    code: 'other_commands',
    message: `The workflow code behaves differently ${place}: ${said}.`,
    ...(historyEvent !== undefined && { historyEvent: Number(historyEvent) }),
  }
}

/** The event's number, with the activity that it schedules. */
function nameOf(id: number, { events }: History): string {
  const event = events?.find((one) => idOf(one) === id)
  const activity = event?.activityTaskScheduledEventAttributes?.activityType?.name
  return activity ? `${id} (the activity ${activity})` : String(id)
}

const keyOf = ({ seq, digest }: Watermark): string => `${seq} ${digest}`

/**
 * Finds different events. Temporal compares only the kinds of commands, so different events would go unnoticed until the store refused
 * them.
 */
function otherEvents({ opened, watermarks }: RecordedHistory, entries: readonly LogEntry[]): PreflightProblem | undefined {
  const made = new Set(opened.map(({ state: { seq }, digest }) => keyOf({ seq, digest })))
  for (const { seq, digest, prev } of entries) made.add(keyOf({ seq: seq - 1, digest: prev })).add(keyOf({ seq, digest }))
  let agreed = (entries[0]?.seq ?? 1) - 1
  for (const { historyEvent, activity, at } of watermarks) {
    if (!made.has(keyOf(at))) return difference({ historyEvent, activity, fromSeq: agreed + 1, toSeq: at.seq })
    agreed = at.seq
  }
  return undefined
}

interface EventDifference {
  historyEvent: number
  activity: string
  fromSeq: number
  toSeq: number
}

function difference({ historyEvent, activity, fromSeq, toSeq }: EventDifference): PreflightProblem {
  const which = fromSeq >= toSeq ? `a different event ${toSeq}` : `different events ${fromSeq} to ${toSeq}`
  const message = `The workflow code produces ${which} of the session than when history event ${historyEvent} (activity ${activity}) was scheduled.`
  return { code: 'other_events', message, historyEvent, fromSeq: Math.min(fromSeq, toSeq), toSeq }
}
