// `pawl doctor`: examines a deployment.
import { Command } from 'commander'
import { say } from '../queries.ts'
import { aboutDeployment, connectOptions, type DeploymentOptions } from '../connecting.ts'
import { withPlaces } from '../here.ts'
import { jsonOption } from '../options.ts'
import { oneLine, paint, type Style } from '../terminal.ts'
import type { HealthCheck, HealthLevel } from '../../client/doctor/report.ts'

const COLOURS: Record<HealthLevel, Style> = { ok: 'green', warn: 'yellow', fail: 'red' }
const WIDTH = 10

export function doctorCommand(): Command {
  return aboutDeployment(
    new Command('doctor').description(
      'examine a deployment: servers, schema, clocks, workers, backlog, agents, models, tools, sessions; exit code 1 if something fails',
    ),
  )
    .addOption(jsonOption())
    .action(doctor)
}

async function doctor(options: DeploymentOptions & { json?: true }): Promise<void> {
  const client = await import('../../client/index.ts')
  const { ok, checks, notExamined } = await client.doctor(await connectOptions(options))
  if (options.json) for (const check of checks) say(JSON.stringify(check))
  else for (const check of checks) for (const line of linesOf(check)) say(line)
  if (!options.json && notExamined.length > 0) say(paint('yellow', `not examined: ${notExamined.join(', ')}`))
  if (!ok) process.exitCode = 1
}

function linesOf({ check, level, measured, advice }: HealthCheck): string[] {
  const head = `${paint(COLOURS[level], level.padEnd(4))}  ${check.padEnd(WIDTH)}  ${oneLine(measured, 1_000)}`
  return advice === undefined ? [head] : [head, `${' '.repeat(6 + WIDTH)}  ${oneLine(withPlaces(advice), 400)}`]
}
