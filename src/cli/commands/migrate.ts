// `pawl migrate`: updates the side store's tables to this release, as the role that owns them.
import { Command } from 'commander'
import type { MigrateReport } from '../../client/admin/migrating.ts'
import { connectOptions } from '../connecting.ts'
import { CliError } from '../errors.ts'
import { here } from '../here.ts'
import { dataOption, jsonOption } from '../options.ts'
import type { Deployment } from '../../connect/dev-stack.ts'
import { PawlError } from '../../session/errors.ts'
import { sayAs } from '../queries.ts'
import { oneLine } from '../terminal.ts'
import { defined } from '../../session/defined.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

interface MigrateCommandOptions {
  data: string
  schema?: string
  appRole?: string
  namespace?: string
  check?: true
  searchAttributes: boolean
  json?: true
}

export function migrateCommand(): Command {
  return new Command('migrate')
    .description('update the tables of the side store to this release; DATABASE_URL must connect as the role that owns them')
    .addOption(dataOption())
    .option('--schema <name>', "Postgres schema of the side store (default: 'pawl')")
    .option('--app-role <role>', "grant this role what workers need; workers then connect as it, with `migrate: 'check'`")
    .option('--namespace <name>', 'move the sessions to this Temporal namespace, whose workers then serve them')
    .option('--no-search-attributes', 'do not register the search attributes PawlAgent and PawlTags in the Temporal namespace')
    .option('--check', 'only list missing migrations and ones too new for this release to write with; exit code 1 if there are any')
    .addOption(jsonOption())
    .action(migrate)
}

/** Exit code 1: `--check` found migrations that are missing, or too new. */
async function migrate({ appRole, namespace, check, json, searchAttributes, ...where }: MigrateCommandOptions): Promise<void> {
  if (check && (appRole ?? namespace) !== undefined) {
    throw new CliError('invalid_usage', '--check changes nothing. Omit --app-role and --namespace.')
  }
  const found = await connectOptions(where)
  const { postgres = process.env.DATABASE_URL, schema, onWait } = found
  if (typeof postgres !== 'string' || postgres === '') {
    throw new CliError('invalid_usage', `No Postgres is configured. Set DATABASE_URL, or start \`${SUGGESTIONS.develop()}\`.`)
  }
  const { migrateStore } = await import('../../client/admin/migrating.ts')
  const report = await migrateStore({
    postgres,
    ...defined({ schema }),
    ...(onWait && { onWait }),
    ...defined({ appRole, namespace }),
    ...(check && { check }),
  })
  const { pending, tooNew } = report
  if (pending.length + tooNew.length > 0) process.exitCode = 1
  const registered = searchAttributes && !check ? await register(found.temporal, namespace) : undefined
  sayAs({ json }, { event: check ? 'checked' : 'migrated', ...report, ...defined({ searchAttributes: registered }) }, () =>
    linesOfReport(report, namespace, registered),
  )
}

function linesOfReport(report: MigrateReport, namespace: string | undefined, registered: RegistrationOutcome | undefined): string[] {
  const { applied, pending, tooNew, grantedTo, movedFrom } = report
  return [
    ...applied.map((name) => `applied ${name}`),
    ...pending.map((name) => `missing ${name}`),
    ...tooNew.map((name) => `newer   ${name}`),
    ...(applied.length + pending.length + tooNew.length === 0 ? [`The Postgres schema "${report.schema}" is up to date.`] : []),
    ...(namespace === undefined
      ? []
      : [
          `The sessions belong to the Temporal namespace "${report.namespace}"${movedFrom === undefined ? '' : `, and no longer to "${movedFrom}"`}.`,
        ]),
    ...(grantedTo === undefined ? [] : [`Granted the role "${grantedTo}" the rights that workers need.`]),
    ...linesOfRegistered(registered),
    ...(pending.length > 0 ? [`Run \`${here(SUGGESTIONS.migrate())}\` without --check to apply what is missing.`] : []),
    ...(tooNew.length > 0
      ? ['Workers of this release must not write to these tables. Use the release that added the newer migrations.']
      : []),
  ]
}

/** The search attributes that were missing and have been added, or why they could not be added. */
type RegistrationOutcome = { added: string[] } | { error: string }

/** Sessions work without search attributes, so no failure here fails the command. */
async function register(given: Deployment['temporal'], namespace: string | undefined): Promise<RegistrationOutcome | undefined> {
  const [{ connectClient, configuredTemporal }, { registerSearchAttributes }] = await Promise.all([
    import('../../connect/temporal.ts'),
    import('../../connect/search-attributes.ts'),
  ])
  try {
    const temporal = { ...configuredTemporal(given), ...defined({ namespace }) }
    const { connection, close } = await connectClient(temporal)
    try {
      return { added: await registerSearchAttributes(connection, temporal.namespace) }
    } finally {
      await close()
    }
  } catch (error) {
    if (error instanceof PawlError && error.code === 'not_configured') return undefined
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

function linesOfRegistered(registered: RegistrationOutcome | undefined): string[] {
  if (!registered) return []
  if ('error' in registered) return [`The search attributes PawlAgent and PawlTags were not registered: ${oneLine(registered.error, 400)}`]
  return registered.added.length > 0 ? [`Registered the search attributes ${registered.added.join(' and ')} in Temporal.`] : []
}
