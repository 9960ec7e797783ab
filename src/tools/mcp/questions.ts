// What a server of protocol 2026-07-28 asks for during a call: questions to the user, checked before anybody sees them.
import { setTimeout as sleep } from 'node:timers/promises'
import type { CallToolResult, InputRequiredResult } from '@modelcontextprotocol/client'
import { AsksUser } from '../../agent/asking.ts'
import { ToolError } from '../../agent/errors.ts'
import { beginningOf } from '../../session/beginning.ts'
import { isObject, type Json, jsonBytes, type JsonObject } from '../../session/json.ts'
import { numberText } from '../../session/number-text.ts'
import type { CallQuestion, UserReplies } from '../../session/question-facts.ts'
import { type PendingReplies, SIGN_IN_ID } from './auth.ts'

/** Each request for answers starts another attempt, so a server that is never satisfied must not ask for ever. */
const MAX_ROUNDS = 20
/** A server that is busy may ask for the same request again, without a question. */
const MAX_DELAYS = 20
const DELAY_MS = 250
const MAX_QUESTIONS = 10
/** The questions and the server's state are in the session's history, and in each attempt that follows. */
const MAX_BYTES = 100_000
const MAX_MESSAGE = 4_000
const MAX_FIELDS = 50
const MAX_URL = 2_000

/**
 * The server's result, once it asks for nothing more. Repeats requests that the server only delays.
 * @throws AsksUser if the user must answer first; ToolError `mcp_input_required`, `mcp_invalid_question`.
 */
export async function completed(
  server: string,
  ask: (replies: UserReplies | undefined) => Promise<CallToolResult | InputRequiredResult>,
  { forServer, rounds }: PendingReplies,
  signal: AbortSignal,
): Promise<CallToolResult> {
  let given = forServer
  for (let delays = 0; ; delays++) {
    const answer = await ask(given)
    if (!isInputRequired(answer)) return answer
    const { inputRequests = {}, requestState: state } = answer
    const requests = Object.entries(inputRequests)
    if (requests.length > 0) throw asking(server, requests, state, rounds)
    if (delays >= MAX_DELAYS) throw refused(server, `has delayed the call ${MAX_DELAYS} times without an answer`)
    // The next request repeats what the server sent last.
    given = { replies: {}, rounds, ...(state !== undefined && { state }) }
    await sleep(DELAY_MS, undefined, { signal })
  }
}

const isInputRequired = (answer: CallToolResult | InputRequiredResult): answer is InputRequiredResult =>
  (answer as { resultType?: unknown } | null)?.resultType === 'input_required'

function asking(server: string, requests: readonly [string, unknown][], state: string | undefined, rounds: number): Error {
  if (rounds >= MAX_ROUNDS) return refused(server, `has already asked ${MAX_ROUNDS} times during this call`)
  if (requests.length > MAX_QUESTIONS)
    return invalid(server, `it asks ${numberText(requests.length)} questions at once, and the limit is ${MAX_QUESTIONS}`)
  try {
    const questions = requests.map(([id, request]) => questionOf(server, id, request))
    const bytes = jsonBytes(questions as unknown as Json) + (state?.length ?? 0)
    if (bytes > MAX_BYTES)
      return invalid(server, `its questions and their state have ${numberText(bytes)} bytes, and the limit is ${numberText(MAX_BYTES)}`)
    return new AsksUser(questions, state)
  } catch (error) {
    if (error instanceof ToolError) return error
    return invalid(server, (error as Error).message)
  }
}

