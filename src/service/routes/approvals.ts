// Routes for standing approvals. A tenant's caller sees and revokes those that were given in the tenant's sessions.
import { z } from 'zod'
import { defined } from '../../session/defined.ts'
import { prefixOf } from '../access.ts'
import { route, typed } from '../route.ts'
import { named, sessionId, WHY } from '../schemas.ts'

export const APPROVAL_ROUTES = [
  route({
    method: 'get',
    path: '/v1/approval-rules',
    operation: 'listApprovalRules',
    summary: 'Standing approvals that hold, newest first.',
    tag: 'decisions',
    scope: 'read',
    query: z.strictObject({
      session: sessionId.optional().describe('Only those given in this session.'),
      agent: named.optional().describe('Only those for this agent.'),
      tool: named.optional().describe('Only those for this tool.'),
      all: z.boolean().optional().describe('Also those that were revoked or have ended.'),
      limit: z.int().min(1).max(1_000).optional().describe('Default 1,000.'),
    }),
    answer: typed('The standing approvals.'),
    handle: async ({ pawl, access, query }) => ({ items: await pawl.approvals.rules(defined({ ...query, idPrefix: prefixOf(access) })) }),
  }),
  route({
    method: 'post',
    path: '/v1/approval-rules/{rule}/revoke',
    operation: 'revokeApprovalRule',
    summary: 'Revoke a standing approval: later calls ask a person again.',
    tag: 'decisions',
    scope: 'approve',
    params: z.strictObject({ rule: z.string().min(1).max(100).describe('The id of the standing approval.') }),
    body: z.strictObject(WHY),
    answer: typed('The standing approval.'),
    handle: ({ pawl, access, by, params, body }) =>
      pawl.approvals.revoke(params.rule, { by, ...defined({ ...body, idPrefix: prefixOf(access) }) }),
  }),
]
