// `pawl plan <session>`: the session's plan, or all its versions.
import { Command } from 'commander'
import type { Plan, PlanVersion } from '../../client/index.ts'
import { say, sayAs, timeOf } from '../queries.ts'
import { aboutDeployment, type DeploymentOptions } from '../connecting.ts'
import { liveOrStored } from '../live-or-stored.ts'
import { atOption, jsonOption } from '../options.ts'
import { type Column, linesOfTable } from '../table.ts'
import { oneLine, paint } from '../terminal.ts'
import type { PlanChange, PlanStep, PlanStepStatus } from '../../session/built-in-tools/plan.ts'
import { counted } from '../../session/counted.ts'

const STEPS: Column<PlanStep>[] = [
  { name: 'step', of: (row) => row.id, whole: true },
  { name: 'status', of: (row) => row.status, status: true },
  { name: 'title', of: (row) => row.title, whole: true },
  { name: 'evidence', of: ({ evidence, postconditions }) => evidence ?? (postconditions && `to check: ${postconditions}`) ?? null },
]

const VERSIONS: Column<PlanVersion>[] = [
  { name: 'version', of: (row) => row.version, right: true },
  { name: 'turn', of: (row) => `${row.run}.${row.turn}` },
  { name: 'seq', of: (row) => row.seq, right: true },
  { name: 'made', of: (row) => new Date(row.at) },
  { name: 'done', of: ({ steps }) => `${steps.filter(hasStatus('done')).length} of ${steps.length}` },
  { name: 'archived', of: (row) => (row.archivedSeq === undefined ? 'no' : `at ${row.archivedSeq}`) },
  { name: 'change', of: (row) => changeText(row.change) },
]

interface PlanCommandOptions extends DeploymentOptions {
  versions?: true
  at?: number
  json?: true
}

export function planCommand(): Command {
  return aboutDeployment(
    new Command('plan').description("show a session's plan, with the status of each step").argument('<session>', "the session's id"),
  )
    .addOption(atOption('the plan').conflicts('versions'))
    .option('--versions', 'list all versions of the plan, oldest first, with the changes in each')
    .addOption(jsonOption())
    .action(showPlan)
}

async function showPlan(session: string, options: PlanCommandOptions): Promise<void> {
  if (options.at !== undefined) return showPlanAt(session, options.at, options)
  const versions = await liveOrStored(
    options,
    (pawl) => pawl.session(session).plans(),
    (queries) => queries.session(session).plans(),
  )
  const shown = options.versions ? versions : versions.filter(({ archivedSeq }) => archivedSeq === undefined).slice(-1)
  if (options.json) for (const version of shown) say(JSON.stringify(version))
  else if (options.versions) for (const line of linesOfTable(VERSIONS, shown)) say(line)
  else for (const line of shown[0] ? linesOfPlan(shown[0]) : [`session ${session} has no plan`]) say(line)
}

async function showPlanAt(session: string, at: number, options: PlanCommandOptions): Promise<void> {
  const plan = await liveOrStored(
    options,
    (pawl) => pawl.session(session).plan({ at }),
    (queries) => queries.session(session).plan(at),
  )
  sayAs(options, plan, () => (plan ? linesOfPlan(plan) : [`session ${session} had no plan at checkpoint ${at}`]))
}

/** `made`: the turn and time at which the version was made, if known. */
function linesOfPlan({ version, objective, steps, ...made }: Plan & Partial<PlanVersion>): string[] {
  const { run, turn, at } = made
  const count = (status: PlanStepStatus): number => steps.filter(hasStatus(status)).length
  const counts = (['in_progress', 'blocked', 'pending'] as const).flatMap((status) => {
    const found = count(status)
    return found > 0 ? [`${found} ${status.replace('_', ' ')}`] : []
  })
  return [
    paint('bold', oneLine(objective, 400)),
    [
      `version ${version}${at === undefined ? '' : `, made in turn ${run}.${turn} at ${timeOf(new Date(at))}`}: ${count('done')} of ${counted(steps.length, 'step')} done`,
      ...counts,
    ].join(', '),
    ...linesOfTable(STEPS, steps),
  ]
}

const hasStatus =
  (status: PlanStepStatus) =>
  (step: PlanStep): boolean =>
    step.status === status

function changeText(change: PlanChange): string {
  if (change.do === 'setup') return `set up with ${counted(change.steps.length, 'step')}: ${change.objective}`
  if (change.do === 'add_step') return `added ${change.step.id}: ${change.step.title}`
  return `${change.id} is ${change.status}${change.evidence === undefined ? '' : `: ${change.evidence}`}`
}
