// Who may decide about a call: the people with a role.
import type { Approvers } from './call-facts.ts'
import { isObject } from './json.ts'

const ROLE = /^[\x21-\x7e]{1,100}$/

/** How many roles one person may have. */
export const MAX_ROLES = 100
/** What a role must be. */
const ROLE_RULE = 'a role of 1 to 100 printable ASCII characters without spaces'
/** What approvers must be. */
export const APPROVERS_RULE = `an object such as { role: 'finance' }, with ${ROLE_RULE}`

/** Whether a value can be a role. */
export function isRole(role: unknown): role is string {
  return typeof role === 'string' && ROLE.test(role)
}

/** What roles must be. */
export const ROLES_RULE = `a list of at most ${MAX_ROLES} roles, each ${ROLE_RULE}`

/** Whether a value can be the roles of a person. */
export function areRoles(roles: unknown): roles is string[] {
  return Array.isArray(roles) && roles.length <= MAX_ROLES && roles.every(isRole)
}

/** Whether a value names approvers. */
export function isApprovers(value: unknown): value is Approvers {
  return isObject(value) && isRole(value.role) && Object.keys(value).length === 1
}

/** Whether a person with these roles may decide. `roles` come from a client, and may be anything. */
export function mayDecide(approvers: Approvers | undefined, roles: unknown): boolean {
  return approvers === undefined || (Array.isArray(roles) && roles.includes(approvers.role))
}
