// `pawl agents`: the workers of a task queue, and which agents are served.
import { Command } from 'commander'
import { aboutDeployment, connectOptions, type DeploymentOptions } from '../connecting.ts'
import { jsonOption } from '../options.ts'
import { say } from '../queries.ts'
import { type Column, linesOfTable } from '../table.ts'
import { oneLine, paint } from '../terminal.ts'
import type { HealthCheck } from '../../client/doctor/report.ts'

interface ServingWorker {
  identity: string
  build: string
  /** When it last polled. */
  at: number
}

interface KnownAgent {
  agent: string
  unserved: number
  answeredAt: number | null
  active: number
}

const WORKERS: Column<ServingWorker>[] = [
  { name: 'worker', of: ({ identity }) => identity, whole: true },
  { name: 'build', of: ({ build }) => build },
  { name: 'last seen', of: ({ at }) => new Date(at) },
]

const AGENTS: Column<KnownAgent>[] = [
  { name: 'agent', of: ({ agent }) => agent },
  { name: 'served', of: servedText, status: true },
  { name: 'active', of: ({ active }) => active, right: true },
  { name: 'waiting for a worker', of: ({ unserved }) => unserved, right: true },
  { name: 'last answer', of: ({ answeredAt }) => (answeredAt === null ? null : new Date(answeredAt)) },
]

export function agentsCommand(): Command {
  return aboutDeployment(
    new Command('agents').description(
      'list the workers of the task queue, and the agents that have sessions, with whether each was served in the last hour',
    ),
  )
    .addOption(jsonOption())
    .action(agents)
}

/** Exit code 1: Temporal or Postgres was unavailable. Workers do not record which agents they serve, so their sessions show it. */
async function agents(options: DeploymentOptions & { json?: true }): Promise<void> {
  const client = await import('../../client/index.ts')
  const { checks } = await client.doctor(await connectOptions(options))
  const of = (name: string): HealthCheck | undefined => checks.find(({ check }) => check === name)
  const unseen = [of('workers') ? undefined : of('temporal'), of('agents') ? undefined : of('postgres')].filter(
    (check) => check !== undefined,
  )
  const workers = ((of('workers')?.details as { orchestrators?: ServingWorker[] } | undefined)?.orchestrators ?? []).toSorted(byName)
  const known = (of('agents')?.details as KnownAgent[] | undefined) ?? []
  if (unseen.length > 0) process.exitCode = 1
  if (options.json) {
    for (const { identity, build, at } of workers) say(JSON.stringify({ worker: identity, build, lastSeen: at }))
    for (const agent of known) say(JSON.stringify({ ...agent, served: servedText(agent) }))
    for (const { check, measured } of unseen) say(JSON.stringify({ unseen: check, measured }))
    return
  }
  for (const line of workers.length > 0 ? linesOfTable(WORKERS, workers) : [paint('dim', of('workers')?.measured ?? 'workers: not seen')])
    say(line)
  say('')
  for (const line of known.length > 0 ? linesOfTable(AGENTS, known) : [paint('dim', of('agents')?.measured ?? 'agents: not seen')])
    say(line)
  for (const { check, measured } of unseen) say(paint('red', `not seen, ${check}: ${oneLine(measured, 400)}`))
}

function byName(one: ServingWorker, other: ServingWorker): number {
  return one.identity < other.identity ? -1 : 1
}

function servedText({ unserved, answeredAt }: KnownAgent): string {
  if (unserved > 0) return 'no'
  return answeredAt === null ? 'unknown' : 'yes'
}
