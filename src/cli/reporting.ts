// The status of a session as lines for a terminal, with a command for each thing that a person can do.
import type { SessionReport } from '../client/index.ts'
import { linesOfProgress, linesOfRecovery } from './chat/lines.ts'
import { here } from './here.ts'
import { archiveText, timeOf } from './queries.ts'
import { oneLine } from './terminal.ts'
import { durationText } from '../session/duration.ts'
import { cutText } from '../session/protocol/texts.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'
import { waitPhrase } from '../session/watching/wait-text.ts'
import type { SessionWait } from '../session/watching/waits.ts'
import { counted } from '../session/counted.ts'

/** Bytes of a call's arguments that are shown. */
const ARGUMENTS_SHOWN = 300

/** The lines of `pawl status <session>`. */
export function linesOfReport(report: SessionReport, now = Date.now()): string[] {
  const { sessionId, agent, status, since, run, error, waitsFor, queued } = report
  const next = waitsFor.find((wait) => wait.for === 'next_attempt' && wait.until !== undefined)
  const hasEnded = waitsFor.some(({ to }) => to === 'resume')
  return [
    line('session', sessionId),
    ...(agent === null ? [] : [line('agent', agent)]),
    line('status', since === null ? status : `${status} since ${whenText(since, now)}`),
    ...(run ? [line('run', `${run.run}, turn ${run.turn}, began ${whenText(run.startedAt, now)}`)] : []),
    ...(error ? [line('error', `${error.code}: ${error.reason}`), ...linesOfProgress(error)] : []),
    ...waitsFor.flatMap((wait) => [...linesOfWait(sessionId, 'waits for', wait, now), ...linesBelow(wait, now)]),
    ...(error ? linesOfRecovery(sessionId, { agent, error }) : []),
    ...(error && run ? [commandLine('preview', SUGGESTIONS.preview({ session: sessionId, run: run.run }))] : []),
    ...(error
      ? [
          line(
            'next',
            next?.until === undefined
              ? hasEnded
                ? 'none until it is resumed'
                : noAttempt(error.strategy)
              : `attempt at ${whenText(next.until, now)}`,
          ),
        ]
      : []),
    ...(report.plan ? [line('plan', `${report.plan.done} of ${counted(report.plan.steps, 'step')} done: ${report.plan.objective}`)] : []),
    ...(queued > 0 ? [line('queued', `${counted(queued, 'message')} not in a turn yet`)] : []),
    line('stored', storedText(report, now)),
    ...(report.prunedAt === undefined ? [] : [line('', archiveText(sessionId))]),
    line('from', fromText(report)),
  ]
}

function linesOfWait(sessionId: string, name: string, wait: SessionWait, now: number): string[] {
  return [
    line(name, waitText(wait, now)),
    ...(wait.input === undefined ? [] : [line('  arguments', cutText(JSON.stringify(wait.input), ARGUMENTS_SHOWN))]),
    ...(wait.key === undefined ? [] : [line('  key', wait.key)]),
    ...commandsOf(sessionId, wait).map((command) => commandLine('', command)),
  ]
}

/** What holds up the session that answers an agent call, and those below it. */
function linesBelow({ below = [] }: SessionWait, now: number): string[] {
  return below.flatMap(({ session = '', ...wait }) => [
    line('  which', `waits in session ${session}`),
    ...linesOfWait(session, '  for', wait, now),
    ...(wait.to === 'recover' ? [commandLine('', SUGGESTIONS.statusOf(session))] : []),
  ])
}

function line(name: string, value: string): string {
  return `  ${name.padEnd(11)} ${oneLine(value, 400)}`
}

/** A line with a command, which is never cut off: people copy it. */
function commandLine(name: string, command: string): string {
  return `  ${name.padEnd(11)} ${here(command)}`
}

function noAttempt(strategy: string): string {
  return strategy === 'automatic' ? 'by itself, as soon as the cause is resolved' : 'no automatic attempt'
}

/** What the session waits for, in a line. */
export function waitText(wait: SessionWait, now = Date.now()): string {
  const { attempt, worker, since, until, reason } = wait
  const details = [
    attempt !== undefined && attempt > 1 && `attempt ${attempt}`,
    worker && `on ${worker}`,
    since !== undefined && `since ${whenText(since, now)}`,
    until !== undefined && until > now && (wait.for === 'next_attempt' ? `at ${whenText(until, now)}` : `until ${whenText(until, now)}`),
  ]
  return [waitPhrase(wait), reason, ...details].filter(Boolean).join(', ')
}

/** What a person can do about it; `linesOfRecovery` has the strategies for a recovery. */
function commandsOf(session: string, { for: who, to, callId = '', digest, raise = [] }: SessionWait): string[] {
  if (who === 'worker' || who === 'postgres') return [SUGGESTIONS.examine()]
  if (who === 'gate') return [SUGGESTIONS.listGates()]
  const call = { session, callId, digest }
  switch (to) {
    case 'resolve':
      return [
        SUGGESTIONS.resolveHappened(call),
        SUGGESTIONS.resolveNotHappened(call),
        SUGGESTIONS.resolveRetry(call),
        SUGGESTIONS.resolveSkip(call),
      ]
    case 'approve':
      return [SUGGESTIONS.approve(call), SUGGESTIONS.deny(call)]
    case 'answer':
      return [SUGGESTIONS.answer(call)]
    case 'resume':
      return [SUGGESTIONS.resume(session)]
    case 'unpause':
      return [SUGGESTIONS.unpause(session)]
    case 'raise':
      return raise.map((one) => SUGGESTIONS.raise({ session, ...one }))
    default:
      return []
  }
}

function storedText({ stored, storeError, behind = 0, erasedAt, prunedAt }: SessionReport, now: number): string {
  if (storeError !== undefined) return storeError
  if (erasedAt !== undefined) return `nothing: erased ${whenText(erasedAt, now)}`
  if (prunedAt !== undefined) return `only messages, in the archive: pruned ${whenText(prunedAt, now)}`
  if (!stored) return 'nothing yet: a worker stores its events'
  return `up to event ${stored.seq}, ${agoText(stored.at, now)}${behind > 0 ? `; ${counted(behind, 'newer event')} not stored yet` : ''}`
}

function fromText({ from, unanswered }: SessionReport): string {
  const sources = { workflow: 'the session’s workflow', store: 'the side store', server: 'the Temporal server' }
  return unanswered === undefined ? sources[from] : `${sources[from]}. ${unanswered}`
}

/** A time, and how far away it is. */
function whenText(at: number, now: number): string {
  return `${timeOf(new Date(at))} (${agoText(at, now)})`
}

function agoText(at: number, now: number): string {
  return at > now ? `in ${durationText(at - now)}` : `${durationText(now - at)} ago`
}
