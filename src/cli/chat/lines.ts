// A session's events and messages as lines for a terminal.
import { type AssistantBlock, type ContentBlock, isMedia, labelledText, labelOf, textOf } from '../../session/content.ts'
import { isProviderBlock, sourcesOf, sourceText, textOfProviderBlock } from '../../session/provider-blocks.ts'
import type { EventOf, RefusedContent, SessionEvent } from '../../session/events.ts'
import type { ResultContent } from '../../session/call-facts.ts'
import type { Json } from '../../session/json.ts'
import { OUTPUT_TOOL } from '../../session/built-in-tools/output.ts'
import { isBlocks } from '../../session/transcript/results.ts'
import type { Pause, SessionError } from '../../session/state.ts'
import type { SessionView } from '../../session/watching/view.ts'
import type { MessageRow } from '../../store/rows.ts'
import { SUGGESTIONS, waysOut } from '../../session/suggestions.ts'
import { here } from '../here.ts'
import { timeOf } from '../queries.ts'
import { oneLine, paint, printable } from '../terminal.ts'
import { questionLine } from './questions.ts'
import { counted } from '../../session/counted.ts'

/** The agent's name, and which messages were sent from this terminal. */
export interface Speakers {
  session: string
  agent: string
  /** Messages typed in this terminal, which shows them already. */
  isOwn(messageId: string): boolean
}

/** The lines for an event; none for events that a conversation does not need to show. */
export function linesOfEvent(event: SessionEvent, speakers: Speakers): string[] {
  const { session } = speakers
  switch (event.type) {
    case 'message_received':
      return speakers.isOwn(event.messageId) ? [] : userLines(event.content)
    case 'message_scheduled':
      return [
        note(`(message ${event.messageId} is scheduled for ${timeOf(new Date(event.dueAt))}: ${oneLine(labelledText(event.content))})`),
      ]
    case 'messages_unscheduled':
      return [note(`(unscheduled${byWhom(event.by)}: ${event.messageIds.join(', ')})`)]
    case 'message_rejected':
      return [problem(`message rejected, ${event.code}: ${event.reason}`)]
    case 'request_passed_on':
      return event.code === undefined ? [] : [problem(`${event.name} was not carried out, ${event.code}: ${event.reason}`)]
    case 'model_attempt_failed':
      return [attemptLine(event.purpose ?? 'model', event)]
    case 'compacted':
      return [note(`(compacted at ${event.tokens} of ${event.window} tokens: ${compactedText(event)})`)]
    case 'compaction_failed':
      return [problem(`compaction failed, ${event.code}: ${event.reason}`)]
    case 'content_replaced':
      return [problem(`the provider refused ${namesOf(event.content)}, so the model sees a note instead: ${event.reason}`)]
    case 'model_completed':
      return answerLines(speakers.agent, event.content)
    case 'tool_issued':
      return [callLine(event.tool, event.input)]
    case 'tool_attempt_failed':
      return [attemptLine(event.tool, event)]
    case 'tool_completed':
      return event.tool === OUTPUT_TOOL ? agentLines(speakers.agent, outputText(event)) : [completedLine(event)]
    case 'tool_failed':
      return [problem(`  ✗ ${event.tool} ${event.code}: ${event.message}`)]
    case 'tool_unknown':
      return [
        problem(`  ? ${event.tool}: the outcome is unknown: ${event.message}`),
        ...(event.ask
          ? commands(SUGGESTIONS.resolveHappened({ session, ...event }), SUGGESTIONS.resolveNotHappened({ session, ...event }))
          : []),
      ]
    case 'tool_resolved':
      return [note(`  ? ${event.tool}: ${outcomeText(event)}`)]
    case 'approval_requested':
      return [
        problem(
          `  ⏸ ${event.tool} waits for approval${roleText(event.approvers)}${event.reason ? `: ${event.reason}` : ''} (/approve ${event.callId} or /deny ${event.callId})`,
        ),
      ]
    case 'approval_rule_given':
      return [note(`  ▶ later calls of ${event.tool} are approved by the rule ${event.rule}${byWhom(event.by)}`)]
    case 'approval_rule_revoked':
      return [note(`  the rule ${event.rule} no longer approves calls${byWhom(event.by)}`)]
    case 'approval_refused':
      return [
        problem(`  ! ${event.tool}: only a person with the role ${event.approvers.role} may decide${event.by ? `, not ${event.by}` : ''}`),
      ]
    case 'approval_decided':
      return event.approved
        ? [
            note(
              `  ▶ ${event.tool} approved${event.rule === undefined ? '' : ` by the rule ${event.rule}`}${byWhom(event.by)}${event.input === undefined ? '' : ', with other arguments'}`,
            ),
          ]
        : []
    case 'answer_requested':
      if (event.child) return [note(`  ⋯ ${event.tool}: the agent ${event.child.agent} works on it in session ${event.child.session}`)]
      return [
        problem(
          event.asks
            ? questionLine(event.callId, event.asks.question)
            : `  ⏸ ${event.tool} waits for an answer (/answer ${event.callId} <answer>)`,
        ),
      ]
    case 'sleep_started':
      return [note(`  ⏸ ${event.tool} sleeps until ${timeOf(new Date(event.expiresAt))}, or until a message arrives`)]
    case 'run_completed':
      return event.stopReason === 'end_turn' || event.outputCall !== undefined ? [] : [note(`(the model stopped: ${event.stopReason})`)]
    case 'run_interrupted':
      return [note(`(interrupted${event.reason ? `: ${event.reason}` : ''})`)]
    case 'error_entered':
      return [problem(`error, ${event.code}: ${event.reason}`), ...nextAfter(event, speakers)]
    case 'recovery_started':
      return [note(`(recovering: ${event.strategy})`)]
    case 'session_paused':
      return [note(`(session paused${byWhom(event.by)}${event.reason ? `: ${event.reason}` : ''}; messages wait until it is unpaused)`)]
    case 'session_unpaused':
      return [note(`(session unpaused${byWhom(event.by)})`)]
    case 'budget_warning': {
      const amount = (value: number): string => (event.unit === 'usd' ? `${value} USD` : counted(value, 'token'))
      return [
        note(
          `(spent ${amount(event.spent)} of ${event.scope === 'shared' ? `the shared budget ${event.budget ?? ''}` : `the ${event.scope}'s budget`} of ${amount(event.limit)})`,
        ),
      ]
    }
    case 'budget_raised':
      return [note(`(budget of the ${event.scope} raised${byWhom(event.by)})`)]
    case 'session_closed':
      return [note('(session closed; the next message opens it again)')]
    default:
      return []
  }
}

