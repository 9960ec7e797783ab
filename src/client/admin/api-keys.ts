// Creates, lists, revokes and looks up API keys. 256 random bits need no slow hash, because they cannot be guessed.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { checkOptions, options, text, where } from '../../options/check.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import { areRoles, ROLES_RULE } from '../../session/approvers.ts'
import { isTooDeep, jsonBytes, type JsonObject, isObject } from '../../session/json.ts'
import { numberText } from '../../session/number-text.ts'
import type { Store, StoredKey, StoredKeys } from '../../store/index.ts'
import { storeOr } from '../no-store.ts'
import type { QueriesOptions } from '../queries/queries-options.ts'
import { openStoreAlone } from './store-alone.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

/**
 * What a caller may do: `read` sessions; `send` messages, answer client tools, interrupt, regenerate and close; `approve` or deny calls;
 * `operate`: recover, resolve, roll back, fork, pause, raise limits and make checkpoints.
 */
export type Scope = 'read' | 'send' | 'approve' | 'operate'

export const SCOPES = ['read', 'send', 'approve', 'operate'] as const satisfies Scope[]

/** Options of a new key. */
export interface ApiKeyOptions {
  /** Who uses the key, such as `web-frontend`; its requests are recorded as made by `key:web-frontend`. 1 to 100 characters. */
  name: string
  /** What the key may be used for. Default: `read` and `send`. */
  scopes?: readonly Scope[]
  /** The roles of the key’s user, for calls that only people with a role may approve or deny. Default: none. */
  roles?: readonly string[]
  /**
   * The tenant that the key is limited to: 1 to 100 of `[A-Za-z0-9._@-]`, or several such parts joined by `:`. The ids of its sessions
   * begin with the tenant and `:`. Default: none; the key has access to all sessions.
   */
  tenant?: string
  /** Context members set in each session that the key starts; a request cannot change them. At most 16,000 bytes of JSON. Default: none. */
  context?: JsonObject
  /** Who creates the key; recorded. Default: none. */
  by?: string
}

/** A key, without its secret. */
export interface ApiKey {
  /** The part of the key that is not secret. */
  id: string
  /** Who uses the key. */
  name: string
  /** What the key may be used for. */
  scopes: Scope[]
  /** The roles of its user. */
  roles: string[]
  /** The tenant that the key is limited to; null if it has access to all sessions. */
  tenant: string | null
  /** Context members set in every session that the key starts. */
  context: JsonObject | null
  /** When the key was created. */
  createdAt: Date
  /** Who created it. */
  createdBy: string | null
  /** When the key was revoked; null if it is still valid. */
  revokedAt: Date | null
  /** Who revoked it. */
  revokedBy: string | null
}

/** A newly created key. */
export interface NewApiKey extends ApiKey {
  /** The key itself. It is shown only once, because only its digest is stored. */
  key: string
}

/** The API keys of a deployment, in its side store. Every method rejects with `StoreError` (`no_store`, `store_unavailable`, …). */
export interface ApiKeys {
  /** Creates a key. @throws InvalidOptionError `invalid_option`. */
  create(options: ApiKeyOptions): Promise<NewApiKey>
  /** All keys, including revoked ones, newest first. */
  list(): Promise<ApiKey[]>
  /**
   * Revokes a key by its id; a server that has seen it may accept it for a few more seconds. @throws InvalidOptionError `invalid_option`.
   */
  revoke(id: string, options?: { by?: string }): Promise<ApiKey>
  /** The key with this text; null if there is none, or it was revoked. */
  find(key: string): Promise<ApiKey | null>
  /** The same for many keys at once, by their texts; only valid keys are in the result. */
  findAll(keys: readonly string[]): Promise<Map<string, ApiKey>>
}

const TENANT = /^[A-Za-z0-9._@-]+(:[A-Za-z0-9._@-]+)*$/
const MAX_TENANT = 100
const MAX_CONTEXT_BYTES = 16_000
const MAX_NAME = 100
const KEY = /^pawl_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/

/** Whether a text has the form of a key; text of any other form is not a key. */
export function isApiKey(text: string): boolean {
  return KEY.test(text)
}

/** What a tenant must be. */
export const TENANT_RULE = "a tenant such as 'acme': 1 to 100 of [A-Za-z0-9._@-], or several such parts joined by ':'"

