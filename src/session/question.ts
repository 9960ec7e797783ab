// Questions that a tool asks the user during a call, and the replies to them.
import { shortHash } from './digest.ts'
import { isObject, type Json, type JsonObject } from './json.ts'
import type { AskedQuestion, CallAsking, CallQuestion, QuestionReply, UserReplies } from './question-facts.ts'
import { numberText } from './number-text.ts'
import { beginningOf } from './beginning.ts'

/** Maximum bytes of JSON of one answer. Each attempt that follows contains it. */
export const MAX_REPLY_BYTES = 64_000
const MAX_SHOWN = 200

/** The request for the answer to the first of the questions. */
export function askedQuestion(attempt: number, questions: readonly CallQuestion[], state?: string): AskedQuestion | undefined {
  const [question, ...more] = questions
  if (!question) return undefined
  const digest = shortHash(JSON.stringify([attempt, question]))
  return { attempt, question, digest, ...(more.length > 0 && { more }), ...(state !== undefined && { state }) }
}

/** The question to ask next, if the call has one and none of its questions waits. */
export function nextQuestion({ asking }: { asking?: CallAsking }): AskedQuestion | undefined {
  return asking && !asking.question ? askedQuestion(asking.attempt, asking.more) : undefined
}

/** What the call has asked after this request. `before`: what it had asked. */
export function askingAfter(before: CallAsking | undefined, { attempt, question, more = [], state }: AskedQuestion): CallAsking {
  if (before?.attempt === attempt) return { ...before, question, more }
  return { attempt, question, more, replies: {}, rounds: (before?.rounds ?? 0) + 1, ...(state !== undefined && { state }) }
}

/** What the call has asked after the reply to the question that waits. */
export function repliedTo({ question, ...asking }: CallAsking, reply: QuestionReply): CallAsking {
  return question ? { ...asking, replies: { ...asking.replies, [question.id]: reply } } : asking
}

/** The replies for the next attempt; undefined if the call has asked nothing. */
export function repliesOf(asking: CallAsking | undefined): UserReplies | undefined {
  if (!asking) return undefined
  const { replies, state, rounds } = asking
  return { replies, rounds, ...(state !== undefined && { state }) }
}

/** The reply in an answer that has no problem. */
export function replyIn(answer: Json): QuestionReply {
  const { action, content } = answer as unknown as QuestionReply
  return { action, ...(content !== undefined && { content }) }
}

/** What is wrong with an answer to the question; undefined if it can be accepted. */
export function replyProblem({ schema, url }: CallQuestion, answer: Json): string | undefined {
  if (!isObject(answer) || !['accept', 'decline', 'cancel'].includes(answer.action as string))
    return 'Say { action: "accept", content }, { action: "decline" } or { action: "cancel" }.'
  const { action, content, ...others } = answer as JsonObject
  const [other] = Object.keys(others)
  if (other !== undefined) return `An answer has no member ${JSON.stringify(beginningOf(other, MAX_SHOWN))}.`
  if (action !== 'accept') return content === undefined ? undefined : 'Only an answer with the action "accept" has content.'
  if (url !== undefined) return content === undefined ? undefined : 'The user answers at the URL, so this answer has no content.'
  if (!isObject(content)) return '`content` must be an object that matches the question’s schema.'
  return contentProblem(schema ?? {}, content as JsonObject)
}

function contentProblem(schema: JsonObject, content: JsonObject): string | undefined {
  const properties = isObject(schema.properties) ? (schema.properties as JsonObject) : {}
  const required = (Array.isArray(schema.required) ? schema.required : []).filter((name) => typeof name === 'string')
  const missing = required.find((name) => !Object.hasOwn(content, name))
  if (missing !== undefined) return `content.${beginningOf(missing, MAX_SHOWN)} is missing.`
  for (const [name, value] of Object.entries(content)) {
    const shown = beginningOf(name, MAX_SHOWN)
    if (!Object.hasOwn(properties, name)) return `The question does not ask for content.${shown}.`
    const problem = valueProblem(properties[name] as JsonObject, value)
    if (problem !== undefined) return `content.${shown} must be ${problem}.`
  }
  return undefined
}

/** What the value must be; undefined if it is. */
function valueProblem(schema: JsonObject, value: Json): string | undefined {
  const choices = choicesOf(schema)
  switch (schema.type) {
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'true or false'
    case 'number':
    case 'integer':
      return numberProblem(schema, value)
    case 'array':
      return selectionProblem(schema, value)
    default:
      if (typeof value !== 'string') return 'text'
      return choices ? choiceProblem(choices, value) : textProblem(schema, value)
  }
}

function numberProblem({ type, minimum, maximum }: JsonObject, value: Json): string | undefined {
  if (typeof value !== 'number' || (type === 'integer' && !Number.isInteger(value)))
    return type === 'integer' ? 'a whole number' : 'a number'
  if (typeof minimum === 'number' && value < minimum) return `at least ${numberText(minimum)}`
  if (typeof maximum === 'number' && value > maximum) return `at most ${numberText(maximum)}`
  return undefined
}

function selectionProblem({ items, minItems, maxItems }: JsonObject, value: Json): string | undefined {
  const choices = isObject(items) ? choicesOf(items as JsonObject) : undefined
  if (!Array.isArray(value) || !value.every((one) => typeof one === 'string')) return 'a list of texts'
  if (typeof minItems === 'number' && value.length < minItems) return `a list of at least ${numberText(minItems)}`
  if (typeof maxItems === 'number' && value.length > maxItems) return `a list of at most ${numberText(maxItems)}`
  if (!choices) return undefined
  const other = value.find((one) => choiceProblem(choices, one as string) !== undefined)
  return other === undefined ? undefined : `a list of ${choiceProblem(choices, other as string)}`
}

function choicesOf({ enum: values, oneOf, anyOf }: JsonObject): string[] | undefined {
  if (Array.isArray(values)) return values.filter((value) => typeof value === 'string')
  const titled = Array.isArray(oneOf) ? oneOf : anyOf
  if (!Array.isArray(titled)) return undefined
  return titled.flatMap((one) => (isObject(one) && typeof one.const === 'string' ? [one.const] : []))
}

function choiceProblem(choices: readonly string[], value: string): string | undefined {
  if (choices.includes(value)) return undefined
  return beginningOf(`one of ${choices.map((one) => JSON.stringify(one)).join(', ')}`, 1_000)
}

const FORMATS: Readonly<Record<string, { is(text: string): boolean; what: string }>> = {
  email: { is: (text) => /^[^\s@]+@[^\s@]+$/.test(text), what: 'an email address' },
  uri: { is: (text) => URL.canParse(text), what: 'a URI' },
  date: { is: (text) => /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)), what: 'a date such as 2026-07-28' },
  'date-time': {
    is: (text) => /^\d{4}-\d{2}-\d{2}T\d/i.test(text) && !Number.isNaN(Date.parse(text)),
    what: 'a time such as 2026-07-28T12:00:00Z',
  },
}

function textProblem({ minLength, maxLength, format }: JsonObject, value: string): string | undefined {
  const { length } = Array.from(value)
  if (typeof minLength === 'number' && length < minLength) return `text of at least ${numberText(minLength)} characters`
  if (typeof maxLength === 'number' && length > maxLength) return `text of at most ${numberText(maxLength)} characters`
  const rule = typeof format === 'string' && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined
  return rule && !rule.is(value) ? rule.what : undefined
}