const NAMES_OF_CONTENT: Record<RefusedContent['kind'], [one: string, several: string]> = {
  text: ['text', 'texts'],
  image: ['image', 'images'],
  document: ['document', 'documents'],
  result: ['result', 'results'],
  call: ["call's arguments", "calls' arguments"],
}

/** Such as `2 images and 1 text`. */
function namesOf(content: readonly RefusedContent[]): string {
  const kinds = [...new Set(content.map(({ kind }) => kind))]
  return kinds.map((kind) => counted(content.filter((one) => one.kind === kind).length, ...NAMES_OF_CONTENT[kind])).join(' and ')
}

/** A conversation so far, from the transcript's messages. */
export function linesOfMessages(rows: readonly MessageRow[], agent: string): string[] {
  const tools = new Map<string, string>()
  return rows.flatMap((row) => {
    if (row.kind === 'user') return userLines(row.content)
    if (row.kind === 'assistant') return [...answerLines(agent, answerOf(row.content)), ...callLines(row.content, tools)]
    return resultLines(row.content, tools)
  })
}

/** `seq` of the last event that the messages cover. */
export function lastSeqOf(rows: readonly MessageRow[]): number {
  return rows.reduce((last, row) => Math.max(last, row.seq), 0)
}

/** A session's state, for `/state`. */
export function linesOfState(state: SessionView): string[] {
  const line = (name: string, value: string) => `  ${name.padEnd(11)} ${oneLine(value)}`
  const { usage } = state
  return [
    line('session', state.sessionId),
    line('agent', state.agent),
    line('status', state.status + (state.current ? `, run ${state.current.run}, turn ${state.current.turn}` : '')),
    ...(state.paused ? [line('paused', pausedText(state.paused))] : []),
    ...(state.error
      ? [
          line('error', `${state.error.code}: ${state.error.reason}`),
          ...(state.error.nextAttemptAt === undefined
            ? []
            : [line('next', `by itself, at ${new Date(state.error.nextAttemptAt).toISOString()}`)]),
          ...linesOfProgress(state.error),
          ...linesOfRecovery(state.sessionId, { agent: state.agent, error: state.error }),
        ]
      : []),
    line('runs', `${state.run}, turns ${state.turns}, events ${state.seq}`),
    line('tokens', `${usage.input_tokens} in, ${usage.output_tokens} out`),
    ...(state.queued > 0 ? [line('waiting', `${counted(state.queued, 'message')} that the agent has not seen yet`)] : []),
    ...(state.context === null ? [] : [line('context', JSON.stringify(state.context))]),
    ...(state.tags.length > 0 ? [line('tags', state.tags.join(', '))] : []),
  ]
}