export function isTenant(tenant: unknown): tenant is string {
  return typeof tenant === 'string' && tenant.length <= MAX_TENANT && TENANT.test(tenant)
}

/** Whether a value is valid as the context members of a key. */
export function isForcedContext(context: unknown): context is JsonObject {
  if (!isObject(context)) return false
  return !isTooDeep(context) && jsonBytes(context) <= MAX_CONTEXT_BYTES
}

const OPTIONS = options({
  name: where<string>(
    (name) => typeof name === 'string' && /^[\x20-\x7e]{1,100}$/.test(name) && name.trim() !== '',
    `1 to ${MAX_NAME} printable ASCII characters`,
  ),
  scopes: where<Scope[]>(
    (scopes) => Array.isArray(scopes) && scopes.length > 0 && scopes.every((scope) => SCOPES.includes(scope as Scope)),
    `a list of one or more of ${SCOPES.join(', ')}`,
  ).optional(),
  roles: where<string[]>(areRoles, ROLES_RULE).optional(),
  tenant: where<string>(isTenant, TENANT_RULE).optional(),
  context: where<JsonObject>(isForcedContext, `an object of at most ${numberText(MAX_CONTEXT_BYTES)} bytes of JSON`).optional(),
  by: text().optional(),
})
const KEY_ID = options({ id: text('the id of a key') })
const REVOKING = options({ by: where<string>((by) => typeof by === 'string', 'text that says who revokes the key').optional() })

/** The API keys in a store. Without a store, every method rejects with `no_store`. */
export function apiKeysOf(store: Store | undefined): ApiKeys {
  const keys = () => storeOr(store).apiKeys
  return {
    async create(given) {
      const { name, scopes = ['read', 'send'], roles = [], tenant = null, context = null, by = null } = checkOptions(OPTIONS, given)
      const id = randomBytes(6).toString('hex')
      const key = `pawl_${id}_${randomBytes(32).toString('base64url')}`
      const lists = { scopes: [...new Set(scopes)], roles: [...new Set(roles)] }
      const stored = await keys().put({ id, digest: digestOf(key), name, ...lists, tenant, context, createdBy: by })
      return { ...withoutDigest(stored), key }
    },
    list: async () => (await keys().list()).map(withoutDigest),
    async revoke(key, given = {}) {
      const { id } = checkOptions(KEY_ID, { id: key })
      const { by } = checkOptions(REVOKING, given)
      const revoked = await keys().revoke(id, by)
      if (!revoked)
        throw new InvalidOptionError(`No API key has the id ${JSON.stringify(id)}. List the keys with \`${SUGGESTIONS.listKeys()}\`.`)
      return withoutDigest(revoked)
    },
    find: async (key) => (await findAll(keys, [key])).get(key) ?? null,
    findAll: (texts) => findAll(keys, texts),
  }
}

async function findAll(keys: () => StoredKeys, texts: readonly string[]): Promise<Map<string, ApiKey>> {
  const ids = new Map(texts.filter(isApiKey).map((text) => [text, KEY.exec(text)?.[1] ?? '']))
  const stored = ids.size === 0 ? [] : await keys().find([...new Set(ids.values())])
  const valid = new Map(stored.filter(({ revokedAt }) => revokedAt === null).map((key) => [key.id, key]))
  const found = new Map<string, ApiKey>()
  for (const [text, id] of ids) {
    const key = valid.get(id)
    if (key && isDigestOf(text, key.digest)) found.set(text, withoutDigest(key))
  }
  return found
}

/**
 * Opens a store for its API keys alone, without Temporal.
 * @throws InvalidOptionError `invalid_option`; StoreError `no_store`, `invalid_store_options`, `invalid_postgres_url`.
 */
export function openApiKeys(given: QueriesOptions = {}): ApiKeys & { close(): Promise<void> } {
  const store = openStoreAlone(given, 'API keys')
  return { ...apiKeysOf(store), close: () => store.close() }
}

function isDigestOf(text: string, digest: string): boolean {
  return timingSafeEqual(Buffer.from(digestOf(text), 'hex'), Buffer.from(digest, 'hex'))
}

function withoutDigest(stored: StoredKey): ApiKey {
  const { digest: _, ...key } = stored
  return { ...key, scopes: key.scopes as Scope[] }
}

function digestOf(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}
