// Routes that change a session: decisions about its calls, and operators' actions. `by` is always the caller's identity.
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { defined } from '../../session/defined.ts'
import type { Json } from '../../session/json.ts'
import { prefixOf, requireOwnId, tagsOfFork } from '../access.ts'
import type { RecoverOptions, RollbackOptions } from '../../client/types.ts'
import { answerWith, MEMORY, route, typed } from '../route.ts'
import { callId, json, note, OF_CALL, OF_SESSION, sessionId, TARGET, WHY } from '../schemas.ts'

const why = z.strictObject(WHY)
const digest = z.string().min(1).max(200).describe('The digest of the arguments that the person has read, from the list of pending calls.')
const DONE = { status: 204, description: 'It is done.' } as const
const ACCEPTED = { status: 202, description: 'It is accepted.' } as const
const calls = z.array(callId).max(1_000).optional()

const SEND = { method: 'post', tag: 'sessions', scope: 'send', params: OF_SESSION } as const
const OPERATE = { method: 'post', tag: 'operations', scope: 'operate', params: OF_SESSION } as const
const DECIDE = { method: 'post', tag: 'decisions', params: OF_CALL } as const

export const CHANGE_ROUTES = [
  route({
    ...DECIDE,
    path: '/v1/sessions/{session}/calls/{call}/approve',
    operation: 'approveCall',
    summary: 'Approve a call that waits for approval, with the model’s arguments or with others.',
    scope: 'approve',
    body: z.strictObject({ digest, note, input: json.optional().describe('Arguments to execute it with.') }),
    answer: typed('The digest of what is executed.'),
    handle: ({ session, params, body, by }) =>
      session(params.session).approve(params.call, { ...defined(body), digest: body.digest, by } as never),
  }),
  route({
    ...DECIDE,
    path: '/v1/sessions/{session}/calls/{call}/deny',
    operation: 'denyCall',
    summary: 'Deny a call that waits for approval; the model is told, with the reason.',
    scope: 'approve',
    body: z.strictObject({ digest, note, reason: WHY.reason.describe('The reason; recorded, and shown to the model.') }),
    answer: DONE,
    handle: ({ session, params, body, by }) => session(params.session).deny(params.call, { ...defined(body), digest: body.digest, by }),
  }),
  route({
    ...DECIDE,
    path: '/v1/sessions/{session}/calls/{call}/answer',
    operation: 'answerCall',
    summary: 'Answer a call of a client tool, or the question of another call.',
    scope: 'send',
    body: z.strictObject({
      result: json.describe(
        'What the tool’s `output` schema accepts; for a question: `{"action": "accept", "content": …}`, `{"action": "decline"}` or `{"action": "cancel"}`.',
      ),
      digest: z.string().optional().describe('The digest of the question; if the call asks another one by now, the answer is refused.'),
    }),
    answer: DONE,
    handle: ({ session, params, body, by }) =>
      session(params.session).answer(params.call, (body.result ?? null) as never, { by, ...defined({ digest: body.digest }) }),
  }),
  route({
    ...DECIDE,
    path: '/v1/sessions/{session}/calls/{call}/resolve',
    operation: 'resolveCall',
    summary: 'Resolve the unknown outcome of a call.',
    scope: 'operate',
    body: z.strictObject({
      resolution: z.union([
        z.strictObject({ happened: z.literal(true), result: json }),
        z.strictObject({ happened: z.literal(false) }),
        z.enum(['retry', 'skip']),
      ]),
      note,
    }),
    answer: DONE,
    handle({ session, params, body, by }) {
      const { resolution, note: said } = body
      const happened = typeof resolution === 'object' && resolution.happened
      const told = happened ? { happened, result: (resolution.result ?? null) as Json } : resolution
      return session(params.session).resolve(params.call, told as never, { by, ...defined({ note: said }) })
    },
  }),
  route({
    ...SEND,
    path: '/v1/sessions/{session}/interrupt',
    operation: 'interruptSession',
    summary: 'Stop the run in progress.',
    body: why,
    answer: ACCEPTED,
    handle: ({ session, params, body, by }) => session(params.session).interrupt({ by, ...defined(body) }),
  }),
  route({
    ...SEND,
    path: '/v1/sessions/{session}/regenerate',
    operation: 'regenerate',
    summary: 'Answer the newest run’s messages again; completed effects are not repeated.',
    body: why,
    answer: typed('The message that is answered again.', 202),
    async handle({ session, params, body, by }) {
      return { messageId: (await session(params.session).regenerate({ by, ...defined(body) })).messageId }
    },
  }),
  route({
    ...SEND,
    path: '/v1/sessions/{session}/close',
    operation: 'closeSession',
    summary: 'Close the session once its run has ended. The next message that names the agent opens it again.',
    answer: ACCEPTED,
    handle: ({ session, params, by }) => session(params.session).close({ by }),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/resume',
    operation: 'resumeSession',
    summary: 'Reopen a session whose workflow has closed.',
    answer: typed('The state of the session.'),
    handle: ({ session, params }) => session(params.session).resume(),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/recover',
    operation: 'recoverSession',
    summary: 'Take a session out of `error`.',
    body: z.strictObject({
      strategy: z.enum(['continue_run', 'restart_run', 'restart_from_last_effect', 'selective', 'abandon']).optional(),
      keep: calls,
      skip: calls,
      redo: calls,
      force: z.boolean().optional().describe('Completed effects among `redo` may happen again.'),
      ...WHY,
    }),
    answer: DONE,
    handle: ({ session, params, body, by }) => session(params.session).recover({ ...defined(body), by } as RecoverOptions),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/rollback',
    operation: 'rollBackSession',
    summary: 'Move the session back. Effects that completed cannot be undone and are reported.',
    body: z.strictObject({
      ...TARGET,
      keys: z
        .enum(['kept', 'forgotten'])
        .optional()
        .describe('`forgotten`: you have undone the effects outside of pawl, so they may happen again.'),
      ...WHY,
    }),
    answer: typed('The session’s new position, and the effects that were not undone.'),
    handle: ({ session, params, body, by }) => session(params.session).rollback({ ...defined(body), by } as RollbackOptions),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/fork',
    operation: 'forkSession',
    summary: 'Make a new session from a point of this one’s past. Without a target, it begins at the session’s current state.',
    memory: MEMORY.chat,
    body: z.strictObject({
      ...TARGET,
      id: sessionId.optional(),
      keys: z.enum(['carried', 'forgotten']).optional(),
      interrupt: z.boolean().optional().describe('Whether a run in progress is interrupted first. Default true.'),
      tags: z.array(z.string()).max(100).optional(),
    }),
    answer: typed('The fork.', 201),
    async handle({ session, params, body, by, access }) {
      const source = session(params.session)
      const { id = `${prefixOf(access) ?? ''}${randomUUID()}`, tags, ...rest } = body
      requireOwnId(access, id)
      const fork = await source.fork({ ...defined({ ...rest, tags: tagsOfFork(access, tags) }), id, by })
      return answerWith({ sessionId: fork.id }, 201, {})
    },
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/pause',
    operation: 'pauseSession',
    summary: 'Finish the step in progress, then start no other step.',
    body: why,
    answer: typed('When it was paused.'),
    handle: ({ session, params, body, by }) => session(params.session).pause({ by, ...defined(body) }),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/unpause',
    operation: 'unpauseSession',
    summary: 'Let a paused session continue.',
    body: why,
    answer: typed('It continues.'),
    handle: ({ session, params, body, by }) => session(params.session).unpause({ by, ...defined(body) }),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/raise',
    operation: 'raiseLimits',
    summary: 'Raise limits of the run or of the session; the numbers are the complete new limits.',
    body: z.strictObject({
      maxUsd: z.number().gt(0).max(1_000_000).optional(),
      maxTotalTokens: z.int().min(1).optional(),
      scope: z.enum(['run', 'session']).optional(),
      ...WHY,
    }),
    answer: typed('The limits are raised.'),
    handle: ({ session, params, body, by }) => session(params.session).raise({ ...defined(body), by }),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/checkpoints',
    operation: 'makeCheckpoint',
    summary: 'Make a checkpoint, now or when the turn in progress has closed.',
    body: z.strictObject({ reason: z.string().min(1).max(4_000) }),
    answer: typed('Its version, and whether it has been made.', 201),
    handle: async ({ session, params, body, by }) => answerWith(await session(params.session).checkpoint(body.reason, { by }), 201, {}),
  }),
]