/** What a run had done before it failed. */
export function linesOfProgress({ progress }: Pick<SessionError, 'progress'>): string[] {
  if (!progress) return []
  const { completed, moreCompleted = 0, pending, unknown } = progress
  const line = (name: string, ids: readonly string[]): string[] =>
    ids.length === 0 ? [] : [`  ${name.padEnd(11)} ${oneLine(ids.join(', '))}`]
  const done = completed.map(({ callId, tool, effectId }) => `${tool} (${callId}${effectId === undefined ? '' : `, ${effectId}`})`)
  return [
    ...line('done', moreCompleted > 0 ? [...done, `and ${moreCompleted} more`] : done),
    ...line(
      'open',
      pending.map(({ callId, tool }) => `${tool} (${callId})`),
    ),
    ...line('unknown', unknown),
  ]
}

/** The commands that take a session out of its error, the best one first. */
export function linesOfRecovery(session: string, { agent, error }: { agent: string | null; error: SessionError }): string[] {
  const ways = waysOut(session, error).map(({ command, isSuggested }) => `${here(command)}${isSuggested ? '  (suggested)' : ''}`)
  const isContext = error.code === 'invalid_context' && agent !== null
  const others = isContext ? [`${here(SUGGESTIONS.chatWithContext(agent))}   (a new session; this one keeps its context)`] : []
  return [...ways, ...others].map((way, index) => `  ${(index === 0 ? 'recover' : '').padEnd(11)} ${way}`)
}

/** When a session was paused, by whom and why. */
export function pausedText({ at, by, reason }: Pause): string {
  const since = `since ${timeOf(new Date(at))}${by === undefined ? '' : ` by ${by}`}`
  return reason === undefined ? since : `${since}: ${reason}`
}

/** A line that is not part of the conversation. */
export function note(text: string): string {
  return paint('dim', indented(text))
}

/** The same for a line with a command, which is never cut off: people copy it. */
export function uncut(text: string): string {
  return paint('dim', printable(text))
}

/** A line about a problem. */
export function problem(text: string): string {
  return paint('red', indented(text))
}

function userLines(content: string | readonly ContentBlock[]): string[] {
  const media = typeof content === 'string' ? [] : content.filter(isMedia)
  const images = media.filter(({ type }) => type === 'image').length
  const documents = media.flatMap((block) => (block.type === 'document' ? [labelOf(block)] : []))
  const text = [textOf(content), ...(images > 0 ? [`[${images} images]`] : []), ...documents].filter(Boolean).join(' ')
  return [`${paint('cyan', 'you ›')} ${printable(text)}`]
}

function agentLines(agent: string, text: string): string[] {
  return text.trim() === '' ? [] : [`${speakerOf(agent)} ${printable(text)}`]
}

/** What the provider's tools did, the text, and what it cites. */
function answerLines(agent: string, content: readonly AssistantBlock[]): string[] {
  return [...providerLines(content), ...agentLines(agent, textOf(content)), ...sourceLines(content)]
}

/** What the provider's tools did. */
export function providerLines(content: readonly AssistantBlock[]): string[] {
  return content.flatMap((block) => {
    if (!isProviderBlock(block) || block.part === 'source') return []
    const isCall = block.part === 'call'
    return [paint(isCall ? 'yellow' : 'dim', indented(`  ${isCall ? '⇢' : '⇠'} ${textOfProviderBlock(block)}`))]
  })
}

/** What an answer cites. */
export function sourceLines(content: readonly AssistantBlock[]): string[] {
  return sourcesOf(content).map((source, index) => paint('dim', indented(`  [${index + 1}] ${sourceText(source)}`)))
}

