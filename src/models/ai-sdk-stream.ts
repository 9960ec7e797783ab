// Assembles the parts of an answer that the AI SDK streams into one ModelResponse. Checks every part, because it may come from any
// provider.
import type { ModelResponse, ProviderToolDefinition } from '../agent/model.ts'
import { isWebSearch } from '../agent/provider-tool.ts'
import type { ModelDelta } from '../session/watching/deltas.ts'
import type { AssistantBlock, ProviderBlock, AnswerSource, StopReason, Usage } from '../session/content.ts'
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
  sources?: AnswerSource[]
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

/** A part of a tool that the provider runs. A call has no `part` until it is complete. */
interface ProviderDraft {
  type: 'provider'
  of: ProviderBlock['part']
  id: unknown
  name: string
  part?: Part
  metadata?: JsonObject
}

/** A part of a type that pawl does not know. It is refused by name. */
interface UnknownDraft {
  type: 'unknown'
  name: string
  metadata?: JsonObject
}

type Draft = ProseDraft<'text'> | ProseDraft<'thinking'> | CallDraft | ProviderDraft | UnknownDraft
type Part = Record<string, unknown>

/** Starts assembling an answer; `onDelta` is called for each piece. `tools`: the request's tools that the provider runs. */
export function assembleParts(onDelta: (delta: ModelDelta) => void, tools: readonly ProviderToolDefinition[] = []): PartAssembly {
  const drafts: Draft[] = []
  let usage: Usage = NO_USAGE
  let model: string | undefined
  let finish: Finish | undefined
  let end: AnswerEnd | undefined

  function began<D extends Draft>(draft: D): D {
    drafts.push(draft)
    return draft
  }

  function growProse(type: ProseDraft['type'], { id, delta, providerMetadata, citations }: Part): void {
    const isSame = (one: Draft): one is ProseDraft<'text'> | ProseDraft<'thinking'> => one.type === type && one.id === id
    const draft = drafts.findLast(isSame) ?? began<ProseDraft>({ type, id, text: '' })
    noteMetadata(draft as Draft, providerMetadata)
    if (type === 'text' && Array.isArray(citations)) {
      draft.sources = [...(draft.sources ?? []), ...citations.flatMap((one) => sourcesIn((one as Part | null)?.source))]
    }
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

  /** The call of a tool that the provider runs; it may have begun before. */
  function providerCall(id: unknown, name: string): ProviderDraft {
    const known = drafts.find((one): one is ProviderDraft => one.type === 'provider' && one.of === 'call' && one.id === id)
    if (known) return known
    const draft = began<ProviderDraft>({ type: 'provider', of: 'call', id, name })
    if (name !== '') onDelta({ type: 'provider_call', index: drafts.indexOf(draft), id: textOr(id, ''), name })
    return draft
  }

  /** The result of such a call. A preliminary one is replaced by the next. */
  function providerResult(part: Part): void {
    const known = drafts.find((one): one is ProviderDraft => one.type === 'provider' && one.of === 'result' && one.id === part.toolCallId)
    const draft = known ?? began<ProviderDraft>({ type: 'provider', of: 'result', id: part.toolCallId, name: textOr(part.toolName, '') })
    draft.part = part
  }

  function searches(given: unknown): number {
    const names = tools.filter(isWebSearch).map(({ name }) => name)
    const results = drafts.filter((draft) => draft.type === 'provider' && draft.of === 'result' && names.includes(draft.name))
    return searchesReported(given) ?? results.filter((draft) => isSearch((draft as ProviderDraft).part?.result)).length
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
        case 'stream-start':
          end = unsupportedTool(part.warnings, tools)
          return
        case 'tool-input-start':
          if (part.providerExecuted === true) providerCall(part.id, textOr(part.toolName, ''))
          else noteMetadata(newCall(part.id, textOr(part.toolName, '')), part.providerMetadata)
          return
        case 'tool-input-delta':
          growCall(part)
          return
        case 'tool-call':
          if (part.providerExecuted === true) providerCall(part.toolCallId, textOr(part.toolName, '')).part = part
          else completeCall(part)
          return
        case 'tool-result':
          providerResult(part)
          return
        case 'source':
          began<ProviderDraft>({ type: 'provider', of: 'source', id: part.id, name: textOr(part.title, textOr(part.url, 'source')), part })
          return
        case 'response-metadata':
          if (typeof part.modelId === 'string') model = part.modelId
          return
        case 'finish':
          finish = finishOf(part.finishReason)
          usage = usageOf(part.usage, searches(part.providerMetadata))
          end = endOf(finish)
          return
        case 'error':
          end = { kind: 'failed', error: part.error }
          return
        default:
          if (!IGNORED.includes(part.type)) began<UnknownDraft>({ type: 'unknown', name: textOr(part.kind, textOr(part.type, 'unknown')) })
      }
    },
    end: () => end,
    response() {
      const stopReason = stopReasonOf(finish, drafts)
      return { content: drafts.flatMap((draft) => finished(draft, stopReason)), stopReason, usage, ...defined({ model }) }
    },
  }
}

