// The members of requests and responses, as zod schemas: the handler checks requests with the schemas that the OpenAPI document shows.
import { z } from 'zod'
import { STATUSES } from '../client/queries/list-options.ts'

const MAX_TEXT = 4_000

/** Text of this form. Refusals give the rule in words: a client's developer should not have to read a regular expression. */
export function matching(pattern: RegExp, rule: string): z.ZodString {
  return z.string().regex(pattern, rule)
}

/** Ids are parts of paths: clients and proxies resolve `.` and `..`, however they are encoded, before they send a request. */
const IN_A_PATH = /^(\.{0,2}[^.]|\.{3})/

export const sessionId = matching(/^[A-Za-z0-9._:/@-]{1,200}$/, 'must be 1 to 200 of A-Z a-z 0-9 . _ : / @ -')
  .regex(IN_A_PATH, 'must not be . or .., which no path can contain')
  .describe("The session's id; percent-encode a slash.")
/** An agent's name. */
const agent = matching(/^[A-Za-z0-9._-]{1,100}$/, 'must be 1 to 100 of A-Z a-z 0-9 . _ -').describe("The agent's name.")
export const messageId = z
  .string()
  .min(1)
  .max(200)
  .regex(IN_A_PATH, 'must not be . or .., which no path can contain')
  .describe('Identifies the message: pawl accepts each id once. Default: the Idempotency-Key, else a new UUID.')
export const callId = z.string().min(1).max(200).describe("The call's id, such as t_1_2_0.")
const A_DURATION = "must be a number of milliseconds, or a number with the unit ms, s, m, h or d, such as '30s'"
export const duration = z
  .union([z.int().min(1), matching(/^\d{1,9}(\.\d{1,3})?(ms|s|m|h|d)$/, A_DURATION)], { error: A_DURATION })
  .describe("Milliseconds, or text with a unit, such as '30s'.")
/** Any JSON. */
export const json = z.unknown()
const reason = z.string().max(MAX_TEXT).optional().describe('The reason; recorded.')
export const note = z.string().max(MAX_TEXT).optional().describe('A note; recorded.')

const text = z.strictObject({ type: z.literal('text'), text: z.string() })
const image = z.strictObject({
  type: z.literal('image'),
  source: z.discriminatedUnion('type', [
    z.strictObject({
      type: z.literal('base64'),
      media_type: z.enum(['image/jpeg', 'image/png', 'image/gif', 'image/webp']),
      data: matching(/^[A-Za-z0-9+/]+={0,2}$/, 'must be base64'),
    }),
    z.strictObject({ type: z.literal('url'), url: matching(/^https?:\/\/\S+$/, 'must be an http or https address') }),
  ]),
})
const document = z.strictObject({
  type: z.literal('document'),
  source: z.discriminatedUnion('type', [
    z.strictObject({
      type: z.literal('base64'),
      media_type: z.enum(['application/pdf']),
      data: z.string().min(1).describe('The PDF in base64.'),
    }),
    z.strictObject({ type: z.literal('text'), media_type: z.enum(['text/plain']), data: z.string() }),
    z.strictObject({ type: z.literal('url'), url: matching(/^https?:\/\/\S+$/, 'must be an http or https address') }),
    z.strictObject({ type: z.literal('file'), file_id: z.string().min(1).max(200).describe("The id that the model's provider gave it.") }),
  ]),
  title: z.string().max(500).optional().describe('Its name, which the model sees.'),
  context: z.string().max(MAX_TEXT).optional().describe('What the model should know about it.'),
  citations: z.strictObject({ enabled: z.boolean() }).optional().describe('Whether Claude may cite it.'),
})
/** A user's text, images and documents. */
const content = z
  .union(
    [matching(/\S/, 'must not be empty'), z.array(z.discriminatedUnion('type', [text, image, document])).min(1, 'must not be empty')],
    { error: 'must be text, or a list of blocks of text, images and documents' },
  )
  .describe('Text, or blocks of text, images and documents.')

/** The members of a message. */
export const MESSAGE = {
  content,
  messageId: messageId.optional(),
  metadata: z
    .record(z.string(), z.unknown())
    .optional()
    .describe("The run's tools receive it as `ctx.metadata`: at most 16,000 bytes of JSON."),
  deadline: duration.optional().describe('How long the answer may take, at most 24 days.'),
  interrupt: z
    .boolean()
    .optional()
    .describe('Interrupts the run in progress; the message opens the next one. Default false: it joins the run.'),
}

