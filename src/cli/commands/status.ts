// `pawl status [session]`: which sessions need a person, or the status of one session and what to do about it.
import { Command } from 'commander'
import type { DeploymentStatus } from '../../client/index.ts'
import { pausedText } from '../chat/lines.ts'
import { aboutDeployment, connectOptions, type DeploymentOptions } from '../connecting.ts'
import { say, sayAs, sessionIn, type SessionCommandOptions, warnOfUnknownAgents, withSession } from '../queries.ts'
import { here, withPlaces } from '../here.ts'
import { liveOrStored } from '../live-or-stored.ts'
import { jsonOption, limitOption } from '../options.ts'
import { linesOfReport } from '../reporting.ts'
import { type Column, linesOfTable } from '../table.ts'
import { oneLine, paint } from '../terminal.ts'
import { repeatedly } from '../watching.ts'
import { defined } from '../../session/defined.ts'
import { durationText } from '../../session/duration.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { counted } from '../../session/counted.ts'
import type { UnopenedSession } from '../../client/doctor/deployment-status.ts'
import type { PlanProgress } from '../../store/rows.ts'
import type { OverviewSession, SessionNeed } from '../../store/sums.ts'

interface StatusOptions extends DeploymentOptions, SessionCommandOptions {
  limit: number
  json?: true
  agent?: string
  watch?: true
}

const NEEDS: Record<SessionNeed, string> = {
  recovery: 'recover',
  resolution: 'resolve',
  approval: 'approve or deny',
  unpausing: 'unpause',
  resuming: 'resume',
  worker: 'its next step',
  automatic: 'ends by itself',
  look: 'look: it is quiet',
  answer: "a client's answer",
  plan: 'continue: its plan is unfinished',
  nothing: '-',
}

/** A session from either source. */
type Row = Pick<OverviewSession, 'sessionId' | 'needs' | 'since' | 'error' | 'paused' | 'tools' | 'expiresAt' | 'plan'> & {
  agent: string | null
  status: OverviewSession['status'] | 'loading'
  waitsFor?: string
}

const COLUMNS: Column<Row>[] = [
  { name: 'session', of: (row) => row.sessionId, whole: true },
  { name: 'agent', of: (row) => row.agent },
  { name: 'status', of: (row) => row.status, status: true },
  { name: 'since', of: (row) => durationText(Date.now() - row.since.getTime()), right: true },
  { name: 'needs', of: needText },
  { name: 'because of', of: reasonText },
]

/** Without a higher limit, a session that has used up its budget fails, or is paused, again. */
function needText({ needs, error, paused }: Row): string {
  const ofPeople = needs === 'recovery' ? error : needs === 'unpausing' ? paused : null
  return ofPeople?.raise?.length ? 'raise a budget' : NEEDS[needs]
}

function reasonText({ needs, error, paused, tools, expiresAt, waitsFor, plan }: Row): string | null {
  if (waitsFor !== undefined) return waitsFor
  if (error) return `${error.code}: ${error.reason}`
  if (needs === 'unpausing' && paused) return `paused ${pausedText(paused)}`
  const soon = expiresAt === null ? '' : `, expires in ${durationText(Math.max(0, expiresAt.getTime() - Date.now()))}`
  return tools.length > 0 ? `${tools.join(', ')}${soon}` : planText(plan)
}

/** The progress of an unfinished plan; null if it is finished or there is none. */
function planText(plan: PlanProgress | null): string | null {
  return plan && plan.done < plan.steps ? `plan: ${plan.done} of ${counted(plan.steps, 'step')} done` : null
}

/** Without a terminal, the reason for a wait is not truncated, because scripts may read it. */
const UNCUT = 400

export function statusCommand(): Command {
  const description = 'show which sessions need a person or are stuck, or the status of one session and what to do'
  return withSession(aboutDeployment(new Command('status').description(description)).addOption(jsonOption()))
    .option('--agent <name>', "only this agent's sessions")
    .option('--watch', 'show it again every two seconds until Ctrl-C')
    .addOption(limitOption('sessions that are listed, 1 to 1000'))
    .action((session: string | undefined, options: StatusOptions) => {
      const { session: id } = sessionIn(session, options)
      const show = (): Promise<void> => (id === undefined ? overview(options) : one(id, options))
      return options.watch ? repeatedly(show) : show()
    })
}

async function overview(options: StatusOptions): Promise<void> {
  const { limit, agent, json } = options
  const client = await import('../../client/index.ts')
  const status = await client.deploymentStatus(await connectOptions(options), { limit, ...defined({ agent }) })
  if (status.overview?.items.length === 0) await warnOfUnknownAgents(options, [agent])
  if (json) for (const line of jsonOf(status)) say(JSON.stringify(line))
  else for (const line of linesOfStatus(status)) say(line)
  if (status.overview === null || status.workers === null) process.exitCode = 1
}

/** One object for each session, then one with the totals. */
function jsonOf({ overview, unopened, ...rest }: DeploymentStatus): object[] {
  const { items = [], ...counts } = overview ?? {}
  return [...rowsOf(items, unopened ?? []), { ...counts, ...rest, unopened: unopened?.length ?? null }]
}

