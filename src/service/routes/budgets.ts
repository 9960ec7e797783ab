// Routes for budgets that sessions share. They are an operator's: a tenant's caller neither sees nor sets them.
import { z } from 'zod'
import { defined } from '../../session/defined.ts'
import { requireOperator } from '../access.ts'
import { route, typed } from '../route.ts'
import { named } from '../schemas.ts'

const BUDGET = { tag: 'operations', scope: 'operate' } as const

export const BUDGET_ROUTES = [
  route({
    ...BUDGET,
    method: 'get',
    path: '/v1/budgets',
    operation: 'listSharedBudgets',
    summary: 'Budgets that sessions share, with what is spent in the current period.',
    answer: typed('The budgets.'),
    async handle({ pawl, access }) {
      requireOperator(access, 'Shared budgets')
      return { items: await pawl.budgets.list() }
    },
  }),
  route({
    ...BUDGET,
    method: 'post',
    path: '/v1/budgets',
    operation: 'setSharedBudget',
    summary: 'Set the budget of a tag or an agent for each day or month. Replaces the earlier one.',
    body: z.strictObject({
      tag: named.optional().describe('Of sessions with this tag. Either `tag` or `agent`.'),
      agent: named.optional().describe('Of sessions of this agent.'),
      maxUsd: z.number().gt(0).max(1_000_000).describe('US dollars in each period.'),
      per: z.enum(['day', 'month']),
      timeZone: z.string().max(100).optional().describe('In which a day begins. Default UTC.'),
      onOutage: z.enum(['continue', 'stop']).optional().describe('While the side store is unavailable. Default `continue`.'),
    }),
    answer: typed('The budget.'),
    async handle({ pawl, access, by, body }) {
      requireOperator(access, 'Shared budgets')
      return pawl.budgets.set({ ...defined(body), maxUsd: body.maxUsd, per: body.per, by })
    },
  }),
  route({
    ...BUDGET,
    method: 'post',
    path: '/v1/budgets/{budget}/remove',
    operation: 'removeSharedBudget',
    summary: 'Remove a shared budget. One that is gone already is not an error.',
    params: z.strictObject({ budget: z.string().min(1).max(300).describe('The id of the budget.') }),
    answer: { status: 204, description: 'It is gone.' },
    async handle({ pawl, access, params }) {
      requireOperator(access, 'Shared budgets')
      await pawl.budgets.remove(params.budget)
    },
  }),
]