/** Parts without content, and those that repeat what others say. */
const IGNORED: readonly unknown[] = ['tool-input-end', 'ping', 'raw']

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
  if (draft.type === 'unknown') return [{ type: draft.name } as unknown as AssistantBlock]
  if (draft.type === 'provider') return providerBlock(draft)
  const kept = draft.metadata && { providerMetadata: draft.metadata }
  if (draft.type === 'text')
    return draft.text === '' ? [] : [{ type: 'text', text: draft.text, ...(draft.sources?.length && { sources: draft.sources }), ...kept }]
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

/** A call that the provider did not complete has no part, and no result. */
function providerBlock({ of, id, name, part }: ProviderDraft): ProviderBlock[] {
  if (!part) return []
  const { type: _, preliminary: __, ...given } = part
  const input = of === 'call' ? jsonOr(given.input) : undefined
  const block = { ...given, ...(input !== undefined && { input }) } as JsonObject
  const sources = of === 'source' ? sourcesIn(part) : of === 'result' ? sourcesOfResult(part.result) : []
  return [
    {
      type: 'provider',
      part: of,
      id: textOr(id, ''),
      name,
      ...defined({ input }),
      ...(sources.length > 0 && { sources }),
      ...(part.isError === true && { is_error: true }),
      block,
    },
  ]
}

function jsonOr(given: unknown): Json {
  if (typeof given !== 'string') return (given ?? {}) as Json
  try {
    return given.trim() === '' ? {} : (JSON.parse(given) as Json)
  } catch {
    return given
  }
}

function sourcesIn(given: unknown): AnswerSource[] {
  const { sourceType, url, title, mediaType, filename } = (given ?? {}) as Part
  if (sourceType === 'url' && typeof url === 'string') return [{ type: 'url', url, ...(typeof title === 'string' && { title }) }]
  if (sourceType !== 'document') return []
  const about = { title: textOr(title, 'a document'), mediaType: textOr(mediaType, 'text/plain') }
  return [{ type: 'document', ...about, ...(typeof filename === 'string' && { filename }) }]
}

/** The pages that a search has found, where its provider names them as OpenAI and Anthropic do. */
function sourcesOfResult(result: unknown): AnswerSource[] {
  const { sources } = (result ?? {}) as Part
  const found: unknown[] = Array.isArray(result) ? result : Array.isArray(sources) ? sources : []
  return found.flatMap((one) => sourcesIn({ ...(one as object | null), sourceType: 'url' }))
}

/** Opening a page that a search has found is not billed as a search. */
function isSearch(result: unknown): boolean {
  const { action } = (result ?? {}) as { action?: { type?: unknown } | null }
  return action?.type === undefined || action.type === 'search'
}

/** Web searches as the metadata of the answer reports them: those of Anthropic's and Google's packages. */
function searchesReported(given: unknown): number | undefined {
  const { anthropic, google } = (given ?? {}) as {
    anthropic?: { usage?: { server_tool_use?: { web_search_requests?: unknown } | null } | null }
    google?: { groundingMetadata?: { webSearchQueries?: unknown } | null }
  }
  const counted = anthropic?.usage?.server_tool_use?.web_search_requests
  if (typeof counted === 'number') return counted
  const queries = google?.groundingMetadata?.webSearchQueries
  return Array.isArray(queries) ? queries.length : undefined
}

/** Packages leave out tools that their model does not have, with a warning. The agent would lack them in silence. */
function unsupportedTool(given: unknown, tools: readonly ProviderToolDefinition[]): AnswerEnd | undefined {
  if (tools.length === 0 || !Array.isArray(given)) return undefined
  const warning = (given as (Part | null)[]).find((one) => one?.type === 'unsupported' && /tool/i.test(textOr(one.feature, '')))
  if (!warning) return undefined
  const message = `The model does not support ${textOr(warning.feature, '')}. ${textOr(warning.details, '')}`.trim()
  return { kind: 'failed', error: { name: 'AI_UnsupportedFunctionalityError', message } }
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
function usageOf(given: unknown, searches: number): Usage {
  const { inputTokens, outputTokens } = (given ?? {}) as { inputTokens?: Part; outputTokens?: Part }
  const cacheRead = tokens(inputTokens?.cacheRead)
  const cacheWrite = tokens(inputTokens?.cacheWrite)
  const noCache = inputTokens?.noCache
  return {
    input_tokens: noCache == null ? tokens(inputTokens?.total) - cacheRead - cacheWrite : tokens(noCache),
    output_tokens: tokens(outputTokens?.total),
    cache_creation_input_tokens: cacheWrite,
    cache_read_input_tokens: cacheRead,
    ...(searches > 0 && { web_search_requests: searches }),
  }
}

function tokens(value: unknown): number {
  if (value == null) return 0
  return typeof value === 'number' ? value : Number.NaN
}

function textOr(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise
}
