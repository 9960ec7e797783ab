// Maps what happens in a session to chunks of AI SDK UI's message stream. Pure, so that a stream, its resumption and the history agree.
import type { AssistantBlock, AnswerSource } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import { shortHash } from '../session/digest.ts'
import type { ModelDelta } from '../session/watching/deltas.ts'
import { answerIdOf, callIdOf, requestIdOf } from '../session/ids.ts'
import type { EventOf, SessionEvent } from '../session/events.ts'
import type { Resolution } from '../session/call-facts.ts'
import { isObject, type Json } from '../session/json.ts'
import { abandonedAs, addToCall, hasEnded, outcomeIn, type TurnCall } from '../session/past/call-status.ts'
import { isProviderBlock, shownContent, sourcesOf } from '../session/provider-blocks.ts'
import { withoutErrorText } from '../session/failed-checks.ts'
import { approvalIdOf, type UiChunk, type UiQuestion, type UiShow, type UiRunState } from './protocol.ts'
import { callErrorText, type ErrorTexts, failureText, OUTCOME_UNKNOWN } from './user-texts.ts'

/** A chunk, and the messages that it answers. */
export interface UiItem {
  chunk: UiChunk
  /** The user messages that the answer responds to; only with a `start`. */
  takes?: readonly string[]
}

/** Converts what happens in a session to chunks. Each stretch between two user messages becomes one message. */
export interface ChunkMapper {
  /**
   * Maps the next event; a replay has the output that it shows. The last chunk that it yields contains the event's `seq`. `isArchived`: the
   * event is archived, except for users' messages, so it yields nothing.
   */
  event(event: SessionEvent, isArchived?: boolean): UiItem[]
  /** Maps the next piece of the model's answer. */
  delta(at: { run: number; turn: number }, delta: ModelDelta): UiItem[]
  /** Discards the model's output since its last recorded answer. */
  reset(): UiItem[]
}

/** A block of the answer in progress that was shown. */
interface ShownBlock {
  kind: 'text' | 'thinking' | 'tool_use' | 'provider'
  /** The index of the piece's content block. */
  index: number
  /** The id of the part or of the call. */
  id: string
  /** The text so far, the tool's name or, for a call of a provider's tool, the provider's id. */
  text: string
}

/** A call of the stretch. */
interface Call extends Omit<TurnCall, 'asked'> {
  /** The arguments that were shown, or their digest if they are long, because a stretch may have any number of calls. */
  shownInput: string
  approvalId?: string
  /** The question that waits for an answer. */
  question?: UiQuestion
}

type CallEvent = EventOf<
  | 'tool_issued'
  | 'tool_attempt_failed'
  | 'approval_requested'
  | 'approval_decided'
  | 'answer_requested'
  | 'answer_received'
  | 'tool_completed'
  | 'tool_resolved'
  | 'tool_failed'
  | 'tool_unknown'
>

interface AnswerStretch {
  run: number
  turn: number
  standing: UiRunState
  calls: Map<string, Call>
  /** Calls of the provider's tools that have no result yet, with the provider's own ids. */
  provided: Map<string, string>
  /** How often the provider has used each of its ids: parts of a message need ids of their own. */
  used: Map<string, number>
  /** Whether the turn's answer is recorded. */
  answered: boolean
  /** Whether the step has started but not finished. */
  inStep: boolean
}

/** A page replaces a part by the next one with its id. */
const questionChunk = (data: UiQuestion): UiChunk => ({ type: 'data-question', id: `${data.callId}:${data.digest}`, data })

const NEVER_RAN = 'This call was not run: the run ended first.'
const NOT_COMPLETED = 'The provider did not complete this call.'

/** What a mapping depends on, apart from the session. */
export interface MappingOptions {
  show: UiShow
  /** Default `masked`. */
  errorTexts?: ErrorTexts | undefined
  /** Whether a browser has already answered the call. Such calls are shown so that a page does not answer them again. Default: none. */
  isSettled?(callId: string): boolean
}

