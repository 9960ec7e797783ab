// Runs a policy as a model: replays the transcript, then asks the policy for the next step.
import { isDeepStrictEqual } from 'node:util'
import type { AssistantBlock, ContentBlock, Json, Message, ModelRequest } from 'pawl'
import { ModelError } from 'pawl'

/** A tool call that a policy wants. */
export interface Call {
  tool: string
  input: { [key: string]: Json }
}

/** What came of it. */
export interface Outcome {
  /** The tool returned a JSON object; anything else is an error or an unknown outcome. */
  ok: boolean
  /** The object; empty unless `ok`. */
  value: Json
  text: string
}

/**
 * A policy: yields the calls of one turn, receives their outcomes, returns the answer. It must depend only on the letter and the
 * outcomes, because it runs again from the start at every turn.
 */
export type Policy = Generator<Call[], string, Outcome[]>

/**
 * The next step of the policy for the newest letter in the transcript: a pure function of the request.
 * @throws ModelError `transcript_mismatch` if the transcript's calls are not those that the policy made: it was corrupted.
 */
export function nextStep(request: ModelRequest, policyFor: (letter: string) => Policy): AssistantBlock[] {
  const start = request.messages.findLastIndex(isLetter)
  const letter = request.messages[start]
  if (!letter) throw mismatch('there is no letter in it')
  const policy = policyFor(textOf(letter.content))
  let step = policy.next()
  for (let at = start + 1; at < request.messages.length; at += 2) {
    if (step.done) throw mismatch(`message ${at} follows a finished answer`)
    step = policy.next(outcomesOf(step.value, request.messages[at], request.messages[at + 1]))
  }
  if (step.done) return [{ type: 'text', text: step.value }]
  return [
    { type: 'text', text: `Next: ${step.value.map((call) => call.tool).join(', ')}.` },
    // The same ids in every turn, as from real models: pawl must tell the calls apart by itself
    ...step.value.map(({ tool, input }, index) => ({ type: 'tool_use' as const, id: `call_${index}`, name: tool, input })),
  ]
}

function isLetter(message: Message): boolean {
  if (message.role !== 'user') return false
  return typeof message.content === 'string' || message.content.every((block) => block.type !== 'tool_result')
}

function outcomesOf(calls: readonly Call[], assistant: Message | undefined, results: Message | undefined): Outcome[] {
  const uses = blocksOf(assistant).filter((block) => block.type === 'tool_use')
  const made = uses.map(({ name, input }) => ({ tool: name, input }))
  if (!isDeepStrictEqual(made, calls)) throw mismatch(`it has ${JSON.stringify(made)} where ${JSON.stringify(calls)} was called`)
  const answers = blocksOf(results).filter((block) => block.type === 'tool_result')
  return uses.map((use) => {
    const mine = answers.filter((block) => block.tool_use_id === use.id)
    if (mine.length !== 1 || !mine[0]) throw mismatch(`${use.name} (${use.id}) has ${mine.length} results`)
    return outcomeOf(textOf(mine[0].content), mine[0].is_error === true ? 'error' : 'result')
  })
}

function outcomeOf(text: string, kind: 'result' | 'error'): Outcome {
  const value = kind === 'result' ? objectIn(text) : undefined
  return { ok: value !== undefined, value: value ?? {}, text }
}

/** The JSON object in a result; a note may precede it. */
function objectIn(text: string): Json | undefined {
  const start = text.indexOf('{')
  if (start === -1) return undefined
  try {
    return JSON.parse(text.slice(start)) as Json
  } catch {
    return undefined
  }
}

function blocksOf(message: Message | undefined): readonly ContentBlock[] {
  if (!message) throw mismatch('it ends in the middle of a turn')
  return typeof message.content === 'string' ? [] : message.content
}

function textOf(content: string | readonly ContentBlock[]): string {
  if (typeof content === 'string') return content
  return content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')
}

function mismatch(what: string): ModelError {
  return new ModelError('transcript_mismatch', `The transcript is not the one that this model wrote: ${what}. Look for what changed it.`, {
    retryable: false,
  })
}
