// Decisions in a chat about the calls that the run waits for, with the arguments that the person has seen.
import type { SessionHandle } from '../../client/types.ts'
import { isWaiting } from '../../session/past/call-status.ts'
import { defined } from '../../session/defined.ts'
import type { Json } from '../../session/json.ts'
import type { CallView } from '../../session/watching/view.ts'
import { CliError } from '../errors.ts'
import { operator } from '../options.ts'
import { oneLine } from '../terminal.ts'
import { questionLine } from './questions.ts'
import type { Command } from './slash-commands.ts'

/** A decision, as it was typed. */
export type DecisionCommand = Extract<Command, { name: 'approve' | 'deny' | 'answer' }>

const STATUS = { approve: 'awaiting_approval', deny: 'awaiting_approval', answer: 'awaiting_answer' } as const

/** Sends the decision. `digests`: for each call, the digest of the arguments that were shown; other arguments are refused. */
export async function decideInChat(
  session: SessionHandle,
  { name, callId, rest }: DecisionCommand,
  digests: ReadonlyMap<string, string>,
): Promise<{ callId: string; text: string }> {
  const call = callId ?? (await onlyOne(session, name))
  const by = operator()
  if (name === 'answer') {
    const asked = digests.get(call)
    await session.answer(call, answerOf(rest), { by, ...defined({ digest: asked }) })
    return { callId: call, text: `${call} is answered` }
  }
  const digest = await digestOf(session, call, digests.get(call))
  if (name === 'deny') {
    await session.deny(call, { digest, by, ...(rest !== '' && { reason: rest }) })
    return { callId: call, text: `${call} is denied` }
  }
  await session.approve(call, { digest, by, ...(rest !== '' && { input: argumentsOf(rest) }) })
  return { callId: call, text: `${call} is approved${rest === '' ? '' : ' with other arguments'}` }
}

/** The given digest, otherwise that of the call's current arguments. */
export async function digestOf(session: SessionHandle, callId: string, given: string | undefined): Promise<string> {
  if (given !== undefined) return given
  const { current } = await session.state()
  // Without a digest, the session's refusal says what is wrong with the call.
  return current?.calls.find((call) => call.callId === callId)?.digest ?? ''
}

/** The calls that wait, with the commands for them. */
export function linesOfWaiting(calls: readonly CallView[]): string[] {
  return calls.filter(isWaiting).flatMap(({ callId, status, tool, question, input = null }) => {
    if (question && status === 'awaiting_answer') return [questionLine(callId, question)]
    const about = `${tool} ${oneLine(JSON.stringify(input), 100)}`
    if (status === 'awaiting_approval') return [`  ⏸ ${about} waits for approval: /approve ${callId} or /deny ${callId}`]
    return status === 'awaiting_answer' ? [`  ⏸ ${about} waits for an answer: /answer ${callId} <answer>`] : []
  })
}

/** @throws CliError `invalid_usage` if no call, or more than one, waits for such a decision. */
async function onlyOne(session: SessionHandle, name: DecisionCommand['name']): Promise<string> {
  const { current } = await session.state()
  const waiting = (current?.calls ?? []).filter(({ status }) => status === STATUS[name])
  const [first, second] = waiting
  if (first && !second) return first.callId
  if (!first) throw new CliError('invalid_usage', `No call waits for ${name === 'answer' ? 'an answer' : 'approval'}.`)
  const ids = waiting.map(({ callId, tool }) => `/${name} ${callId} (${tool})`)
  throw new CliError('invalid_usage', `${waiting.length} calls are waiting. Name one: ${ids.join(' or ')}.`)
}

/** JSON; anything else is text, because a person answers in a chat. @throws CliError `invalid_usage`. */
function answerOf(text: string): Json {
  if (text === '') throw new CliError('invalid_usage', 'Add the answer: /answer [call] <JSON or text>.')
  try {
    return JSON.parse(text) as Json
  } catch {
    return text
  }
}

function argumentsOf(text: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch (error) {
    throw new CliError('invalid_usage', 'The new arguments must be JSON: /approve [call] [arguments].', { cause: error })
  }
}