/** Creates a mapping that starts at the beginning of a session, or between two stretches. */
export function startMapping({ show, errorTexts = 'masked', isSettled = () => false }: MappingOptions): ChunkMapper {
  let stretch: AnswerStretch | undefined
  let shown: ShownBlock[] = []
  /** Users' messages to archived turns, which the run's next turn answers. */
  let unanswered: { run: number; takes: readonly string[] } = { run: 0, takes: [] }

  function event(event: SessionEvent, isArchived = false): UiItem[] {
    if (isArchived) {
      if (event.type === 'turn_started') unanswered = { run: event.run, takes: takenWith(event) }
      return []
    }
    if (event.type === 'turn_started') return startTurn(event)
    if (!stretch) return []
    if (endsStretch(event)) {
      const ended = stretch.standing.status === 'running' ? items([...endStretch(stretch), standingAt(stretch, event, 'interrupted')]) : []
      stretch = undefined
      shown = []
      return ended
    }
    const chunks = 'run' in event && event.run === stretch.run ? chunksOf(event, stretch) : []
    if (chunks.length === 0 || chunks.at(-1)?.type === 'message-metadata') return items(chunks)
    return items([...chunks, standingAt(stretch, event)])
  }

  function startTurn(event: EventOf<'turn_started'>): UiItem[] {
    const { run, turn } = event
    const takes = takenWith(event)
    unanswered = { run, takes: [] }
    const before = stretch ? endTurn(stretch) : []
    shown = []
    if (stretch && stretch.run === run && takes.length === 0) {
      Object.assign(stretch, { turn, answered: false, inStep: true })
      return items([...before, { type: 'start-step' }, standingAt(stretch, event, 'running')])
    }
    const ended = stretch?.standing.status === 'running' ? [...endProvided(stretch), standingAt(stretch, event, 'completed')] : []
    const standing: UiRunState = { run, seq: event.seq, status: 'running', error: null }
    stretch = { run, turn, standing, calls: new Map(), provided: new Map(), used: new Map(), answered: false, inStep: true }
    const start: UiItem = {
      chunk: { type: 'start', messageId: answerIdOf({ run, turn }), messageMetadata: { pawl: { ...standing } } },
      takes,
    }
    return [...items([...before, ...ended]), start, ...items([{ type: 'start-step' }])]
  }

  function takenWith({ run, takes }: EventOf<'turn_started'>): readonly string[] {
    return unanswered.run === run ? [...unanswered.takes, ...takes] : takes
  }

  /** Ends the turn. Calls without an outcome at this point were abandoned. */
  function endTurn(ending: AnswerStretch): UiChunk[] {
    const open = [...ending.calls].filter(([, call]) => !hasEnded(call))
    const unsettled = open.map(([toolCallId, call]): UiChunk => {
      const hasRun = abandonedAs(call) !== 'never_ran'
      call.status = hasRun ? 'unknown' : 'failed'
      return { type: 'tool-output-error', toolCallId, errorText: hasRun ? OUTCOME_UNKNOWN : NEVER_RAN }
    })
    if (!ending.inStep) return unsettled
    ending.inStep = false
    return [...unsettled, { type: 'finish-step' }]
  }

  function endStretch(ending: AnswerStretch): UiChunk[] {
    return [...endProvided(ending), ...endTurn(ending)]
  }

  /** Ends calls that the provider did not complete, such as those of an answer that paused. */
  function endProvided({ provided }: AnswerStretch): UiChunk[] {
    const open = [...provided.keys()]
    provided.clear()
    return open.map((toolCallId) => ({ type: 'tool-output-error', toolCallId, errorText: NOT_COMPLETED }))
  }

  function standingAt(
    { standing }: AnswerStretch,
    { seq }: SessionEvent,
    status = standing.status,
    error: UiRunState['error'] = null,
  ): UiChunk {
    Object.assign(standing, { seq, status, error: status === 'error' ? (error ?? standing.error) : null })
    return { type: 'message-metadata', messageMetadata: { pawl: { ...standing } } }
  }

  function chunksOf(event: SessionEvent, at: AnswerStretch): UiChunk[] {
    switch (event.type) {
      case 'model_completed':
        return event.turn === at.turn ? [...answer(event, at), standingAt(at, event)] : []
      case 'approval_requested':
      case 'tool_issued':
      case 'tool_attempt_failed':
      case 'approval_decided':
      case 'answer_requested':
      case 'answer_received':
      case 'tool_completed':
      case 'tool_resolved':
      case 'tool_failed':
      case 'tool_unknown': {
        const toolCallId = requestIdOf(event.callId)
        const call = at.calls.get(toolCallId)
        if (!call) return []
        const chunks = chunksOfCall(event, toolCallId, call, at)
        addToCall(call, event)
        return chunks
      }
      case 'run_completed':
        return [...endStretch(at), standingAt(at, event, 'completed')]
      case 'run_interrupted':
        return [...endStretch(at), standingAt(at, event, 'interrupted')]
      case 'error_entered':
        return [standingAt(at, event, 'error', { code: event.code, reason: failureText(event.code) })]
      // A session that was waiting for a worker recovers without a `recovery_started`.
      case 'recovery_started':
      case 'recovery_ended':
        return at.standing.status === 'error' ? [standingAt(at, event, 'running')] : []
      default:
        return []
    }
  }

  /** The recorded answer replaces the part that was shown. If that part is the answer's beginning, only the rest is added. */
  function answer(event: EventOf<'model_completed'>, at: AnswerStretch): UiChunk[] {
    const { run, turn } = event
    const recorded = visible(event.content, { run, turn }, at.used)
    const isBeginning =
      shown.length <= recorded.length &&
      shown.every(({ kind, text, id }, n) => kind === recorded[n]?.kind && startsWith(recorded[n], kind, text, id))
    const chunks = isBeginning ? [] : reset().map(({ chunk }) => chunk)
    const calls = event.calls
    for (const [n, block] of recorded.entries()) {
      if (block.kind === 'tool_use') {
        const call = at.calls.get(block.id)
        const resolution = calls.find(({ index }) => callIdOf(run, turn, index) === block.id)
        at.calls.set(block.id, { ...callOf(block, resolution), ...(call && { status: call.status }) })
        chunks.push(...inputOf(block.id, block.input ?? null, at))
      } else if (block.kind === 'provider') {
        at.provided.set(block.id, block.text)
        const { id: toolCallId, name: toolName = '', input = null } = block
        chunks.push({ type: 'tool-input-available', toolCallId, toolName, input, providerExecuted: true, dynamic: true })
      } else chunks.push(...restOf(block, shown[n]))
    }
    shown = []
    at.answered = true
    return [
      ...chunks,
      ...resultsOfProvider(event.content, at),
      ...sourcesOf(event.content).map((source, n) => sourceChunk(source, turn, n)),
    ]
  }

  /** Results of calls that this message shows. */
  function resultsOfProvider(content: readonly AssistantBlock[], { provided }: AnswerStretch): UiChunk[] {
    return content.filter(isProviderBlock).flatMap((block): UiChunk[] => {
      if (block.part !== 'result') return []
      const [toolCallId] = [...provided].find(([, id]) => id === block.id) ?? []
      if (toolCallId === undefined) return []
      provided.delete(toolCallId)
      const output = shownContent(block)
      return [
        block.is_error
          ? { type: 'tool-output-error', toolCallId, errorText: providerErrorText(output) }
          : { type: 'tool-output-available', toolCallId, output },
      ]
    })
  }

  /** A browser runs its client tools once their input is complete. Reading a stream again must not run them again. */
  function inputOf(toolCallId: string, input: Json, { calls }: AnswerStretch): UiChunk[] {
    const call = calls.get(toolCallId)
    if (!call) return []
    call.shownInput = briefly(input)
    const { tool: toolName, isClient } = call
    if (!isClient) return [{ type: 'tool-input-available', toolCallId, toolName, input, providerExecuted: true }]
    if (!isSettled(toolCallId)) return [{ type: 'tool-input-available', toolCallId, toolName, input }]
    return [
      { type: 'tool-input-start', toolCallId, toolName },
      { type: 'tool-input-delta', toolCallId, inputTextDelta: JSON.stringify(input) },
    ]
  }

  /** Shows the executed arguments, because a hook or a person may have changed the model's. */
  function changedInput(toolCallId: string, call: Call, input: Json, at: AnswerStretch): UiChunk[] {
    return call.shownInput === briefly(input) ? [] : inputOf(toolCallId, input, at)
  }

  /** `call`: the call as it was before the event. */
  function chunksOfCall(event: CallEvent, toolCallId: string, call: Call, at: AnswerStretch): UiChunk[] {
    switch (event.type) {
      case 'tool_issued':
        return changedInput(toolCallId, call, event.input, at)
      case 'approval_requested': {
        const approvalId = approvalIdOf(event.callId, event.digest)
        call.approvalId = approvalId
        const reason = errorTexts === 'masked' && event.reason !== undefined ? withoutErrorText(event.reason) : event.reason
        return [{ type: 'tool-approval-request', approvalId, toolCallId, ...defined({ reason }) }]
      }
      case 'approval_decided': {
        const { approvalId } = call
        const { approved, reason, input } = event
        if (approvalId === undefined) return []
        const changed = input === undefined ? [] : changedInput(toolCallId, call, input, at)
        const shownAs: UiChunk =
          show === 'pieces' ? { type: 'tool-approval-response', approvalId, approved, ...defined({ reason }) } : standingAt(at, event)
        return [...changed, shownAs]
      }
      case 'answer_requested': {
        if (!event.asks) return []
        const { digest, question } = event.asks
        const { from, message, schema, url } = question
        call.question = { callId: event.callId, toolCallId, digest, from, message, ...defined({ schema, url }) }
        return [questionChunk(call.question)]
      }
      case 'answer_received': {
        const { question } = call
        delete call.question
        return question && event.reply ? [questionChunk({ ...question, answered: event.reply.action })] : []
      }
      default:
        return ended(event, toolCallId, call)
    }
  }

  function ended(event: CallEvent, toolCallId: string, call: Call): UiChunk[] {
    const outcome = outcomeIn(event, call.status)
    if (!outcome || outcome.error?.asked) return []
    const { error } = outcome
    if (!error)
      return [{ type: 'tool-output-available', toolCallId, output: outputOf(event as EventOf<'tool_completed' | 'tool_resolved'>) }]
    if (error.code === 'denied' && call.approvalId !== undefined) return [{ type: 'tool-output-denied', toolCallId }]
    return [{ type: 'tool-output-error', toolCallId, errorText: callErrorText(error, errorTexts) }]
  }

  function delta({ run, turn }: { run: number; turn: number }, piece: ModelDelta): UiItem[] {
    if (show === 'steps' || stretch?.run !== run || stretch.turn !== turn || stretch.answered) return []
    if (piece.type === 'provider_call') return items(providerPiece(piece, stretch.used))
    const kind = KINDS[piece.type]
    const known = shown.find((one) => one.index === piece.index && one.kind === kind)
    if (piece.type === 'tool_input') return items(toolPiece(piece, known, { run, turn }))
    const text = piece.type === 'text' ? piece.text : piece.thinking
    const part = PARTS[piece.type]
    if (known) {
      known.text += text
      return items([{ type: `${part}-delta`, id: known.id, delta: text }])
    }
    const id = partIdOf(turn, shown.length)
    shown.push({ kind, index: piece.index, id, text })
    return items([
      { type: `${part}-start`, id },
      { type: `${part}-delta`, id, delta: text },
    ])
  }

  function providerPiece({ index, id, name }: ModelDelta & { type: 'provider_call' }, used: ReadonlyMap<string, number>): UiChunk[] {
    const before = shown.filter(({ kind }) => kind === 'provider')
    if (before.some((one) => one.index === index)) return []
    const toolCallId = providedIdOf(id, (used.get(id) ?? 0) + before.filter(({ text }) => text === id).length)
    shown.push({ kind: 'provider', index, id: toolCallId, text: id })
    return [{ type: 'tool-input-start', toolCallId, toolName: name, providerExecuted: true, dynamic: true }]
  }

  function toolPiece(
    { index, name, partialJson }: ModelDelta & { type: 'tool_input' },
    known: ShownBlock | undefined,
    at: { run: number; turn: number },
  ): UiChunk[] {
    // A call without a tool name cannot be shown before the answer is recorded.
    if (!known && name === undefined) return []
    const toolCallId = known?.id ?? callIdOf(at.run, at.turn, shown.filter(({ kind }) => kind === 'tool_use').length)
    const chunks: UiChunk[] = []
    if (!known) {
      shown.push({ kind: 'tool_use', index, id: toolCallId, text: name ?? '' })
      chunks.push({ type: 'tool-input-start', toolCallId, toolName: name ?? '' })
    }
    return partialJson === '' ? chunks : [...chunks, { type: 'tool-input-delta', toolCallId, inputTextDelta: partialJson }]
  }

  function reset(): UiItem[] {
    if (shown.length === 0) return []
    shown = []
    return items([{ type: 'reset-step' }])
  }

  return { event, delta, reset }
}

