// Routes for schedules. A caller of a tenant sees and changes only those whose ids begin with the tenant's prefix, as with sessions.
import { z } from 'zod'
import type { NewSchedule } from '../../client/admin/schedules.ts'
import { RequestRefusedError } from '../../client/errors.ts'
import { defined } from '../../session/defined.ts'
import type { Json } from '../../session/json.ts'
import { type Access, contextFor, isInScope, prefixOf, requireOwnId, tagsFor } from '../access.ts'
import { ServiceError } from '../errors.ts'
import { requireOwnFiles } from '../provider-files.ts'
import { KEY, requestIdOf } from '../request-id.ts'
import { route, type RouteCall, typed } from '../route.ts'
import { duration, json, MESSAGE, OPENING, PAGE, sessionId, WHY } from '../schemas.ts'

const scheduleId = sessionId.max(170).describe('The id of the schedule.')
const OF_SCHEDULE = z.strictObject({ schedule: scheduleId })
const READ = { method: 'get', tag: 'schedules', scope: 'read' } as const
const CHANGE = { method: 'post', tag: 'schedules', scope: 'operate', params: OF_SCHEDULE } as const
/** A session is not asked, so what remembers the key is the schedule in Temporal. */
const ONCE = {
  'Idempotency-Key': KEY.optional().describe('Identifies the request: repeated with the same key, it starts nothing more.'),
}
const why = z.strictObject(WHY)
const DONE = { status: 204, description: 'It is done.' } as const

const create = z.strictObject({
  id: scheduleId,
  agent: OPENING.agent,
  message: MESSAGE.content,
  every: duration.optional().describe('A fixed interval from one second to one year, counted from 1970.'),
  cron: z
    .union([z.string().max(200), z.array(z.string().max(200)).min(1).max(20)])
    .optional()
    .describe('Cron expressions.'),
  calendar: z
    .union([z.record(z.string(), json), z.array(z.record(z.string(), json)).min(1).max(20)])
    .optional()
    .describe('Times that match.'),
  timeZone: z.string().max(100).optional().describe('The IANA time zone of `cron` and `calendar`. Default UTC.'),
  session: sessionId.optional().describe('The session that gets the messages. Default `new`: each occurrence has its own.'),
  overlap: z.enum(['queue', 'skip', 'interrupt']).optional().describe('What an occurrence does while its session is busy. Default queue.'),
  catchUp: duration.optional().describe('How late an occurrence may be started after an outage of Temporal. Default 5m.'),
  deadline: MESSAGE.deadline,
  metadata: MESSAGE.metadata,
  context: OPENING.context,
  tags: OPENING.tags,
  paused: z.boolean().optional().describe('Whether it begins paused. Default false.'),
})

export const SCHEDULE_ROUTES = [
  route({
    method: 'post',
    path: '/v1/schedules',
    operation: 'createSchedule',
    summary: 'Create a schedule: each occurrence sends a message to a session, once.',
    tag: 'schedules',
    scope: 'operate',
    body: create,
    answer: typed('The schedule.', 201),
    async handle(call) {
      const { pawl, access, by, body } = call
      requireOwnId(access, body.id)
      if (body.session !== undefined && body.session !== 'new') requireOwnId(access, body.session)
      requireAgent(call, body.agent)
      requireOwnFiles(access, body.message, 'body.message')
      const { context, tags, ...rest } = body
      const opening = { context: contextFor(access, context as Json | undefined), tags: tagsFor(access, tags) }
      return pawl.schedules.create({ ...defined({ ...rest, ...opening }), by } as NewSchedule)
    },
  }),
  route({
    ...READ,
    path: '/v1/schedules',
    operation: 'listSchedules',
    summary: 'Schedules by id; a new one may be missing for a second.',
    query: z.strictObject(PAGE),
    answer: typed('A page of schedules.'),
    handle: async ({ pawl, access, query }) => pawl.schedules.list(defined({ ...query, idPrefix: prefixOf(access) })),
  }),
  route({
    ...READ,
    path: '/v1/schedules/{schedule}',
    operation: 'getSchedule',
    summary: 'A schedule, with its next times and its newest occurrences.',
    params: OF_SCHEDULE,
    answer: typed('The schedule.'),
    handle: async ({ pawl, access, params }) => pawl.schedules.get(own(access, params.schedule)),
  }),
  route({
    ...CHANGE,
    path: '/v1/schedules/{schedule}/pause',
    operation: 'pauseSchedule',
    summary: 'Start nothing until it is unpaused; what would have been due meanwhile is not made up for.',
    body: why,
    answer: DONE,
    handle: async ({ pawl, access, params, body, by }) => pawl.schedules.pause(own(access, params.schedule), { ...defined(body), by }),
  }),
  route({
    ...CHANGE,
    path: '/v1/schedules/{schedule}/unpause',
    operation: 'unpauseSchedule',
    summary: 'Let it continue with its next time.',
    body: why,
    answer: DONE,
    handle: async ({ pawl, access, params, body, by }) => pawl.schedules.unpause(own(access, params.schedule), { ...defined(body), by }),
  }),
  route({
    ...CHANGE,
    path: '/v1/schedules/{schedule}/trigger',
    operation: 'triggerSchedule',
    summary: 'Start an occurrence now. Two within one second count as one.',
    headers: ONCE,
    answer: DONE,
    handle: async (call) => call.pawl.schedules.trigger(own(call.access, call.params.schedule), requestIdOf(call)),
  }),
  route({
    ...CHANGE,
    path: '/v1/schedules/{schedule}/delete',
    operation: 'deleteSchedule',
    summary: 'Delete it. Sessions and their messages stay.',
    answer: DONE,
    handle: async ({ pawl, access, params }) => pawl.schedules.delete(own(access, params.schedule)),
  }),
]

/** The id, if the caller may see the schedule: one of another tenant does not exist for it. @throws RequestRefusedError. */
function own(access: Access, id: string): string {
  if (isInScope(access, id)) return id
  throw new RequestRefusedError('schedule_not_found', `There is no schedule ${JSON.stringify(id)}. Check its id.`)
}

function requireAgent({ agents }: RouteCall<unknown, unknown, unknown>, agent: string): void {
  if (!agents || agents.includes(agent)) return
  const detail = `the agent ${JSON.stringify(agent)} is not available here: choose from ${agents.join(', ')}`
  throw new ServiceError('unknown_agent', 400, `body.agent: ${detail}.`, { parts: [{ at: 'body.agent', detail }] })
}