/** When a message is delivered; not for the routes of chat pages. */
export const LATER = {
  at: z.iso
    .datetime({ offset: true })
    .optional()
    .describe('When the message is delivered, with the offset, at most ten years ahead. Default: at once. Excludes `delay`.'),
  delay: duration.optional().describe('How long from now the message is delivered, at most ten years. Default: at once. Excludes `at`.'),
}

/** The members that open a session. */
export const OPENING = {
  agent,
  context: json.optional().describe('Who the session is for; used when the session starts.'),
  tags: z.array(z.string()).max(100).optional().describe('Tags to filter lists by; used when the session starts.'),
  idleTimeout: duration.optional().describe('How long the session stays open without a message, at most 24 days. Default 24h.'),
}

/** The priority of the session's steps over those of other sessions; not for the routes of chat pages. */
export const STEPS = {
  priority: z
    .strictObject({
      priorityKey: z.int().min(1).max(2_147_483_647).optional().describe('Smaller numbers come first. Default 3.'),
      fairnessKey: z.string().max(64).optional().describe('Keys share the workers in proportion to their weights. Default: none.'),
      fairnessWeight: z.number().min(0.001).max(1_000).optional().describe("The key's share. Default 1."),
    })
    .optional()
    .describe("Temporal's priority and fairness; used when the session starts. Needs the scope `operate`."),
  heartbeatTimeout: duration
    .optional()
    .describe(
      'How long after its last heartbeat a call counts as lost, from 10 seconds to 5 minutes; used when the session starts. Default 10s. Needs the scope `operate`.',
    ),
}

/** A header that makes a repeated request harmless. */
export const IDEMPOTENCY = {
  'Idempotency-Key': messageId
    .optional()
    .describe(
      'The message’s id, or that of what is created: pawl accepts each key once, however often a client repeats the request, and refuses it with 422 with other content.',
    ),
}

/** A run; the maximum is that of a column in Postgres. */
export const runNumber = z.int().min(1).max(2_147_483_647)

/** The reason for a request; the caller's identity is known. */
export const WHY = { reason }

/** One point of a session's past. */
export const TARGET = {
  checkpoint: z.int().min(1).optional().describe('The version of a checkpoint.'),
  message: z.string().min(1).max(200).optional().describe('Just before this message was accepted.'),
  run: z.int().min(1).optional().describe('Just before this run began.'),
}

/** The parameters of a path that names a session. */
export const OF_SESSION = z.strictObject({ session: sessionId })
/** The parameters of a path that names a call. */
export const OF_CALL = z.strictObject({ session: sessionId, call: callId })

const moment = z.string().min(1).max(40).describe('ISO text, such as 2026-11-21T12:00:00Z.')
/** A span of time. */
export const SPAN = { since: moment.optional().describe('From then on.'), until: moment.optional().describe('Before then.') }
/** A page of a list. */
export const PAGE = {
  limit: z.int().min(1).max(1_000).optional().describe('Items per page. Default 50. A page of large items has fewer.'),
  cursor: z.string().min(1).max(2_000).optional().describe('The cursor of the previous page; keep the other parameters the same.'),
}
/** A filter by a name. */
export const named = z.string().min(1).max(200)
/** The newest event that a client has. */
export const after = z.int().min(0).max(Number.MAX_SAFE_INTEGER).optional().describe('`seq` of the last event that you have. Default 0.')

// Responses. Their types are in answers.ts.

export const STATUS = z.enum(STATUSES)

/**
 * The schema of each event of a stream with these types. OpenAPI 3.1 cannot describe streams, so the schema follows the convention of its
 * readers: it describes one event as a client of the stream receives it.
 */
export function streamOf(types: readonly [string, ...string[]]): z.ZodType {
  return z.object({
    event: z.enum([...types, 'end']),
    data: z
      .string()
      .meta({ description: 'JSON; for `end`, a problem that says why the stream ends.', contentMediaType: 'application/json' }),
    id: z.string().optional().describe('The id to resume the stream after.'),
    retry: z.int().min(0).optional().describe('Milliseconds to wait before the next connection.'),
  })
}
