// `pawl run <session> [run]`: the calls of one run, and what each recovery strategy would keep and redo.
import { effectText } from '../../session/built-in-tools/reserved.ts'
import { Command } from 'commander'
import type { RunReport } from '../../client/index.ts'
import { linesOfRecovery } from '../chat/lines.ts'
import { sayAs, timeOf } from '../queries.ts'
import { aboutDeployment, type DeploymentOptions } from '../connecting.ts'
import { liveOrStored } from '../live-or-stored.ts'
import { jsonOption, ordinalOf } from '../options.ts'
import { type Column, linesOfTable } from '../table.ts'
import { oneLine, paint } from '../terminal.ts'
import { labelledText } from '../../session/content.ts'
import { durationText } from '../../session/duration.ts'
import type { Json } from '../../session/json.ts'
import { resultText } from '../../session/transcript/results.ts'
import type { ReportedAttempt, ReportedCall, ReportedTurn } from '../../client/session/run-report.ts'
import type { NextStep, RecoveryPreview } from '../../session/recovery/preview.ts'
import type { CallOptions } from '../../session/recovery/selective.ts'

const CALLS: Column<ReportedCall>[] = [
  { name: 'call', of: (row) => row.callId, whole: true },
  { name: 'tool', of: (row) => row.tool },
  { name: 'effect', of: effectText, optional: true },
  { name: 'status', of: (row) => row.status, status: true },
  { name: 'attempts', of: (row) => row.attempts, right: true },
  { name: 'began', of: (row) => (row.startedAt === null ? null : new Date(row.startedAt)), optional: true },
  { name: 'took', of: tookOf, right: true },
  { name: 'effect id', of: (row) => row.effectId, optional: true },
  { name: 'outcome', of: ({ error, replayOf }) => (error ? `${error.code}: ${error.message}` : replayOf && `result of ${replayOf}`) },
]

/** How long the newest attempt took. */
function tookOf({ startedAt, endedAt }: ReportedCall): string | null {
  return startedAt === null || endedAt === null ? null : durationText(Math.max(0, endedAt - startedAt))
}

export function runCommand(): Command {
  return aboutDeployment(
    new Command('run')
      .description(
        'show the calls of one run with their arguments, results, times, attempts and effects and, if it failed, what each strategy would keep and redo',
      )
      .argument('<session>', "the session's id")
      .argument('[run]', 'number of the run (default: the newest)', ordinalOf),
  )
    .addOption(jsonOption())
    .action(run)
}

async function run(session: string, number: number | undefined, options: DeploymentOptions & { json?: true }): Promise<void> {
  const report = await liveOrStored(
    options,
    (pawl) => pawl.session(session).runReport(number),
    (queries) => queries.session(session).runReport(number),
  )
  sayAs(options, report, () => linesOfRun(report))
}

/** The lines for a person. */
function linesOfRun({ sessionId, run, status, startedAt, endedAt, turns, error, previews, storeError }: RunReport): string[] {
  const ended = endedAt === null ? '' : `, ended ${momentOf(endedAt)}`
  return [
    `run ${run} of session ${sessionId}: ${status}, began ${momentOf(startedAt)}${ended}`,
    ...(error ? [paint('red', oneLine(`error ${error.code}: ${error.reason}`, 400))] : []),
    ...turns.flatMap(linesOfTurn),
    ...(storeError === undefined ? [] : ['', oneLine(`Only its newest turn: ${storeError}`, 400)]),
    ...(previews.length > 0 ? ['', paint('bold', 'recovery strategies')] : []),
    ...previews.filter(({ strategy }) => strategy !== 'manual').flatMap((preview) => linesOfPreview(preview, turns)),
    ...(error ? ['', ...linesOfRecovery(sessionId, { agent: null, error })] : []),
  ]
}

function momentOf(at: number): string {
  return timeOf(new Date(at)) ?? ''
}

function linesOfTurn({ turn, model, answeredAt, failedAttempts, archived, calls }: ReportedTurn): string[] {
  const answer = model === null ? 'no answer yet' : `${model} answered${answeredAt === null ? '' : ` ${momentOf(answeredAt)}`}`
  return [
    '',
    `turn ${turn}: ${answer}${archived ? ', archived' : ''}`,
    ...failedAttempts.map((attempt) => attemptLine('model', attempt)),
    ...(calls.length > 0 ? linesOfTable(CALLS, calls).map((line) => `  ${line}`) : []),
    ...calls.flatMap(valueLines),
    ...calls.flatMap(({ callId, failedAttempts: failed }) => failed.map((attempt) => attemptLine(callId, attempt))),
  ]
}

/** The arguments of a call, and its result. */
function valueLines({ callId, input, result, resultBlob }: ReportedCall): string[] {
  const large = resultBlob === null ? null : `too large to show: \`--json\` has its SHA-256, ${resultBlob}`
  return [
    ...(input === null ? [] : [valueLine(callId, 'input', JSON.stringify(input))]),
    ...(result === null && large === null ? [] : [valueLine(callId, 'result', large ?? textOf(result))]),
  ]
}

function textOf(result: Json): string {
  const shown = resultText(result)
  return typeof shown === 'string' ? shown : labelledText(shown, ' ')
}

function valueLine(callId: string, name: string, text: string): string {
  return `  ${callId} ${name.padEnd(6)} ${oneLine(text, 300)}`
}

function attemptLine(what: string, { attempt, code, message, at }: ReportedAttempt): string {
  return paint('dim', oneLine(`! ${momentOf(at)} ${what}, attempt ${attempt}: ${code}: ${message}`).replace(/^/, '  '))
}

function linesOfPreview(preview: RecoveryPreview, turns: readonly ReportedTurn[]): string[] {
  const { strategy, suggested, refused, keeps, replays, leaves, executes, drops, choices, next } = preview
  const title = `  ${strategy}${suggested ? ' (suggested)' : ''}`
  if (refused) return [title, part('refused', `${refused.code}: ${refused.reason}`)]
  const tools = new Map(turns.flatMap(({ calls }) => calls.map(({ callId, tool }) => [callId, tool] as const)))
  const calls = (name: string, ids: readonly string[], about = ''): string[] =>
    ids.length === 0 ? [] : [part(name, `${ids.map((id) => `${tools.get(id) ?? 'call'} (${id})`).join(', ')}${about}`)]
  return [
    title,
    ...calls('keeps', keeps),
    ...calls('archives', replays, ': effects that stay; the model is told about them'),
    ...calls('archives', leaves),
    ...calls('executes', executes),
    ...calls('drops', drops, ': never executed'),
    ...(choices ? choices.map((choice) => choiceLine(choice, tools)) : [part('then', nextText(next))]),
  ]
}

function choiceLine({ callId, keep, skip, redo }: CallOptions, tools: ReadonlyMap<string, string>): string {
  const may = [...(keep ? ['--keep'] : []), ...(skip ? ['--skip'] : []), redo === 'forced' ? '--redo with --force' : '--redo']
  return part('choose', `${tools.get(callId) ?? 'call'} (${callId}): ${may.join(', ')}`)
}

function part(name: string, text: string): string {
  return `    ${name.padEnd(9)} ${oneLine(text, 400)}`
}

function nextText(next: NextStep | undefined): string {
  switch (next?.step) {
    case undefined:
      return 'the session is idle until the next message'
    case 'calls':
      return 'the model sees their results'
    case 'model_call':
      return `the model is called for turn ${next.turn}`
    case 'new_run':
      return `run ${next.run} begins with its messages`
    case 'completion':
      return 'the run completes with the answer that it has'
  }
}
