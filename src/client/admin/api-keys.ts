// API keys: made, listed, revoked and recognised. 256 random bits need no slow hash: they cannot be guessed.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import { checkOptions, options, text, where } from '../../options/check.ts'
import { InvalidOption } from '../../options/errors.ts'
import { defined } from '../../session/defined.ts'
import { isTooDeep, jsonBytes, type JsonObject } from '../../session/json.ts'
import { openStore, type Store, StoreError, type StoredKey } from '../../store/index.ts'
import type { AskingOptions } from '../queries/asking.ts'

/**
 * What a caller may do: `read` sessions; `send` messages, answer client tools, interrupt, regenerate and close; `approve` or deny calls;
 * `operate`: recover, resolve, roll back, fork, pause, raise limits and make checkpoints.
 */
export type Scope = 'read' | 'send' | 'approve' | 'operate'

/** All scopes. */
export const SCOPES = ['read', 'send', 'approve', 'operate'] as const satisfies Scope[]

/** What a new key is for. */
export interface ApiKeyOptions {
  /** Who has it, such as `web-frontend`: recorded, as `key:web-frontend`, with what is asked with it. 1 to 100 characters. */
  name: string
  /** What it may be used for. Default `read` and `send`. */
  scopes?: readonly Scope[]
  /**
   * The tenant that it cannot leave: 1 to 100 of `[A-Za-z0-9._@-]`, or several parts joined by `:`. Ids of its sessions begin with the
   * tenant and `:`. Default: none; the key sees all sessions.
   */
  tenant?: string
  /** Members of the context of sessions that it starts; a request cannot change them. At most 16,000 bytes of JSON. Default: none. */
  context?: JsonObject
  /** Who creates it; recorded. Default: none. */
  by?: string
}

/** A key, without its secret. */
export interface ApiKey {
  /** The part of the key that is no secret. */
  id: string
  /** Who has it. */
  name: string
  /** What it may be used for. */
  scopes: Scope[]
  /** The tenant that it cannot leave; null: it sees all sessions. */
  tenant: string | null
  /** Members of the context of sessions that it starts. */
  context: JsonObject | null
  /** When it was made. */
  createdAt: Date
  /** By whom. */
  createdBy: string | null
  /** When it was revoked; null: it is valid. */
  revokedAt: Date | null
  /** By whom. */
  revokedBy: string | null
}

/** A key that was just made. */
export interface NewApiKey extends ApiKey {
  /** The key itself. It is shown once: only its digest is stored. */
  key: string
}

/** The API keys of a deployment, in its side store. Everything rejects with `StoreError` (`no_store`, `store_unavailable`, …). */
export interface ApiKeys {
  /** Makes a key. @throws InvalidOption `invalid_option`. */
  create(options: ApiKeyOptions): Promise<NewApiKey>
  /** All keys, also revoked ones, newest first. */
  list(): Promise<ApiKey[]>
  /** Revokes a key, by its id; a server that has seen it may accept it for some seconds more. @throws InvalidOption `invalid_option`. */
  revoke(id: string, options?: { by?: string }): Promise<ApiKey>
  /** The key with this text, unless it was revoked; null: there is none. */
  find(key: string): Promise<ApiKey | null>
}

const TENANT = /^[A-Za-z0-9._@-]+(:[A-Za-z0-9._@-]+)*$/
const MAX_TENANT = 100
const MAX_CONTEXT_BYTES = 16_000
const MAX_NAME = 100
const KEY = /^pawl_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/

/** Whether a value can name a tenant. */
export function isTenant(tenant: unknown): tenant is string {
  return typeof tenant === 'string' && tenant.length <= MAX_TENANT && TENANT.test(tenant)
}

/** Whether a value can be members of contexts. */
export function isForcedContext(context: unknown): context is JsonObject {
  if (typeof context !== 'object' || context === null || Array.isArray(context)) return false
  return !isTooDeep(context) && jsonBytes(context) <= MAX_CONTEXT_BYTES
}

const OPTIONS = options({
  name: where<string>(
    (name) => typeof name === 'string' && /^[\x20-\x7e]{1,100}$/.test(name) && name.trim() !== '',
    `1 to ${MAX_NAME} printable characters of ASCII`,
  ),
  scopes: where<Scope[]>(
    (scopes) => Array.isArray(scopes) && scopes.length > 0 && scopes.every((scope) => SCOPES.includes(scope as Scope)),
    `a list of some of ${SCOPES.join(', ')}`,
  ).optional(),
  tenant: where<string>(isTenant, "a tenant such as 'acme': 1 to 100 of [A-Za-z0-9._@-], or several such parts joined by ':'").optional(),
  context: where<JsonObject>(isForcedContext, `an object of at most ${MAX_CONTEXT_BYTES} bytes of JSON`).optional(),
  by: text().optional(),
})
const REVOKING = options({ id: text('the id of a key'), by: z.string().optional() })

/** The keys of a store; without one, everything rejects with `no_store`. */
export function apiKeysOf(store: Store | undefined): ApiKeys {
  const keys = () => {
    if (store) return store.apiKeys
    throw new StoreError('no_store', 'This client has no side store for keys: set DATABASE_URL, or give Pawl.connect({ postgres }).')
  }
  return {
    async create(given) {
      const { name, scopes = ['read', 'send'], tenant = null, context = null, by = null } = checkOptions(OPTIONS, given)
      const id = randomBytes(6).toString('hex')
      const key = `pawl_${id}_${randomBytes(32).toString('base64url')}`
      const unique = [...new Set(scopes)]
      const stored = await keys().put({ id, digest: digestOf(key), name, scopes: unique, tenant, context, createdBy: by })
      return { ...withoutDigest(stored), key }
    },
    list: async () => (await keys().list()).map(withoutDigest),
    async revoke(given, { by } = {}) {
      const { id } = checkOptions(REVOKING, { id: given, ...defined({ by }) })
      const revoked = await keys().revoke(id, by)
      if (!revoked) throw new InvalidOption(`There is no key with the id ${JSON.stringify(id)}: \`pawl keys list\` shows the keys.`)
      return withoutDigest(revoked)
    },
    async find(key) {
      const [, id] = KEY.exec(key) ?? []
      if (id === undefined) return null
      const stored = await keys().find(id)
      if (!stored || stored.revokedAt !== null) return null
      return timingSafeEqual(Buffer.from(digestOf(key), 'hex'), Buffer.from(stored.digest, 'hex')) ? withoutDigest(stored) : null
    },
  }
}

/** The keys of a store of their own, with no Temporal at hand. @throws StoreError `no_store`, `invalid_postgres_url`. */
export function openApiKeys({ postgres = process.env.DATABASE_URL, schema, logger, onWait }: AskingOptions = {}): ApiKeys & {
  close(): Promise<void>
} {
  if (!postgres) throw new StoreError('no_store', 'There is no side store for keys: set DATABASE_URL, or run `pawl dev` in this folder.')
  const store = openStore({ postgres, migrate: 'off', ...defined({ schema, logger, onWait }) })
  return { ...apiKeysOf(store), close: () => store.close() }
}

function withoutDigest(stored: StoredKey): ApiKey {
  const { digest: _, ...key } = stored
  return { ...key, scopes: key.scopes as Scope[] }
}

function digestOf(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}
