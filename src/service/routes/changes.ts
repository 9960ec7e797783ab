// Routes that change a session: decisions about its calls, and operators' actions. `by` is always the caller's identity.
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { defined } from '../../session/defined.ts'
import type { Json } from '../../session/json.ts'
import { prefixOf, requireOwnId, tagsOfFork } from '../access.ts'
import { forkIdOf } from '../../client/session/forking.ts'
import type { RecoverOptions, RollbackOptions } from '../../client/types.ts'
import { requireOwnFilesInResult } from '../provider-files.ts'
import { requestIdOf, REPEATABLE } from '../request-id.ts'
import { answerWith, MEMORY, route, type RouteCall, typed } from '../route.ts'
import { callId, json, messageId, note, OF_CALL, OF_SESSION, runNumber, sessionId, TARGET, WHY } from '../schemas.ts'

const why = z.strictObject(WHY)
const digest = z.string().min(1).max(200).describe('The digest of the arguments that the person has read, from the list of pending calls.')
const REMEMBER = z.strictObject({
  for: z
    .union([z.enum(['session', 'context']), z.strictObject({ context: z.array(z.string()).min(1).max(20) })])
    .describe(
      'This session, or sessions of the agent and the tenant with the same context, or with the same values in these members of it.',
    ),
  matching: z
    .union([
      z.enum(['tool', 'input']),
      z.record(
        z.string(),
        z.strictObject({
          max: z.number().optional(),
          min: z.number().optional(),
          equals: json.optional(),
          oneOf: z.array(json).optional(),
        }),
      ),
    ])
    .describe('All calls of the tool, those with the same arguments, or those whose arguments are within bounds, by JSON pointer.'),
  until: z.number().optional().describe('Until then, in milliseconds since 1970.'),
  uses: z.int().min(1).optional().describe('For so many calls.'),
})
const DONE = { status: 204, description: 'It is done.' } as const
const ACCEPTED = { status: 202, description: 'It is accepted.' } as const
const calls = z.array(callId).max(1_000).optional()
const seenSeq = z
  .int()
  .min(1)
  .optional()
  .describe('The newest event that the person has seen: refused with `session_moved` if a later one changes what this would do.')

const SEND = { method: 'post', tag: 'sessions', scope: 'send', params: OF_SESSION } as const
const OPERATE = { method: 'post', tag: 'operations', scope: 'operate', params: OF_SESSION } as const
const DECIDE = { method: 'post', tag: 'decisions', params: OF_CALL, headers: REPEATABLE } as const

type Caller = Pick<RouteCall<unknown, unknown, unknown>, 'access' | 'request' | 'by'>

/** Who makes the request, and its id if it has one. */
const saidIn = (call: Caller): { by: string; requestId?: string } => ({ by: call.by, ...requestIdOf(call) })
/** The same for a decision, which may need a role. */
const decidedIn = (call: Caller) => ({ ...saidIn(call), roles: call.access.roles ?? [] })

/** A fork's id; a repeated request gets the same one. */
function newForkId(call: Caller, session: string): string {
  const { requestId } = requestIdOf(call)
  return `${prefixOf(call.access) ?? ''}${requestId === undefined ? randomUUID() : forkIdOf(session, requestId)}`
}

