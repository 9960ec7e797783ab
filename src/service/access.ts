// The caller's identity, and what the caller may see and do. A tenant's sessions are those whose ids begin with its prefix.
import { z } from 'zod'
import { isForcedContext, isTenant, type Scope, SCOPES, TENANT_RULE } from '../client/admin/api-keys.ts'
import { SessionNotFoundError } from '../client/errors.ts'
import { checkOptions, options, where } from '../options/check.ts'
import { InvalidOptionError } from '../options/errors.ts'
import { areRoles, ROLES_RULE } from '../session/approvers.ts'
import type { Json, JsonObject } from '../session/json.ts'
import { ServiceError } from './errors.ts'

export type { Scope }

/** What `authorize` returns for a request. */
export interface Access {
  /** The caller, such as `user:ann`: recorded as `by` with every request. 1 to 200 characters. */
  identity: string
  /** What the caller may do. */
  scopes: readonly Scope[]
  /**
   * The caller's roles, for calls that only people with a role may approve or deny: at most 100, each 1 to 100 printable ASCII characters
   * without spaces. Default: none.
   */
  roles?: readonly string[]
  /**
   * The tenant whose sessions the caller sees and starts, such as `acme`: 1 to 100 of `[A-Za-z0-9._@-]`, or several parts joined by `:`,
   * such as `acme:ann`. Ids of its sessions begin with the tenant and `:`. Other sessions do not exist for the caller. If absent, the
   * caller sees all sessions; an explicit undefined is refused.
   */
  tenant?: string
  /**
   * Members of the context of sessions that the caller starts, such as `{ tenantId: 'acme' }`; a request cannot change them. Tools read a
   * session's context to know whom it is for, so set every member here that a tool trusts. At most 16,000 bytes of JSON. Default: none.
   */
  context?: JsonObject
}

/** Identifies the caller of a request. If it returns null or undefined, the caller is unknown, and the request is refused. */
export type Authorize = (request: Request) => Access | null | undefined | Promise<Access | null | undefined>

const ACCESS = options({
  identity: where<string>((value) => typeof value === 'string' && value !== '' && value.length <= 200, 'text of 1 to 200 characters'),
  scopes: z.array(z.enum(SCOPES)),
  roles: where<string[]>(areRoles, ROLES_RULE).optional(),
  // Without a tenant, the caller has access to all sessions, so a misspelt or undefined tenant is a mistake.
  tenant: z.exactOptional(where<string>(isTenant, TENANT_RULE)),
  context: where<JsonObject>(isForcedContext, 'an object of at most 16,000 bytes of JSON').optional(),
})

/**
 * Validates what `authorize` returned: a mistake in it must not grant access. The caller learns only that there is one; the cause, which
 * the handler logs, says which.
 * @throws ServiceError `invalid_access`, `unauthorized`.
 */
export function accessOf(returned: unknown): Access {
  if (returned === null || returned === undefined) throw unauthorized()
  return checkOptions(ACCESS, returned, (problem) => {
    const cause = new InvalidOptionError(`authorize returned an invalid access. ${problem}`)
    return new ServiceError('invalid_access', 500, 'authorize returned an invalid access. The server log says what is wrong.', {
      cause,
    })
  }) as Access
}

/** The caller is unknown. */
export function unauthorized(): ServiceError {
  return new ServiceError(
    'unauthorized',
    401,
    'The credentials are missing or unknown. Send valid ones, such as `Authorization: Bearer <key>`.',
    {
      headers: { 'www-authenticate': 'Bearer' },
    },
  )
}

/** Refuses what the scopes do not include. @throws ServiceError `forbidden`. */
export function requireScope({ scopes }: Access, scope: Scope): void {
  if (scopes.includes(scope)) return
  throw new ServiceError('forbidden', 403, `This needs the scope "${scope}", which these credentials do not have.`)
}

/** Refuses a caller with a tenant. `what`: what only operators see, as the subject of a sentence. @throws ServiceError `forbidden`. */
export function requireOperator({ tenant }: Access, what: string): void {
  if (tenant === undefined) return
  throw new ServiceError('forbidden', 403, `${what} are for credentials without a tenant.`)
}

/** A name for the caller, under which the server counts what the caller uses. */
export function callerOf({ tenant = '', identity }: Pick<Access, 'tenant' | 'identity'>): string {
  return `${tenant}\n${identity}`
}

/** The prefix of the ids of the caller's sessions; undefined if any id is allowed. */
export function prefixOf({ tenant }: Pick<Access, 'tenant'>): string | undefined {
  return tenant === undefined ? undefined : `${tenant}:`
}

/** Whether the session may exist for the caller. */
export function isInScope(access: Access, sessionId: string): boolean {
  return sessionId.startsWith(prefixOf(access) ?? '')
}

/** Refuses another tenant's session as if it did not exist. @throws SessionNotFoundError `session_not_found`. */
export function requireSession(access: Access, sessionId: string): void {
  if (!isInScope(access, sessionId)) throw new SessionNotFoundError(sessionId)
}

/**
 * Refuses an id for a new session that would belong to another tenant. Unlike a read, it says why, because that reveals nothing about other
 * sessions.
 * @throws ServiceError `invalid_input`.
 */
export function requireOwnId(access: Access, sessionId: string): void {
  if (isInScope(access, sessionId)) return
  const detail = `ids must begin with ${JSON.stringify(prefixOf(access))}, the prefix of these credentials' tenant`
  throw new ServiceError('invalid_input', 400, `body.id: ${detail}.`, { parts: [{ at: 'body.id', detail }] })
}

const TENANT_TAG = 'tenant:'

/**
 * The tags of a session that the caller starts: those of the request and one that names the tenant, which a request cannot set.
 * @throws ServiceError `invalid_input`.
 */
export function tagsFor({ tenant }: Access, given: readonly string[] | undefined): string[] | undefined {
  const wrong = tenant === undefined ? undefined : given?.find((tag) => tag.startsWith(TENANT_TAG))
  if (wrong !== undefined) {
    const detail = `tags that begin with "${TENANT_TAG}" are set by the server`
    throw new ServiceError('invalid_input', 400, `body.tags: ${detail}.`, { parts: [{ at: 'body.tags', detail }] })
  }
  if (tenant === undefined) return given && [...given]
  return [...(given ?? []), `${TENANT_TAG}${tenant}`]
}

/** The tags of a fork: those of the request, else those of its source, which already include the tenant's. */
export function tagsOfFork(access: Access, given: readonly string[] | undefined): string[] | undefined {
  return given && tagsFor(access, given)
}

/** The context of a session that the caller starts. @throws ServiceError `invalid_input`. */
export function contextFor({ context: forced }: Access, given: Json | undefined): Json | undefined {
  if (forced === undefined) return given
  if (given === undefined || given === null) return forced
  if (typeof given === 'object' && !Array.isArray(given)) return { ...given, ...forced }
  const detail = 'must be an object, because these credentials set some of its members'
  throw new ServiceError('invalid_input', 400, `body.context: ${detail}.`, { parts: [{ at: 'body.context', detail }] })
}