function linesOfStatus(status: DeploymentStatus): string[] {
  const { overview, unopened, open, workers, taskQueue, notSeen } = status
  const rows = rowsOf(overview?.items ?? [], unopened ?? []).map((row) => ({ ...defined({ waitsFor: waitOf(status, row) }), ...row }))
  const needs = overview?.needs
  const all = needs ? Object.values(needs).reduce((sum, count) => sum + count, 0) + (unopened?.length ?? 0) : 0
  const unpolled = `No worker polls task queue "${taskQueue}": ${counted(open ?? 0, 'open session')} cannot continue. Start one: ${here(SUGGESTIONS.startWorker())}`
  return [
    headOf(status),
    ...(workers === 0 ? [paint('red', unpolled)] : []),
    ...quietLine(status),
    ...gateLines(status),
    ...notSeen.map((sentence) => paint('yellow', oneLine(withPlaces(sentence), 400))),
    ...(rows.length > 0 ? ['', ...linesOfTable(COLUMNS, rows, { width: process.stdout.columns ?? UNCUT })] : []),
    ...(rows.length < all ? [paint('dim', `(${all - rows.length} more: --limit)`)] : []),
    ...(rows.some(({ needs }) => needs !== 'nothing' && needs !== 'answer' && needs !== 'plan')
      ? ['', paint('dim', `\`${here(SUGGESTIONS.statusOf())}\` has the command for each.`)]
      : []),
  ]
}

/** Temporal learns of the death of an idle worker only when its poll ends. */
function quietLine({ workers, quietSince, taskQueue }: DeploymentStatus): string[] {
  if (quietSince === null || workers === null) return []
  const ago = durationText(Math.max(0, Date.now() - quietSince))
  return [
    paint('dim', `${counted(workers, 'worker')} on task queue "${taskQueue}", last seen ${ago} ago (an idle one is seen once a minute)`),
  ]
}

/** Sessions that wait at a gate look as if they were stuck. */
function gateLines({ gates }: DeploymentStatus): string[] {
  return gates.map(({ account, until }) => {
    const forMs = Math.max(0, until.getTime() - Date.now())
    const text = `Calls to ${oneLine(account, 200)} wait for another ${durationText(forMs)}, because their provider has limited the rate: ${here(SUGGESTIONS.listGates())}`
    return paint('yellow', text)
  })
}

/** What a session waits for, if its row does not say. */
function waitOf({ heldUp, workers, taskQueue }: DeploymentStatus, { sessionId, needs, error, tools }: Row): string | undefined {
  if (needs === 'resuming') return 'its workflow has ended during the run'
  if (needs === 'look') return tools.length > 0 ? undefined : heldUp[sessionId]
  if (needs === 'automatic' && error === null) return heldUp[sessionId]
  if (needs !== 'worker') return undefined
  if (workers === null) return 'Temporal'
  return heldUp[sessionId] ?? `a worker on task queue "${taskQueue}"`
}

/** The text never suggests that all is well if something could not be checked. */
function headOf({ overview, unopened, open, workers }: DeploymentStatus): string {
  if (!overview) return open === null ? 'Nothing was seen.' : counted(open, 'open session')
  const { sessions, needs } = overview
  const people = needs.recovery + needs.resolution + needs.approval + needs.unpausing + needs.resuming
  const stuck = needs.worker + needs.automatic + needs.look + (unopened?.length ?? 0)
  const isPart = workers === null ? 'at least ' : ''
  const opening = unopened && unopened.length > 0 ? `, ${unopened.length} not opened yet` : ''
  return `${isPart}${counted(people, 'needs a person', 'need a person')}, ${isPart}${stuck} stuck; ${sessions.error} in error, ${sessions.waiting} waiting, ${sessions.running} running, ${sessions.idle} idle${opening}`
}

/** Sessions that no worker has opened come right after those that need a person. */
function rowsOf(items: readonly OverviewSession[], unopened: readonly UnopenedSession[]): Row[] {
  const longestFirst = unopened.toSorted((one, other) => one.since.getTime() - other.since.getTime())
  const opening = longestFirst.map(({ sessionId, since, waitsFor }): Row => {
    return {
      sessionId,
      agent: null,
      status: 'loading',
      needs: 'worker',
      since,
      error: null,
      paused: null,
      tools: [],
      expiresAt: null,
      plan: null,
      waitsFor,
    }
  })
  const at = items.findIndex(({ needs }) => !OF_PEOPLE.has(needs))
  return at < 0 ? [...items, ...opening] : [...items.slice(0, at), ...opening, ...items.slice(at)]
}

const OF_PEOPLE: ReadonlySet<SessionNeed> = new Set(['recovery', 'resolution', 'approval', 'unpausing', 'resuming'])

async function one(id: string, options: StatusOptions): Promise<void> {
  const report = await liveOrStored(
    options,
    (pawl) => pawl.session(id).status(),
    async (queries) => ({ ...(await queries.session(id).status()), unanswered: 'Temporal does not answer.' }),
  )
  sayAs(options, report, () => linesOfReport(report))
}
