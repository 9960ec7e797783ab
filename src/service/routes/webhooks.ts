// Routes for webhooks. A tenant's operator sees and makes only those of the tenant's sessions.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Webhook } from '../../client/admin/webhooks.ts'
import type { Pawl } from '../../client/pawl.ts'
import { defined } from '../../session/defined.ts'
import { NOTIFICATION_TYPES } from '../../session/notifications.ts'
import { type Access, prefixOf } from '../access.ts'
import { ServiceError } from '../errors.ts'
import { route, typed } from '../route.ts'
import { IDEMPOTENCY, messageId, named, sessionId } from '../schemas.ts'

const OF_WEBHOOK = z.strictObject({ webhook: z.string().min(1).max(100).describe('The id of the webhook.') })
const CHANGE = { method: 'post', tag: 'webhooks', scope: 'operate', params: OF_WEBHOOK } as const
const READ = { method: 'get', tag: 'webhooks', scope: 'operate' } as const

export const WEBHOOK_ROUTES = [
  route({
    method: 'post',
    path: '/v1/webhooks',
    operation: 'createWebhook',
    summary: 'Create a webhook: an address that gets a signed request for waiting calls, errors, finished runs and budgets.',
    tag: 'webhooks',
    scope: 'operate',
    headers: IDEMPOTENCY,
    body: z.strictObject({
      url: z.string().min(1).max(2_000).describe('Where requests are sent.'),
      types: z.array(z.enum(NOTIFICATION_TYPES)).min(1).optional().describe('What to notify of. Default: everything.'),
      agent: named.optional().describe('Only sessions of this agent.'),
      idPrefix: z.string().min(1).max(200).optional().describe('Only sessions whose ids begin with this.'),
      content: z.boolean().optional().describe('Whether requests contain texts of users, models and tools. Default false.'),
    }),
    answer: { status: 201, description: 'The webhook, with its secret, which is shown only once.', schema: 'typed' },
    async handle({ pawl, access, request, by, body }) {
      const idPrefix = prefixFor(access, body.idPrefix)
      const id = idOf(access, by, request)
      await requireRoom(pawl, access, id)
      return pawl.webhooks.create({ ...defined({ ...body, idPrefix, id }), url: body.url, by })
    },
  }),
  route({
    ...READ,
    path: '/v1/webhooks',
    operation: 'listWebhooks',
    summary: 'Webhooks, oldest first, without their secrets.',
    answer: typed('The webhooks.'),
    handle: async ({ pawl, access }) => ({ items: await visible(pawl, access) }),
  }),
  route({
    ...READ,
    path: '/v1/webhook-deliveries',
    operation: 'listWebhookDeliveries',
    summary: 'Notifications that their targets have not accepted, in the order in which they were queued.',
    query: z.strictObject({
      webhook: z.string().min(1).max(100).optional().describe('Only those of this webhook.'),
      givenUp: z.boolean().optional().describe('Only those that were given up, or only those that wait.'),
      limit: z.int().min(1).max(1_000).optional().describe('Default 50.'),
    }),
    answer: typed('The notifications.'),
    handle: async ({ pawl, access, query }) => ({
      items: await pawl.webhooks.deliveries(defined({ ...query, idPrefix: prefixOf(access) })),
    }),
  }),
  route({
    ...CHANGE,
    path: '/v1/webhooks/{webhook}/pause',
    operation: 'pauseWebhook',
    summary: 'Send nothing until it is resumed; what happens meanwhile waits.',
    answer: typed('The webhook.'),
    handle: async ({ pawl, access, params, by }) => pawl.webhooks.pause(await own(pawl, access, params.webhook), { by }),
  }),
  route({
    ...CHANGE,
    path: '/v1/webhooks/{webhook}/resume',
    operation: 'resumeWebhook',
    summary: 'Send again, beginning with what waits.',
    answer: typed('The webhook.'),
    handle: async ({ pawl, access, params }) => pawl.webhooks.resume(await own(pawl, access, params.webhook)),
  }),
  route({
    ...CHANGE,
    path: '/v1/webhooks/{webhook}/remove',
    operation: 'removeWebhook',
    summary: 'Remove it with everything that it has not sent. A webhook that is gone already is not an error.',
    answer: { status: 204, description: 'It is gone.' },
    async handle({ pawl, access, params }) {
      if ((await visible(pawl, access)).some(({ id }) => id === params.webhook)) await pawl.webhooks.remove(params.webhook)
    },
  }),
  route({
    ...CHANGE,
    path: '/v1/webhooks/{webhook}/redeliver',
    operation: 'redeliver',
    summary: 'Send notifications again that were given up.',
    body: z.strictObject({ session: sessionId.optional().describe('Only those of this session.') }),
    answer: typed('How many are sent again.'),
    handle: async ({ pawl, access, params, body }) => ({
      count: await pawl.webhooks.redeliver(await own(pawl, access, params.webhook), defined(body)),
    }),
  }),
]

/** @throws ServiceError `invalid_input`. */
function prefixFor(access: Access, given: string | undefined): string | undefined {
  const prefix = prefixOf(access)
  if (prefix === undefined || given === undefined || given.startsWith(prefix)) return given ?? prefix
  const detail = `must begin with ${JSON.stringify(prefix)}, the prefix of these credentials' tenant`
  throw new ServiceError('invalid_input', 400, `body.idPrefix: ${detail}.`, { parts: [{ at: 'body.idPrefix', detail }] })
}

/** Each worker does some work for each webhook, also for one that has nothing to send: a tenant must not cost the others much of it. */
const MAX_OF_TENANT = 100

/** @throws ServiceError `too_many_webhooks`. `id`: a webhook that exists already needs no room. */
async function requireRoom(pawl: Pawl, access: Access, id: string | undefined): Promise<void> {
  if (access.tenant === undefined) return
  const own = await visible(pawl, access)
  if (own.length < MAX_OF_TENANT || own.some((webhook) => webhook.id === id)) return
  throw new ServiceError('too_many_webhooks', 409, `A tenant has at most ${MAX_OF_TENANT} webhooks. Remove one that is not needed.`)
}

/** Those of the caller's tenant. Others are not read, because their pending notifications are counted, too. */
function visible(pawl: Pawl, access: Access): Promise<Webhook[]> {
  return pawl.webhooks.list(defined({ idPrefix: prefixOf(access) }))
}

/** The id, if the caller may change the webhook. @throws ServiceError `webhook_not_found`. */
async function own(pawl: Pawl, access: Access, id: string): Promise<string> {
  if ((await visible(pawl, access)).some((webhook) => webhook.id === id)) return id
  throw new ServiceError('webhook_not_found', 404, `There is no webhook ${JSON.stringify(id)}.`)
}

/** Long enough that nobody finds a key with which to get another's webhook, whose secret is in the answer. */
const ID_DIGITS = 40

/** A repeated request gets the webhook that the first one has made. @throws ServiceError `invalid_input`. */
function idOf(access: Access, by: string, request: Request): string | undefined {
  const key = request.headers.get('idempotency-key')
  if (key === null) return undefined
  if (messageId.safeParse(key).success) {
    return `wh_${createHash('sha256')
      .update(`${prefixOf(access) ?? ''}\n${by}\n${key}`)
      .digest('hex')
      .slice(0, ID_DIGITS)}`
  }
  const detail = 'must have 1 to 200 characters'
  throw new ServiceError('invalid_input', 400, `Idempotency-Key ${detail}.`, { parts: [{ at: 'header.Idempotency-Key', detail }] })
}
