// Routes for the workers of the deployment. They are an operator's: tenants share the workers, so their callers do not see them.
import { z } from 'zod'
import { requireOperator } from '../access.ts'
import { route, typed } from '../route.ts'

const OPERATE = { tag: 'operations', scope: 'operate' } as const

export const WORKER_ROUTES = [
  route({
    ...OPERATE,
    method: 'get',
    path: '/v1/workers',
    operation: 'getWorkers',
    summary: 'The worker processes, the tasks that wait for one, and the rate gates that are shut.',
    answer: typed('The workers.'),
    async handle({ pawl, access }) {
      requireOperator(access, 'Workers')
      return pawl.workers.report()
    },
  }),
  route({
    ...OPERATE,
    method: 'post',
    path: '/v1/workers/gates/open',
    operation: 'openGate',
    summary: 'Open the rate gate of an account on all workers, because its provider accepts calls again.',
    body: z.strictObject({ account: z.string().min(1).max(1_000).describe('The account, as `GET /v1/workers` names it.') }),
    answer: typed('Whether the gate was shut.'),
    async handle({ pawl, access, by, body }) {
      requireOperator(access, 'Rate gates')
      return { opened: await pawl.workers.openGate(body.account, { by }) }
    },
  }),
]