/** Whether no answer continues after the event, so that the next one begins with a user's message. */
function endsStretch(event: SessionEvent): boolean {
  return event.type === 'forked' || event.type === 'session_started' || (event.type === 'rolled_back' && !event.keepsRun)
}

const items = (chunks: readonly UiChunk[]): UiItem[] => chunks.map((chunk) => ({ chunk }))

const KINDS = { text: 'text', thinking: 'thinking', tool_input: 'tool_use' } as const
const PARTS = { text: 'text', thinking: 'reasoning' } as const

/** A block of an answer that users see. */
interface Visible {
  kind: ShownBlock['kind']
  /** The id of the part or of the call. */
  id: string
  text: string
  name?: string
  input?: Json
}

const partIdOf = (turn: number, place: number): string => `${turn}.${place}`

/** The id of a part for a call of a provider's tool. `before`: how many calls of the message have the same id of the provider. */
const providedIdOf = (id: string, before: number): string => (before === 0 ? id : `${id}#${before + 1}`)

/** `used`: counts the provider's ids of the message, in place. */
function visible(content: readonly AssistantBlock[], { run, turn }: { run: number; turn: number }, used: Map<string, number>): Visible[] {
  const blocks: Visible[] = []
  let calls = 0
  for (const block of content) {
    const id = partIdOf(turn, blocks.length)
    if (block.type === 'text' && block.text !== '') blocks.push({ kind: 'text', id, text: block.text })
    if (block.type === 'thinking' && block.thinking !== '') blocks.push({ kind: 'thinking', id, text: block.thinking })
    if (isProviderBlock(block) && block.part === 'call') {
      const before = used.get(block.id) ?? 0
      used.set(block.id, before + 1)
      blocks.push({ kind: 'provider', id: providedIdOf(block.id, before), text: block.id, name: block.name, input: block.input ?? {} })
    }
    if (block.type === 'tool_use') {
      blocks.push({ kind: 'tool_use', id: callIdOf(run, turn, calls++), text: '', name: block.name, input: block.input })
    }
  }
  return blocks
}

