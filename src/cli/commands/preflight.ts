// `pawl preflight [module]`: replays the open sessions with this build before it is deployed, and lists those that it would break.
import { Command } from 'commander'
import { defined } from '../../session/defined.ts'
import type { PreflightReport } from '../../worker/index.ts'
import { aboutDeployment, connectOptions, type DeploymentOptions } from '../connecting.ts'
import { here } from '../here.ts'
import { jsonOption } from '../options.ts'
import { say } from '../queries.ts'
import { findModule } from '../running/module.ts'
import { listenForStop, stopSignalOf } from '../running/stop.ts'
import { oneLine, paint } from '../terminal.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { counted } from '../../session/counted.ts'
import type { AgentCallWarning, CheckedSession, StoreCheck, UnverifiedTool, WarningSum } from '../../worker/preflight-report.ts'

interface PreflightCommandOptions extends DeploymentOptions {
  sample?: string
  concurrency?: string
  dataConverter?: string
  interceptors?: string
  strict?: true
  json?: true
}

const PROGRESS_EVERY_MS = 10_000
/** Reasons and messages are printed in full; only a stack trace is longer. */
const MESSAGE_WIDTH = 1_000

export function preflightCommand(): Command {
  return aboutDeployment(
    new Command('preflight')
      .description('replay the histories of open sessions with this build, before it is deployed, and list those that it would break')
      .argument('[module]', 'the worker module of this build: open sessions and their calls are compared with its agents and tools'),
  )
    .option('--sample <n>', 'check only this many open sessions, chosen at random (default: all)')
    .option('--concurrency <n>', 'histories to replay at the same time (default: the number of cores, at most 4)')
    .option('--data-converter <path>', "module that exports the workers' dataConverter")
    .option('--interceptors <path>', "module that exports the workers' interceptors")
    .option('--strict', 'exit code 1 for warnings and missing migrations, too')
    .addOption(jsonOption())
    .action(check)
}

/** Exit code 1: a session would break or could not be read, the store could not be checked, or the command was stopped. */
async function check(given: string | undefined, options: PreflightCommandOptions): Promise<void> {
  const { sample, concurrency, dataConverter, interceptors, strict, json } = options
  const module = given === undefined ? undefined : await findModule(given)
  const { temporal, taskQueue, postgres, schema } = await connectOptions(options)
  let checked = 0
  const progress = setInterval(() => json || process.stderr.write(`${counted(checked, 'session')} checked so far\n`), PROGRESS_EVERY_MS)
  try {
    // Loaded on demand, so that `pawl --help` is fast.
    const { preflight } = await import('../../worker/index.ts')
    const report = await preflight({
      ...defined({ module, temporal, taskQueue, postgres, schema, dataConverter, interceptors }),
      ...(sample !== undefined && { sample: Number(sample) }),
      ...(concurrency !== undefined && { concurrency: Number(concurrency) }),
      onSession(session) {
        checked += 1
        if (json ? session.problem || session.warnings.length > 0 : session.problem) {
          say(json ? JSON.stringify({ event: 'session', ...session }) : lineOfProblem(session))
        }
      },
      signal: stopSignalOf(listenForStop()),
    })
    const { problems: _, ...sums } = report
    if (json) say(JSON.stringify({ event: 'preflight', ...sums }))
    else for (const line of linesOfReport(report, module !== undefined)) say(line)
    if (hasFailed(report) || (strict && hasWarned(report))) process.exitCode = 1
  } finally {
    clearInterval(progress)
  }
}

function hasFailed({ breaks, unread, stopped, store }: PreflightReport): boolean {
  return breaks + unread > 0 || stopped || store?.error !== undefined || (store?.tooNew.length ?? 0) > 0
}

function hasWarned({ warnings, agentCalls = [], store }: PreflightReport): boolean {
  return warnings.length + agentCalls.length + (store?.missing.length ?? 0) > 0
}

function lineOfProblem({ sessionId, outcome, problem }: CheckedSession): string {
  return `${paint('red', outcome.padEnd(7))} ${sessionId}  ${oneLine(`${problem?.code}: ${problem?.message}`, MESSAGE_WIDTH)}`
}

function linesOfReport(report: PreflightReport, hasModule: boolean): string[] {
  const { taskQueue, sessions, replays, breaks, unread, closed, warnings, agentCalls = [], unverified = [], store, stopped } = report
  const sums = `${counted(sessions, 'open session')} on "${taskQueue}": ${replays} replay, ${breaks} break, ${unread} unread, ${closed} closed in the meantime`
  return [
    ...warnings.map(lineOfWarning),
    ...agentCalls.map(lineOfAgentCall),
    ...unverified.map(lineOfUnverified),
    ...linesOfStore(store),
    ...(hasModule ? [] : ['agents   not compared: name the worker module to compare open sessions with its agents and tools']),
    stopped ? `${sums}. Stopped: run the command again for the rest.` : sums,
  ]
}

function lineOfWarning({ code, message, agent, tool, sessions, examples }: WarningSum): string {
  const where = tool === undefined ? `agent ${agent}` : `agent ${agent}, tool ${tool}`
  const which = sessions > examples.length ? `${examples.join(', ')}, …` : examples.join(', ')
  return `${paint('yellow', 'warning')} ${code}, ${where}: ${counted(sessions, 'session')} (${which}). ${oneLine(message, MESSAGE_WIDTH)}`
}

function lineOfAgentCall({ code, agent, tool, message }: AgentCallWarning): string {
  return `${paint('yellow', 'warning')} ${code}, agent ${agent}, tool ${tool}: ${oneLine(message, MESSAGE_WIDTH)}`
}

function lineOfUnverified({ agent, tool, onUnknown }: UnverifiedTool): string {
  const then = onUnknown === 'ask' ? 'waits for a person' : 'is reported to the model as unknown'
  return `note     agent ${agent}, tool ${tool}: external, without verify. If a worker dies during a call, the call ${then}`
}

function linesOfStore(store: StoreCheck | undefined): string[] {
  if (!store) return ['store    not checked: set DATABASE_URL to compare its migrations with this build']
  const { schema, missing, tooNew, error } = store
  if (error) return [`${paint('red', 'store')}    not checked: ${error.code}: ${oneLine(error.message, MESSAGE_WIDTH)}`]
  return [
    ...(missing.length > 0
      ? [
          `${paint('yellow', 'store')}    "${schema}" lacks ${missing.join(', ')}: run \`${here(SUGGESTIONS.migrate())}\` with this build first`,
        ]
      : []),
    ...(tooNew.length > 0
      ? [
          `${paint('red', 'store')}    "${schema}" has ${tooNew.join(', ')} from a newer release: workers of this build would not write to it`,
        ]
      : []),
  ]
}
