// `pawl status [session]`: which sessions need a person, or the status of one session and what to do about it.
import type { Command } from 'commander'
import type { OverviewSession, SessionNeed, StatusOverview } from '../../client/index.ts'
import { type QueryOptions, queryCommand, queryStore, say, sessionIn, type SessionOptions, withSession } from '../queries.ts'
import { liveOrStored } from '../live-or-stored.ts'
import { limitOption } from '../options.ts'
import { linesOfReport } from '../reporting.ts'
import { type Column, linesOfTable } from '../table.ts'
import { paint } from '../terminal.ts'
import { defined } from '../../session/defined.ts'
import { durationText } from '../../session/duration.ts'

interface StatusOptions extends QueryOptions, SessionOptions {
  limit: number
  agent?: string
}

const NEEDS: Record<SessionNeed, string> = {
  recovery: 'recover',
  resolution: 'resolve',
  approval: 'approve or deny',
  unpausing: 'unpause',
  automatic: 'ends by itself',
  look: 'look: quiet for minutes',
  answer: "a client's answer",
  nothing: '-',
}

const COLUMNS: Column<OverviewSession>[] = [
  { name: 'session', of: (row) => row.sessionId },
  { name: 'agent', of: (row) => row.agent },
  { name: 'status', of: (row) => row.status },
  { name: 'since', of: (row) => durationText(Date.now() - row.since.getTime()), right: true },
  { name: 'needs', of: (row) => NEEDS[row.needs] },
  { name: 'because of', of: ({ error, tools }) => (error ? `${error.code}: ${error.reason}` : tools.join(', ')) },
]

/** The command. */
export function statusCommand(): Command {
  const command = queryCommand('status', 'show which sessions need a person or are stuck, or the status of one session and what to do')
  return withSession(command)
    .option('--agent <name>', "only this agent's sessions")
    .addOption(limitOption('sessions that are listed, 1 to 1000'))
    .action((session: string | undefined, options: StatusOptions) => {
      const { session: id } = sessionIn(session, options)
      return id === undefined ? overview(options) : one(id, options)
    })
}

async function overview(options: StatusOptions): Promise<void> {
  const { limit, agent, json } = options
  const { items, ...counts } = await queryStore(options, (queries) => queries.overview({ limit, ...defined({ agent }) }))
  if (json) for (const line of [...items, counts]) say(JSON.stringify(line))
  else for (const line of linesOfOverview({ items, ...counts })) say(line)
}

function linesOfOverview({ sessions, needs, items }: StatusOverview): string[] {
  const people = needs.recovery + needs.resolution + needs.approval + needs.unpausing
  const stuck = needs.automatic + needs.look
  const all = Object.values(needs).reduce((sum, count) => sum + count, 0)
  return [
    `${people} need a person, ${stuck} stuck; ${sessions.error} in error, ${sessions.waiting} waiting, ${sessions.running} running, ${sessions.idle} idle`,
    ...(items.length > 0 ? ['', ...linesOfTable(COLUMNS, items)] : []),
    ...(items.length < all ? [paint('dim', `(${all - items.length} more: --limit)`)] : []),
    ...(people + stuck > 0 ? ['', paint('dim', '`pawl status <session>` has the command for each.')] : []),
  ]
}

async function one(id: string, options: StatusOptions): Promise<void> {
  const report = await liveOrStored(
    options,
    (pawl) => pawl.session(id).status(),
    async (queries) => ({ ...(await queries.session(id).status()), unanswered: 'Temporal does not answer.' }),
  )
  if (options.json) say(JSON.stringify(report))
  else for (const line of linesOfReport(report)) say(line)
}
