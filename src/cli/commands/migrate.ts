// `pawl migrate`: brings the side store's tables up to this release, as the role that owns them.
import { Command } from 'commander'
import { connectOptions } from '../connecting.ts'
import { CliError } from '../errors.ts'
import { dataOption, jsonOption } from '../options.ts'
import { defined } from '../../session/defined.ts'

interface MigrateCommandOptions {
  data: string
  schema?: string
  appRole?: string
  check?: true
  json?: true
}

/** The command. */
export function migrateCommand(): Command {
  return new Command('migrate')
    .description('bring the tables of the side store up to this release; connects as DATABASE_URL says, as the role that is to own them')
    .addOption(dataOption())
    .option('--schema <name>', "Postgres schema (default: 'pawl')")
    .option('--app-role <role>', "a role that is granted what workers need; they connect as it, with `migrate: 'check'`")
    .option('--check', 'change nothing: say what is missing; exit code 1 if anything is')
    .addOption(jsonOption())
    .action(migrate)
}

/** Exit code 1: something is missing, and it was only checked. */
async function migrate({ appRole, check, json, ...where }: MigrateCommandOptions): Promise<void> {
  if (appRole !== undefined && check) throw new CliError('invalid_usage', '--check changes nothing: leave --app-role out.')
  const { postgres = process.env.DATABASE_URL, schema, onWait } = await connectOptions(where)
  if (typeof postgres !== 'string' || postgres === '') {
    throw new CliError('invalid_usage', 'No Postgres is known: set DATABASE_URL, or start `pawl dev`.')
  }
  const { migrateStore } = await import('../../client/admin/migrating.ts')
  const report = await migrateStore({
    postgres,
    ...defined({ schema }),
    ...(onWait && { onWait }),
    ...defined({ appRole }),
    ...(check && { check }),
  })
  if (report.pending.length > 0) process.exitCode = 1
  const { applied, pending, grantedTo } = report
  const lines = [
    ...applied.map((name) => `applied ${name}`),
    ...pending.map((name) => `missing ${name}`),
    ...(applied.length + pending.length === 0 ? [`The schema "${report.schema}" is up to date.`] : []),
    ...(grantedTo === undefined ? [] : [`Granted "${grantedTo}" what workers need.`]),
    ...(pending.length > 0 ? ['Run `pawl migrate` without --check to apply what is missing.'] : []),
  ]
  process.stdout.write(
    json ? `${JSON.stringify({ event: check ? 'checked' : 'migrated', ...report })}\n` : lines.map((line) => `${line}\n`).join(''),
  )
}