export const CHANGE_ROUTES = [
  route({
    ...DECIDE,
    path: '/v1/sessions/{session}/calls/{call}/approve',
    operation: 'approveCall',
    summary: 'Approve a call that waits for approval, with the model’s arguments or with others.',
    scope: 'approve',
    body: z.strictObject({
      digest,
      note,
      input: json.optional().describe('Arguments to execute it with.'),
      remember: REMEMBER.optional().describe('Approves later calls of the tool, too, without asking.'),
    }),
    answer: typed('The digest of what is executed; with `remember`, the id of the rule, and other calls that it has approved.'),
    handle: ({ params, body, ...call }) =>
      call.session(params.session).approve(params.call, { ...defined(body), ...decidedIn(call), digest: body.digest } as never),
  }),
  route({
    ...DECIDE,
    path: '/v1/sessions/{session}/calls/{call}/deny',
    operation: 'denyCall',
    summary: 'Deny a call that waits for approval; the model is told, with the reason.',
    scope: 'approve',
    body: z.strictObject({ digest, note, reason: WHY.reason.describe('The reason; recorded, and shown to the model.') }),
    answer: DONE,
    handle: ({ params, body, ...call }) =>
      call.session(params.session).deny(params.call, { ...defined(body), ...decidedIn(call), digest: body.digest }),
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
    async handle({ params, body, ...call }) {
      requireOwnFilesInResult(call.access, body.result, 'body.result')
      await call
        .session(params.session)
        .answer(params.call, (body.result ?? null) as never, { ...saidIn(call), ...defined({ digest: body.digest }) })
    },
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
    async handle({ params, body, ...call }) {
      const { resolution, note: said } = body
      const happened = typeof resolution === 'object' && resolution.happened
      if (happened) requireOwnFilesInResult(call.access, resolution.result, 'body.resolution.result')
      const told = happened ? { happened, result: (resolution.result ?? null) as Json } : resolution
      return call.session(params.session).resolve(params.call, told as never, { ...saidIn(call), ...defined({ note: said }) })
    },
  }),
  route({
    ...SEND,
    path: '/v1/sessions/{session}/interrupt',
    operation: 'interruptSession',
    headers: REPEATABLE,
    summary: 'Stop the run in progress.',
    body: z.strictObject({
      run: runNumber.optional().describe('Only this run. Once it is over, nothing is stopped. Default: the one in progress.'),
      ...WHY,
    }),
    answer: ACCEPTED,
    handle: ({ params, body, ...call }) => call.session(params.session).interrupt({ ...saidIn(call), ...defined(body) }),
  }),
  route({
    ...SEND,
    path: '/v1/sessions/{session}/regenerate',
    operation: 'regenerate',
    headers: REPEATABLE,
    summary: 'Answer the newest run’s messages again; completed effects are not repeated.',
    body: z.strictObject({ seenSeq, ...WHY }),
    answer: typed('The message that is answered again.', 202),
    async handle({ params, body, ...call }) {
      return { messageId: (await call.session(params.session).regenerate({ ...saidIn(call), ...defined(body) })).messageId }
    },
  }),
  route({
    ...SEND,
    path: '/v1/sessions/{session}/close',
    operation: 'closeSession',
    headers: REPEATABLE,
    summary: 'Close the session once its run has ended. The next message that names the agent opens it again.',
    body: z.strictObject({
      unschedule: z.boolean().optional().describe('Takes back its scheduled messages first. Default false: it does not close with any.'),
    }),
    answer: ACCEPTED,
    handle: ({ params, body, ...call }) => call.session(params.session).close({ ...saidIn(call), ...defined(body) }),
  }),
  route({
    ...SEND,
    path: '/v1/sessions/{session}/messages/{message}/unschedule',
    operation: 'unscheduleMessage',
    params: z.strictObject({ session: sessionId, message: messageId }),
    headers: REPEATABLE,
    summary: 'Take back a message that the session would deliver later.',
    body: why,
    answer: DONE,
    handle: ({ params, body, ...call }) => call.session(params.session).unschedule(params.message, { ...saidIn(call), ...defined(body) }),
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
    headers: REPEATABLE,
    summary: 'Take a session out of `error`.',
    body: z.strictObject({
      strategy: z.enum(['continue_run', 'restart_run', 'restart_from_last_effect', 'selective', 'abandon']).optional(),
      keep: calls,
      skip: calls,
      redo: calls,
      force: z.boolean().optional().describe('Completed effects among `redo` may happen again.'),
      seenSeq,
      ...WHY,
    }),
    answer: DONE,
    handle: ({ params, body, ...call }) => call.session(params.session).recover({ ...defined(body), ...saidIn(call) } as RecoverOptions),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/rollback',
    operation: 'rollBackSession',
    headers: REPEATABLE,
    summary: 'Move the session back. Effects that completed cannot be undone and are reported.',
    body: z.strictObject({
      ...TARGET,
      keys: z
        .enum(['kept', 'forgotten'])
        .optional()
        .describe('`forgotten`: you have undone the effects outside of pawl, so they may happen again.'),
      seenSeq,
      ...WHY,
    }),
    answer: typed('The session’s new position, and the effects that were not undone.'),
    handle: ({ params, body, ...call }) => call.session(params.session).rollback({ ...defined(body), ...saidIn(call) } as RollbackOptions),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/fork',
    operation: 'forkSession',
    headers: REPEATABLE,
    summary: 'Make a new session from a point of this one’s past. Without a target, it begins at the session’s current state.',
    memory: MEMORY.chat,
    body: z.strictObject({
      ...TARGET,
      id: sessionId.optional(),
      keys: z.enum(['carried', 'forgotten']).optional(),
      interrupt: z.boolean().optional().describe('Whether a run in progress is interrupted first. Default true.'),
      seenSeq,
      tags: z.array(z.string()).max(100).optional(),
    }),
    answer: typed('The fork.', 201),
    async handle({ params, body, ...call }) {
      const { access } = call
      const source = call.session(params.session)
      const said = saidIn(call)
      const { id = newForkId(call, params.session), tags, ...rest } = body
      requireOwnId(access, id)
      const options = { ...defined({ ...rest, tags: tagsOfFork(access, tags) }), ...said, id }
      const fork = await source.fork(options)
      return answerWith({ sessionId: fork.id }, 201, {})
    },
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/pause',
    operation: 'pauseSession',
    headers: REPEATABLE,
    summary: 'Finish the step in progress, then start no other step.',
    body: why,
    answer: typed('When it was paused.'),
    handle: ({ params, body, ...call }) => call.session(params.session).pause({ ...saidIn(call), ...defined(body) }),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/unpause',
    operation: 'unpauseSession',
    headers: REPEATABLE,
    summary: 'Let a paused session continue.',
    body: why,
    answer: typed('It continues.'),
    handle: ({ params, body, ...call }) => call.session(params.session).unpause({ ...saidIn(call), ...defined(body) }),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/raise',
    operation: 'raiseLimits',
    headers: REPEATABLE,
    summary: 'Raise limits of the run or of the session; the numbers are the complete new limits.',
    body: z.strictObject({
      maxUsd: z.number().gt(0).max(1_000_000).optional(),
      maxTotalTokens: z.int().min(1).optional(),
      scope: z.enum(['run', 'session']).optional(),
      ...WHY,
    }),
    answer: typed('The limits are raised.'),
    handle: ({ params, body, ...call }) => call.session(params.session).raise({ ...defined(body), ...saidIn(call) }),
  }),
  route({
    ...OPERATE,
    path: '/v1/sessions/{session}/checkpoints',
    operation: 'makeCheckpoint',
    headers: REPEATABLE,
    summary: 'Make a checkpoint, now or when the turn in progress has closed.',
    body: z.strictObject({ reason: z.string().min(1).max(4_000) }),
    answer: typed('Its version, and whether it has been made.', 201),
    handle: async ({ params, body, ...call }) =>
      answerWith(await call.session(params.session).checkpoint(body.reason, saidIn(call)), 201, {}),
  }),
]
