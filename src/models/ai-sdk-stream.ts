// Assembles the parts of an answer that the AI SDK streams into one ModelResponse. Checks every part, because it may come from any
// provider.
import type { ModelResponse } from '../agent/model.ts'
import type { ModelDelta } from '../session/watching/deltas.ts'
import type { AssistantBlock, StopReason, Usage } from '../session/content.ts'
import { NO_USAGE } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import type { Json, JsonObject } from '../session/json.ts'

/** An answer that is being received. */
export interface PartAssembly {
  accept(part: unknown): void
  /** How the answer ended; undefined while it is in progress. */
  end(): AnswerEnd | undefined
  /** The answer; usable once it is complete. */
  response(): ModelResponse
}

/**
 * `complete`: the answer is usable. `cut`: the stream ended before the provider gave a reason. `failed`: the provider abandoned the answer;
 * `error` is what it reported.
 */
export type AnswerEnd = { kind: 'complete' } | { kind: 'cut' } | { kind: 'failed'; error: unknown }

interface ProseDraft<T extends 'text' | 'thinking' = 'text' | 'thinking'> {
  type: T
  id: unknown
  text: string
  metadata?: JsonObject
}

/** `input`: the arguments of the completed call. Until then there are only `pieces`. */
interface CallDraft {
  type: 'tool_use'
  id: unknown
  name: string
  pieces: string
  input?: string
  metadata?: JsonObject
}

type Draft = ProseDraft<'text'> | ProseDraft<'thinking'> | CallDraft
type Part = Record<string, unknown>

/** Starts assembling an answer; `onDelta` is called for each piece. */
export function assembleParts(onDelta: (delta: ModelDelta) => void): PartAssembly {
  const drafts: Draft[] = []
  let usage: Usage = NO_USAGE
  let model: string | undefined
  let finish: Finish | undefined
  let end: AnswerEnd | undefined

  function began<D extends Draft>(draft: D): D {
    drafts.push(draft)
    return draft
  }

  function growProse(type: ProseDraft['type'], { id, delta, providerMetadata }: Part): void {
    const draft = drafts.findLast((one) => one.type === type && one.id === id) ?? began({ type, id, text: '' })
    if (draft.type === 'tool_use') return
    noteMetadata(draft, providerMetadata)
    if (typeof delta !== 'string' || delta === '') return
    draft.text += delta
    const index = drafts.indexOf(draft)
    onDelta(type === 'text' ? { type, index, text: delta } : { type, index, thinking: delta })
  }

  function growCall({ id, delta }: Part): void {
    const draft = drafts.findLast((one): one is CallDraft => isOpenCall(one) && one.id === id)
    if (!draft || typeof delta !== 'string' || delta === '') return
    draft.pieces += delta
    onDelta({ type: 'tool_input', index: drafts.indexOf(draft), partialJson: delta })
  }

  /** The complete call. If its id differs from that of its pieces, it belongs to the first incomplete call of the same tool. */
  function completeCall({ toolCallId, toolName, input, providerMetadata }: Part): void {
    const name = textOr(toolName, '')
    const open = drafts.filter(isOpenCall)
    const draft = open.find(({ id }) => id === toolCallId) ?? open.find((one) => one.name === name) ?? newCall(toolCallId, name)
    draft.id = toolCallId
    draft.name = name
    draft.input = typeof input === 'string' ? input : (JSON.stringify(input) ?? '')
    noteMetadata(draft, providerMetadata)
    if (draft.pieces === '' && draft.input !== '') onDelta({ type: 'tool_input', index: drafts.indexOf(draft), partialJson: draft.input })
  }

  function newCall(id: unknown, name: string): CallDraft {
    const draft = began<CallDraft>({ type: 'tool_use', id, name, pieces: '' })
    if (name !== '') onDelta({ type: 'tool_input', index: drafts.indexOf(draft), partialJson: '', name })
    return draft
  }

  return {
    accept(given) {
      if (typeof given !== 'object' || given === null || end) return
      const part = given as Part
      switch (part.type) {
        case 'text-start':
          noteMetadata(began({ type: 'text', id: part.id, text: '' }), part.providerMetadata)
          return
        case 'reasoning-start':
          noteMetadata(began({ type: 'thinking', id: part.id, text: '' }), part.providerMetadata)
          return
        case 'text-delta':
        case 'text-end':
          growProse('text', part)
          return
        case 'reasoning-delta':
        case 'reasoning-end':
          growProse('thinking', part)
          return
        // Omits tools that the provider runs, and their results, because pawl never offers them.
        case 'tool-input-start':
          if (part.providerExecuted !== true) noteMetadata(newCall(part.id, textOr(part.toolName, '')), part.providerMetadata)
          return
        case 'tool-input-delta':
          growCall(part)
          return
        case 'tool-call':
          if (part.providerExecuted !== true) completeCall(part)
          return
        case 'response-metadata':
          if (typeof part.modelId === 'string') model = part.modelId
          return
        case 'finish':
          finish = finishOf(part.finishReason)
          usage = usageOf(part.usage)
          end = endOf(finish)
          return
        case 'error':
          end = { kind: 'failed', error: part.error }
          return
      }
    },
    end: () => end,
    response() {
      const stopReason = stopReasonOf(finish, drafts)
      return { content: drafts.flatMap((draft) => finished(draft, stopReason)), stopReason, usage, ...defined({ model }) }
    },
  }
}

