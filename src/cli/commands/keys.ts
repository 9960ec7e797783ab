// `pawl keys create|list|revoke`: the API keys of `pawl serve`.
import { Command, InvalidArgumentError } from 'commander'
import type { ApiKey, ApiKeyOptions, ApiKeys, Scope } from '../../client/admin/api-keys.ts'
import { here } from '../here.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { defined } from '../../session/defined.ts'
import { isObject, type JsonObject } from '../../session/json.ts'
import { aboutDeployment, type DeploymentOptions, onStoreAlone } from '../connecting.ts'
import { byOption, jsonOf, jsonOption, severalOf } from '../options.ts'
import { say } from '../queries.ts'
import { type Column, linesOfTable } from '../table.ts'

interface KeysOptions extends DeploymentOptions {
  json?: true
}

interface CreateOptions extends KeysOptions {
  scopes?: Scope[]
  roles?: string[]
  tenant?: string
  context?: JsonObject
  by: string
}

export function keysCommand(): Command {
  const keys = new Command('keys').description('manage the API keys of `pawl serve`')
  for (const command of [createCommand(), listCommand(), revokeCommand()]) keys.addCommand(command)
  return keys
}

function createCommand(): Command {
  return aboutDeployment(
    new Command('create')
      .description('create a key and print it; it is shown only once')
      .argument('<name>', 'who holds the key, such as web-frontend; recorded with each request that uses it')
      .option('--scopes <scopes>', 'some of read, send, approve, operate, separated by commas (default: read,send)', scopesOf)
      .option('--roles <roles>', 'roles for calls that only people with a role may decide, separated by commas (default: none)', severalOf)
      .option('--tenant <tenant>', 'the tenant that the key is limited to (default: none; the key sees all sessions)')
      .option('--context <json>', 'members of the context of sessions that it starts; a request cannot change them', contextOf)
      .addOption(byOption()),
  )
    .addOption(jsonOption())
    .action(async (name: string, { scopes, roles, tenant, context, by, json, ...where }: CreateOptions) => {
      const options: ApiKeyOptions = { name, by, ...defined({ scopes, roles, tenant, context }) }
      const made = await onKeys(where, (keys) => keys.create(options))
      if (json) return say(JSON.stringify({ event: 'key_created', ...made }))
      say(made.key)
      process.stderr.write(`Key ${made.id} of ${made.name}. Store it now: it is not shown again.\n`)
    })
}

const COLUMNS: Column<ApiKey>[] = [
  { name: 'id', of: ({ id }) => id },
  { name: 'name', of: ({ name }) => name },
  { name: 'tenant', of: ({ tenant }) => tenant },
  { name: 'scopes', of: ({ scopes }) => scopes.join(',') },
  { name: 'roles', of: ({ roles }) => roles.join(',') || null },
  { name: 'created', of: ({ createdAt }) => createdAt },
  { name: 'revoked', of: ({ revokedAt }) => revokedAt },
]

function listCommand(): Command {
  return aboutDeployment(new Command('list').description('list the keys, without their secrets'))
    .addOption(jsonOption())
    .action(async ({ json, ...where }: KeysOptions) => {
      const keys = await onKeys(where, (all) => all.list())
      const lines = keys.length > 0 ? linesOfTable(COLUMNS, keys) : [`no keys; create one with \`${here(SUGGESTIONS.createKey())}\``]
      for (const line of json ? keys.map((key) => JSON.stringify(key)) : lines) say(line)
    })
}

function revokeCommand(): Command {
  return aboutDeployment(
    new Command('revoke').description('revoke a key; takes effect within seconds').argument('<id>', 'as `pawl keys list` shows it'),
  )
    .addOption(byOption())
    .addOption(jsonOption())
    .action(async (id: string, { by, json, ...where }: KeysOptions & { by: string }) => {
      const key = await onKeys(where, (keys) => keys.revoke(id, { by }))
      say(json ? JSON.stringify({ event: 'key_revoked', ...key }) : `Key ${key.id} of ${key.name} is revoked.`)
    })
}

async function onKeys<T>(where: DeploymentOptions, work: (opened: ApiKeys) => Promise<T>): Promise<T> {
  const { openApiKeys } = await import('../../client/admin/api-keys.ts')
  return onStoreAlone(where, openApiKeys, work)
}

/** Creating the key validates the scopes. */
function scopesOf(text: string): Scope[] {
  return text.split(',').map((scope) => scope.trim() as Scope)
}

function contextOf(text: string): JsonObject {
  const context = jsonOf(text)
  if (isObject(context)) return context
  throw new InvalidArgumentError('Use a JSON object, such as \'{"tenantId":"acme"}\'.')
}
