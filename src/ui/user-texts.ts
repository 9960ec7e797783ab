// What a page may show its user when something was refused or failed. Details are for developers; codes are for programs.

const SOON = 'This is not available right now. Try again in a moment.'
const TOO_MANY = 'Too many requests. Wait a moment, and try again.'
const GONE = 'This conversation is no longer available. Start a new one.'
const DECIDED = 'This was already decided.'
const CHANGED = 'This has changed since you opened it. Reload the conversation, and try again.'
const LIMIT = 'This conversation has reached its limit.'
const TOO_LARGE = 'Your message is too large. Shorten it, or send fewer or smaller files.'
const ADDRESS = 'The address of this conversation is not valid. Check the link, or start a new conversation.'
const NOT_SENT = 'Your message contains something that cannot be sent. Change it, and try again.'
const NOT_UNDERSTOOD = 'The server did not understand this request. Reload the page, and try again.'
const INCOMPLETE = 'The answer could not be completed.'

const BY_CODE: Readonly<Record<string, string>> = {
  unauthorized: 'You are signed out. Sign in, and try again.',
  forbidden: 'You are not allowed to do this.',
  session_not_found: 'This conversation does not exist. Check the link, or start a new conversation.',
  invalid_session_id: ADDRESS,
  session_exists: 'This conversation exists already. Open it, or start a new one.',
  no_agent: 'This conversation has ended. Start a new one.',
  unknown_agent: 'This assistant is not available here. Start a new conversation.',
  agent_mismatch: 'This conversation is with another assistant. Start a new one.',
  invalid_message: NOT_SENT,
  invalid_file: 'This file cannot be read. Save it again as a PDF, an image or plain text.',
  encrypted_file: 'This PDF is protected, and cannot be read. Send a copy without a password.',
  invalid_metadata: NOT_SENT,
  undecodable: NOT_SENT,
  message_not_found: CHANGED,
  checkpoint_not_found: CHANGED,
  run_not_found: CHANGED,
  session_closed: 'This conversation has ended. Start a new one.',
  outcome_unknown: 'It is not known yet whether an earlier action took effect. A person has to check it first.',
  session_erased: GONE,
  erased: GONE,
  pruned: GONE,
  events_gone: GONE,
  rate_limited: TOO_MANY,
  too_many_watches: TOO_MANY,
  inbox_full: 'Too many messages are waiting for an answer. Send yours again later.',
  body_too_large: TOO_LARGE,
  message_too_large: TOO_LARGE,
  empty_message: 'Your message is empty.',
  chat_too_long: 'This conversation is too long. Start a new one.',
  not_newest: 'Only the newest answer can be regenerated. If your message has no answer, send it again.',
  history_changed: 'This conversation was changed elsewhere. Reload it.',
  rolled_back: 'This conversation was changed elsewhere. Reload it.',
  target_archived: CHANGED,
  session_moved: CHANGED,
  digest_mismatch: CHANGED,
  unknown_cursor: CHANGED,
  not_waiting: DECIDED,
  already_completed: DECIDED,
  call_has_ended: DECIDED,
  call_not_found: DECIDED,
  not_an_approver: 'You may not decide about this.',
  approval_expired: 'The time for this decision has expired.',
  invalid_answer: 'This answer is not allowed.',
  budget_exhausted: LIMIT,
  unpriced_model: LIMIT,
  max_turns: INCOMPLETE,
  no_progress: INCOMPLETE,
  deadline_exceeded: 'The answer took too long.',
  draining: SOON,
}

/** Which texts of errors a page receives. `masked`: only those that are meant for its user. */
export type ErrorTexts = 'masked' | 'shown'

/** The text of a call that may have taken effect. */
export const OUTCOME_UNKNOWN = 'Whether this call took effect is unknown.'

/** Codes of failed calls whose text is that of an exception, or quotes what a tool returned. */
const MASKED: Readonly<Record<string, string>> = {
  tool_failed: 'This call has failed.',
  invalid_result: 'This call has failed.',
  invalid_idempotency_key: 'This call could not be made.',
  invalid_limit_key: 'This call could not be made.',
  outcome_unknown: OUTCOME_UNKNOWN,
}

/** The text of a failed call. The message of a `ToolError`, and pawl's own texts, are meant for users. */
export function callErrorText({ code, message }: { code: string; message: string }, texts: ErrorTexts): string {
  return (texts === 'masked' && Object.hasOwn(MASKED, code) ? MASKED[code] : undefined) ?? message
}

/** What developers are told about a failed run. Its reason may quote a provider or any exception. */
export function failureDetail({ code, reason }: { code: string; reason: string }, texts: ErrorTexts): string {
  return texts === 'shown' ? reason : `The run failed with ${code}. \`GET /v1/sessions/{session}/state\` has the reason.`
}

/** What is wrong with a request, by the beginning of the place that was refused. */
const BY_PLACE: readonly [at: string, text: string][] = [
  ['path.session', ADDRESS],
  ['body.id', ADDRESS],
  ['body.content', NOT_SENT],
  ['body.metadata', NOT_SENT],
  ['body.messages', NOT_SENT],
]

/** The text for a refusal with this code and HTTP status; `places`: the parts of the request that were refused. */
export function refusalText(code: string, status: number, places: readonly string[] = []): string {
  const known = Object.hasOwn(BY_CODE, code) ? BY_CODE[code] : undefined
  if (known !== undefined) return known
  const [place = ''] = places
  const mistaken = BY_PLACE.find(([at]) => place === at || place.startsWith(`${at}.`))
  if (mistaken) return mistaken[1]
  if (status === 429) return TOO_MANY
  if (status === 503 || status === 504) return SOON
  if (status === 409) return CHANGED
  if (status === 410) return GONE
  return status >= 500 ? 'Something went wrong. Try again later.' : NOT_UNDERSTOOD
}

/** The text for a run that has failed with this code. Models and tools have codes of their own. */
export function failureText(code: string): string {
  return (Object.hasOwn(BY_CODE, code) ? BY_CODE[code] : undefined) ?? INCOMPLETE
}