function startsWith(block: Visible | undefined, kind: ShownBlock['kind'], text: string, id: string): boolean {
  if (kind === 'provider') return block?.id === id
  return kind === 'tool_use' ? block?.name === text : (block?.text.startsWith(text) ?? false)
}

function sourceChunk(source: AnswerSource, turn: number, place: number): UiChunk {
  const sourceId = `${turn}.${place}`
  const { type, ...about } = source
  return type === 'url'
    ? { type: 'source-url', sourceId, ...(about as Omit<AnswerSource & { type: 'url' }, 'type'>) }
    : { type: 'source-document', sourceId, ...(about as Omit<AnswerSource & { type: 'document' }, 'type'>) }
}

/** The provider's code of the error. */
function providerErrorText(output: Json): string {
  const code = isObject(output) ? (output.error_code ?? output.errorCode) : undefined
  return typeof code === 'string' ? code : 'The provider reports that the call failed.'
}

/** The part of a recorded text that is not shown yet. */
function restOf({ kind, id, text }: Visible, shown: ShownBlock | undefined): UiChunk[] {
  const part = kind === 'thinking' ? 'reasoning' : 'text'
  const rest = text.slice(shown?.text.length ?? 0)
  return [
    ...(shown ? [] : [{ type: `${part}-start` as const, id }]),
    ...(rest === '' ? [] : [{ type: `${part}-delta` as const, id, delta: rest }]),
    { type: `${part}-end`, id },
  ]
}

function callOf({ name = '', input = null }: Visible, resolution: Resolution | undefined): Call {
  const { effect = 'read', client } = resolution ?? {}
  return { tool: name, shownInput: briefly(input), effect, isClient: client !== undefined && !client.agent, status: 'requested' }
}

const MAX_BRIEF = 200

function briefly(input: Json): string {
  const text = JSON.stringify(input)
  return text.length > MAX_BRIEF ? shortHash(text) : text
}

/** What a tool returned, as programs receive it. */
function outputOf({ value, content, blob }: EventOf<'tool_completed' | 'tool_resolved'>): unknown {
  return value ?? content ?? blob ?? null
}