function answerOf(content: MessageRow['content']): AssistantBlock[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : (content as AssistantBlock[])
}

function speakerOf(agent: string): string {
  return paint(['bold', 'green'], `${agent} ›`)
}

function callLines(content: MessageRow['content'], tools: Map<string, string>): string[] {
  if (typeof content === 'string') return []
  return content.flatMap((block) => {
    if (block.type !== 'tool_use') return []
    tools.set(block.id, block.name)
    return [callLine(block.name, block.input)]
  })
}

function resultLines(content: MessageRow['content'], tools: ReadonlyMap<string, string>): string[] {
  if (typeof content === 'string') return []
  return content.flatMap((block) => {
    if (block.type !== 'tool_result') return []
    const tool = tools.get(block.tool_use_id) ?? block.tool_use_id
    const text = labelledText(block.content, ' ')
    return [block.is_error ? problem(`  ✗ ${tool} ${text}`) : resultLine(tool, text)]
  })
}

function callLine(tool: string, input: Json): string {
  return paint('yellow', indented(`  → ${tool} ${JSON.stringify(input)}`))
}

function resultLine(tool: string, text: string): string {
  return paint('dim', indented(`  ← ${tool} ${text}`))
}

/** A run's output is its answer, so it is shown in full. */
function outputText({ value = null }: EventOf<'tool_completed'>): string {
  return JSON.stringify(value, null, 2)
}

function completedLine(event: EventOf<'tool_completed'>): string {
  if (event.replayOf !== undefined) return resultLine(event.tool, `not repeated: ${event.replayOf} has already done it`)
  const retried = event.attempt > 1 ? ` (attempt ${event.attempt})` : ''
  return resultLine(event.tool + retried, resultText(event.content ?? event.value ?? null))
}

function resultText(result: ResultContent | Json): string {
  if (typeof result === 'string') return result
  return isBlocks(result as Json) ? labelledText(result as ResultContent, ' ') : JSON.stringify(result)
}

function outcomeText({ by, happened, decision, decidedBy }: EventOf<'tool_resolved'>): string {
  if (decision === 'retry') return `outcome unknown; executed again${byWhom(decidedBy)}`
  if (decision === 'skip') return `outcome unknown; not repeated${byWhom(decidedBy)}`
  const outcome = happened ? 'it happened' : 'it did not happen'
  return by === 'verify' ? `verified, ${outcome}` : `${outcome}${byWhom(decidedBy)}`
}

function roleText(approvers: { role: string } | undefined): string {
  return approvers ? ` by the role ${approvers.role}` : ''
}

function byWhom(by: string | undefined): string {
  return by === undefined ? '' : ` (${by})`
}

function compactedText({ messages, resultBytes }: EventOf<'compacted'>): string {
  const what = messages > 0 ? [`the model sees ${counted(messages, 'more message')} as a summary`] : []
  return [...what, ...(resultBytes === undefined ? [] : [`results shortened to ${resultBytes} bytes`])].join(', ')
}

function attemptLine(what: string, event: EventOf<'model_attempt_failed'> | EventOf<'tool_attempt_failed'>): string {
  const { attempt, class: kind, code, message, nextDelayMs } = event.error
  const again = nextDelayMs === undefined ? '' : `; next attempt in ${nextDelayMs} ms`
  return note(`  ! ${what}, attempt ${attempt}: ${code ?? kind}: ${message}${again}`)
}

function nextAfter(event: EventOf<'error_entered'>, { session, agent }: Speakers): string[] {
  if (event.nextAttemptAt !== undefined) return [note(`(next attempt in ${Math.ceil((event.nextAttemptAt - event.at) / 1_000)} s)`)]
  if (event.strategy === 'automatic') return [note('(the session continues by itself once the cause is resolved)')]
  return [note('(the next message starts a new run)'), ...linesOfRecovery(session, { agent, error: event }).map(uncut)]
}

/** Commands for another terminal. */
function commands(...all: string[]): string[] {
  return all.map((command) => uncut(`      ${here(command)}`))
}

/** One line that keeps its indentation. */
function indented(text: string): string {
  const body = text.trimStart()
  return ' '.repeat(text.length - body.length) + oneLine(body)
}