function questionOf(server: string, id: string, request: unknown): CallQuestion {
  const { method, params } = (isObject(request) ? request : {}) as { method?: unknown; params?: unknown }
  if (method !== 'elicitation/create') throw refused(server, `asks for ${beginningOf(String(method), 100)}, which pawl does not announce`)
  const { mode = 'form', message, url, requestedSchema: schema } = (isObject(params) ? params : {}) as Record<string, unknown>
  if (id === SIGN_IN_ID) throw new Error(`a question has the id "${SIGN_IN_ID}", which belongs to pawl`)
  if (typeof message !== 'string') throw new Error('a question has no message')
  if (message.length > MAX_MESSAGE) throw new Error(`the message of a question has more than ${numberText(MAX_MESSAGE)} characters`)
  if (mode === 'url') return { id, from: server, message, url: checkedUrl(url) }
  if (mode !== 'form') throw new Error(`a question has the mode ${JSON.stringify(mode)}`)
  return { id, from: server, message, schema: checkedSchema(schema) }
}

/** A page shows it as a link. */
function checkedUrl(url: unknown): string {
  const isWeb = typeof url === 'string' && url.length <= MAX_URL && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
  if (!isWeb) throw new Error(`a question leads to ${beginningOf(JSON.stringify(url) ?? 'nowhere', 200)}, which is not a web address`)
  return url as string
}

function checkedSchema(schema: unknown): JsonObject {
  const { type, properties } = (isObject(schema) ? schema : {}) as { type?: unknown; properties?: unknown }
  if (type !== 'object' || !isObject(properties)) throw new Error('the schema of a question is not an object')
  const fields = Object.entries(properties)
  if (fields.length > MAX_FIELDS) throw new Error(`a question has ${fields.length} fields, and the limit is ${MAX_FIELDS}`)
  for (const [name, field] of fields) {
    const shown = JSON.stringify(beginningOf(name, 100))
    if (!isField(field)) throw new Error(`a question asks for ${shown}, which is not a text, a number, a boolean or a choice`)
    if (isSecret(name, field as JsonObject))
      throw new Error(
        `a question asks for the secret ${shown} in a form, where it would be recorded; the server must ask at a URL of its own`,
      )
  }
  const lacking = requiredOf(schema as JsonObject).find((name) => !Object.hasOwn(properties, name))
  if (lacking !== undefined) throw new Error(`a question requires ${JSON.stringify(beginningOf(lacking, 100))}, which it does not ask for`)
  return schema as JsonObject
}

/** The names of the fields that an answer must have. */
const requiredOf = ({ required }: JsonObject): string[] =>
  Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []

const SIMPLE = ['string', 'number', 'integer', 'boolean']

/** The protocol allows flat fields only. */
function isField(field: unknown): boolean {
  if (!isObject(field)) return false
  const { type, items, properties } = field
  if (properties !== undefined) return false
  if (SIMPLE.includes(type as string)) return true
  return type === 'array' && isObject(items) && (items.type === 'string' || Array.isArray(items.anyOf)) && items.properties === undefined
}

/** Names of fields whose content grants access. The protocol forbids them in forms. */
const SECRETS = [
  'password',
  'passwd',
  'passphrase',
  'passcode',
  'secret',
  'apikey',
  'accesskey',
  'privatekey',
  'accesstoken',
  'refreshtoken',
  'authtoken',
  'bearertoken',
  'creditcard',
  'cardnumber',
  'securitycode',
]
const SECRET_WORDS = ['pin', 'cvv', 'cvc', 'otp', 'credentials']

function isSecret(name: string, { format, writeOnly, title }: JsonObject): boolean {
  if (format === 'password' || writeOnly === true) return true
  const names = [name, ...(typeof title === 'string' ? [title] : [])].map((one) => one.toLowerCase().replace(/[^a-z0-9]/g, ''))
  return names.some((one) => SECRETS.some((secret) => one.includes(secret)) || SECRET_WORDS.includes(one))
}

/** A server that asks has done nothing yet. */
const NOT_BEGUN = { retryable: false, happened: false } as const

function invalid(server: string, problem: string): ToolError {
  const message = `The MCP server "${server}" asks something that pawl does not pass on: ${problem}.`
  return new ToolError(message, { ...NOT_BEGUN, code: 'mcp_invalid_question' })
}

function refused(server: string, problem: string): ToolError {
  return new ToolError(`The MCP server "${server}" ${problem}.`, { ...NOT_BEGUN, code: 'mcp_input_required' })
}