const isOpenCall = (draft: Draft): draft is CallDraft => draft.type === 'tool_use' && draft.input === undefined

/** Later parts of a block may add to its metadata: it is merged by provider. */
function noteMetadata(draft: Draft, given: unknown): void {
  if (typeof given !== 'object' || given === null) return
  const metadata: JsonObject = { ...draft.metadata }
  for (const [provider, values] of Object.entries(given as Record<string, Json | undefined>)) {
    if (typeof values !== 'object' || values === null || Array.isArray(values)) continue
    metadata[provider] = { ...(metadata[provider] as JsonObject | undefined), ...values }
  }
  if (Object.keys(metadata).length > 0) draft.metadata = metadata
}

/** Drops empty blocks, which must not be sent back. Thinking may have empty text and all its content in the metadata. */
function finished(draft: Draft, stopReason: StopReason): AssistantBlock[] {
  const kept = draft.metadata && { providerMetadata: draft.metadata }
  if (draft.type === 'text') return draft.text === '' ? [] : [{ type: 'text', text: draft.text, ...kept }]
  if (draft.type === 'thinking') {
    return draft.text === '' && !kept ? [] : [{ type: 'thinking', thinking: draft.text, signature: '', ...kept }]
  }
  return [{ type: 'tool_use', id: textOr(draft.id, ''), name: draft.name, input: inputOf(draft, stopReason), ...kept }]
}

/**
 * The arguments of a call. Text that is not JSON stays text, so that the call gets an error result from which the model can learn. The
 * pieces of a call that the provider did not complete also stay text. Empty text means no arguments, but only if the model completed its
 * call.
 */
function inputOf({ input, pieces }: CallDraft, stopReason: StopReason): Json {
  if (input === undefined) return pieces
  if (input.trim() === '') return stopReason === 'tool_use' ? {} : ''
  try {
    return JSON.parse(input) as Json
  } catch {
    return input
  }
}

/** Why the model stopped: the AI SDK's reason, and the provider's own. */
interface Finish {
  unified: string
  raw: string | undefined
}

function finishOf(given: unknown): Finish {
  const { unified, raw } = (typeof given === 'object' && given !== null ? given : { unified: given }) as Part
  return { unified: textOr(unified, 'other'), raw: typeof raw === 'string' ? raw : undefined }
}

/**
 * Provider packages end every stream with a finish part, even one that was cut off. A stream that was cut off has no reason from the
 * provider.
 */
function endOf({ unified, raw }: Finish): AnswerEnd {
  if (unified === 'error') return { kind: 'failed', error: `The provider abandoned the answer${raw === undefined ? '' : ` (${raw})`}.` }
  if (unified === 'interrupted' || (unified === 'other' && raw === undefined)) return { kind: 'cut' }
  return { kind: 'complete' }
}

/** Providers' own reasons that the AI SDK's unified ones do not distinguish. */
const RAW: Record<string, StopReason> = {
  stop_sequence: 'stop_sequence',
  pause_turn: 'pause_turn',
  refusal: 'refusal',
  model_context_window_exceeded: 'model_context_window_exceeded',
}
const UNIFIED: Record<string, StopReason> = { length: 'max_tokens', 'content-filter': 'refusal', 'tool-calls': 'tool_use' }

/** Any other reason counts as the end of the answer: `tool_use` with calls, otherwise `end_turn`. */
function stopReasonOf(finish: Finish | undefined, drafts: readonly Draft[]): StopReason {
  const { unified = '', raw = '' } = finish ?? {}
  const known = RAW[raw] ?? UNIFIED[unified]
  return known ?? (drafts.some((draft) => draft.type === 'tool_use') ? 'tool_use' : 'end_turn')
}

/** Tokens by how they were billed. Passes invalid values on; pawl logs them and records 0. */
function usageOf(given: unknown): Usage {
  const { inputTokens, outputTokens } = (given ?? {}) as { inputTokens?: Part; outputTokens?: Part }
  const cacheRead = tokens(inputTokens?.cacheRead)
  const cacheWrite = tokens(inputTokens?.cacheWrite)
  const noCache = inputTokens?.noCache
  return {
    input_tokens: noCache == null ? tokens(inputTokens?.total) - cacheRead - cacheWrite : tokens(noCache),
    output_tokens: tokens(outputTokens?.total),
    cache_creation_input_tokens: cacheWrite,
    cache_read_input_tokens: cacheRead,
  }
}

function tokens(value: unknown): number {
  if (value == null) return 0
  return typeof value === 'number' ? value : Number.NaN
}

function textOr(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise
}
