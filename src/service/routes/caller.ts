// Who the caller is, so that a page can show what its visitor may do.
import { route, typed } from '../route.ts'

export const CALLER_ROUTES = [
  route({
    method: 'get',
    path: '/v1/caller',
    operation: 'getCaller',
    summary: 'The caller, as these credentials identify it.',
    tag: 'lists',
    scope: 'read',
    answer: typed('The caller.'),
    handle: async ({ access: { identity, scopes, roles = [], tenant } }) => ({ identity, scopes, roles, tenant: tenant ?? null }),
  }),
]
