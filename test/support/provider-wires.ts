// The streams of OpenAI's and Google's APIs as their servers write them, so that the AI SDK's packages for them read real bytes over HTTP.
import { createGoogleGenerativeAI as googleV4 } from '../ai-sdk-7/google.ts'
import { createGoogleGenerativeAI as googleV3 } from '@ai-sdk/google'
import { createOpenAI as openaiV4 } from '../ai-sdk-7/openai.ts'
import { createOpenAI as openaiV3 } from '@ai-sdk/openai'
import type { WireAnswer } from './wire-server.ts'
import type { LanguageModel } from '../../src/models/ai-sdk-types.ts'

/** What a model answers. */
export interface WireAnswerSpec {
  thinking?: { text: string; signature: string }
  text?: string[]
  calls?: { id: string; name: string; json: string[] }[]
  stop: 'stop' | 'length' | 'filter'
  /** `input` includes `cached`. `undefined`: the API does not report it. */
  usage?: { input: unknown; cached?: number; output: unknown; thinking?: number }
}

/** One provider's API and the packages that speak it. */
export interface Wire {
  name: string
  model(url: string): LanguageModel
  /** The chunks of a streamed answer, each an event. */
  chunks(spec: WireAnswerSpec): string[]
  /** A chunk that says that the provider failed in the middle of its answer. */
  trouble(message: string): string
  /** The body of a refused request. */
  refusal(status: number, code: string, message: string): object
  /** The model that the answers name. */
  answers: string
  /** Whether the arguments of a call are text on the wire rather than an object. */
  argumentsAreText: boolean
  /** Whether thinking goes over the wire. */
  hasThinking: boolean
}

const event = (data: object | string, type?: string): string =>
  `${type === undefined ? '' : `event: ${type}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`

const openaiRefusal = (_status: number, code: string, message: string) => ({ error: { message, type: code, param: null, code } })

function responses(version: string, make: (url: string) => LanguageModel): Wire {
  const model = 'gpt-5.4-2026-03-05'
  const sent = (data: { type: string } & Record<string, unknown>) => event(data, data.type)
  return {
    name: `OpenAI's Responses API by specification ${version}`,
    model: make,
    answers: model,
    argumentsAreText: true,
    hasThinking: true,
    refusal: openaiRefusal,
    trouble: (message) =>
      sent({ type: 'error', sequence_number: 3, error: { type: 'server_error', code: 'server_error', message, param: null } }),
    chunks({ thinking, text, calls = [], stop, usage }) {
      const out = [sent({ type: 'response.created', response: { id: 'resp_1', created_at: 1, model, service_tier: null } })]
      let at = 0
      if (thinking) {
        const place = { item_id: 'rs_1', output_index: at, summary_index: 0 }
        const item = { type: 'reasoning', id: 'rs_1', encrypted_content: null, summary: [] }
        const done = { ...item, encrypted_content: thinking.signature, summary: [{ type: 'summary_text', text: thinking.text }] }
        out.push(
          sent({ type: 'response.output_item.added', output_index: at, item }),
          sent({ type: 'response.reasoning_summary_part.added', ...place, part: { type: 'summary_text', text: '' } }),
          sent({ type: 'response.reasoning_summary_text.delta', ...place, delta: thinking.text }),
          sent({ type: 'response.reasoning_summary_part.done', ...place, part: { type: 'summary_text', text: thinking.text } }),
          sent({ type: 'response.output_item.done', output_index: at++, item: done }),
        )
      }
      if (text) {
        const item = { type: 'message', id: 'msg_1', role: 'assistant', content: [] }
        out.push(
          sent({ type: 'response.output_item.added', output_index: at, item }),
          ...text.map((delta) =>
            sent({ type: 'response.output_text.delta', item_id: 'msg_1', output_index: at, content_index: 0, delta, logprobs: [] }),
          ),
          sent({ type: 'response.output_item.done', output_index: at++, item }),
        )
      }
      for (const { id, name, json } of calls) {
        const item = { type: 'function_call', id: `fc_${id}`, call_id: id, name, arguments: '', status: 'in_progress' }
        out.push(
          sent({ type: 'response.output_item.added', output_index: at, item }),
          ...json.map((delta) => sent({ type: 'response.function_call_arguments.delta', item_id: item.id, output_index: at, delta })),
          sent({
            type: 'response.output_item.done',
            output_index: at++,
            item: { ...item, arguments: json.join(''), status: 'completed' },
          }),
        )
      }
      const reason = { stop: null, length: 'max_output_tokens', filter: 'content_filter' }[stop]
      const type = reason === null ? 'response.completed' : 'response.incomplete'
      const used = usage && {
        input_tokens: usage.input,
        input_tokens_details: { cached_tokens: usage.cached ?? 0 },
        output_tokens: usage.output,
        output_tokens_details: { reasoning_tokens: usage.thinking ?? 0 },
      }
      out.push(sent({ type, response: { incomplete_details: reason && { reason }, usage: used ?? ZERO, service_tier: null } }))
      return out
    },
  }
}

const ZERO = { input_tokens: 0, output_tokens: 0 }

function chat(version: string, make: (url: string) => LanguageModel): Wire {
  const model = 'gpt-4.1-2025-04-14'
  const sent = (delta: object, finish_reason: string | null = null) =>
    event({ id: 'chatcmpl-1', created: 1, model, choices: [{ index: 0, delta, finish_reason }] })
  return {
    name: `OpenAI's Chat Completions by specification ${version}`,
    model: make,
    answers: model,
    argumentsAreText: true,
    hasThinking: false,
    refusal: openaiRefusal,
    trouble: (message) => event({ error: { message, type: 'server_error', param: null, code: 'server_error' } }),
    chunks({ text = [], calls = [], stop, usage }) {
      const reason = { stop: calls.length > 0 ? 'tool_calls' : 'stop', length: 'length', filter: 'content_filter' }[stop]
      const used = usage && {
        prompt_tokens: usage.input,
        completion_tokens: usage.output,
        prompt_tokens_details: { cached_tokens: usage.cached ?? 0 },
      }
      return [
        sent({ role: 'assistant', content: '' }),
        ...text.map((content) => sent({ content })),
        ...calls.flatMap(({ id, name, json }, index) => [
          sent({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }),
          ...json.map((args) => sent({ tool_calls: [{ index, function: { arguments: args } }] })),
        ]),
        sent({}, reason),
        ...(used ? [event({ id: 'chatcmpl-1', created: 1, model, choices: [], usage: used })] : []),
        event('[DONE]'),
      ]
    },
  }
}

function gemini(version: string, make: (url: string) => LanguageModel): Wire {
  const model = 'gemini-3.5-flash'
  const sent = (parts: object[], more: object = {}) =>
    event({ candidates: [{ content: { role: 'model', parts }, index: 0, ...more }], modelVersion: model, responseId: 'r1' })
  return {
    name: `Google's Gemini API by specification ${version}`,
    model: make,
    answers: model,
    argumentsAreText: false,
    hasThinking: true,
    refusal: (status, code, message) => ({ error: { code: status, message, status: code } }),
    trouble: (message) => event({ error: { code: 503, message, status: 'UNAVAILABLE' } }),
    chunks({ thinking, text = [], calls = [], stop, usage }) {
      const finishReason = { stop: 'STOP', length: 'MAX_TOKENS', filter: 'SAFETY' }[stop]
      const usageMetadata = usage && {
        promptTokenCount: usage.input,
        cachedContentTokenCount: usage.cached ?? 0,
        candidatesTokenCount: usage.output,
        thoughtsTokenCount: usage.thinking ?? 0,
        totalTokenCount: 0,
      }
      return [
        ...(thinking
          ? [sent([{ text: thinking.text, thought: true, ...(calls.length === 0 && { thoughtSignature: thinking.signature }) }])]
          : []),
        ...text.map((piece) => sent([{ text: piece }])),
        // Gemini signs the first of an answer's calls.
        ...calls.map(({ name, json }, index) =>
          sent([
            {
              functionCall: { name, args: JSON.parse(json.join('') || '{}') },
              ...(thinking && index === 0 && { thoughtSignature: thinking.signature }),
            },
          ]),
        ),
        event({
          candidates: [{ content: { role: 'model', parts: [{ text: '' }] }, index: 0, finishReason }],
          ...(usageMetadata && { usageMetadata }),
          modelVersion: model,
          responseId: 'r1',
        }),
      ]
    },
  }
}

/** The stream of an answer of Anthropic's Messages API. */
export function anthropicChunks({ thinking, text = [], calls = [], stop, usage }: WireAnswerSpec): string[] {
  const sent = (data: { type: string } & Record<string, unknown>) => event(data, data.type)
  const stopReason = { stop: calls.length > 0 ? 'tool_use' : 'end_turn', length: 'max_tokens', filter: 'refusal' }[stop]
  const blocks: { start: object; deltas: object[] }[] = [
    ...(thinking
      ? [
          {
            start: { type: 'thinking', thinking: '', signature: '' },
            deltas: [
              { type: 'thinking_delta', thinking: thinking.text },
              { type: 'signature_delta', signature: thinking.signature },
            ],
          },
        ]
      : []),
    ...(text.length > 0 ? [{ start: { type: 'text', text: '' }, deltas: text.map((piece) => ({ type: 'text_delta', text: piece })) }] : []),
    ...calls.map(({ id, name, json }) => ({
      start: { type: 'tool_use', id, name, input: {} },
      deltas: json.map((partial_json) => ({ type: 'input_json_delta', partial_json })),
    })),
  ]
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-sonnet-5-5', content: [], stop_reason: null }
  return [
    sent({ type: 'message_start', message: { ...message, usage: { input_tokens: usage?.input ?? 0, output_tokens: 1 } } }),
    ...blocks.flatMap(({ start, deltas }, index) => [
      sent({ type: 'content_block_start', index, content_block: start }),
      ...deltas.map((delta) => sent({ type: 'content_block_delta', index, delta })),
      sent({ type: 'content_block_stop', index }),
    ]),
    sent({ type: 'message_delta', delta: { stop_reason: stopReason, stop_sequence: null }, usage: { output_tokens: usage?.output ?? 0 } }),
    sent({ type: 'message_stop' }),
  ]
}

const apiKey = 'test'

/** The APIs, for both versions of the language model specification. */
export const WIRES: Wire[] = [
  responses('v4', (url) => openaiV4({ apiKey, baseURL: `${url}/v1` })('gpt-5.4')),
  responses('v3', (url) => openaiV3({ apiKey, baseURL: `${url}/v1` })('gpt-5.4')),
  chat('v4', (url) => openaiV4({ apiKey, baseURL: `${url}/v1` }).chat('gpt-4.1')),
  chat('v3', (url) => openaiV3({ apiKey, baseURL: `${url}/v1` }).chat('gpt-4.1')),
  gemini('v4', (url) => googleV4({ apiKey, baseURL: `${url}/v1beta` })('gemini-3.5-flash')),
  gemini('v3', (url) => googleV3({ apiKey, baseURL: `${url}/v1beta` })('gemini-3.5-flash')),
]

/** Answers with these chunks, each written separately, and then does what `end` says; a function is called, and the stream stays open. */
export function streamed(chunks: readonly string[], end: 'end' | 'open' | 'destroy' | (() => void) = 'end'): WireAnswer {
  return (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.flushHeaders()
    const write = (at: number): void => {
      const chunk = chunks[at]
      if (chunk !== undefined) res.write(chunk, () => setImmediate(write, at + 1))
      else if (end === 'end') res.end()
      else if (end === 'destroy') res.destroy()
      else if (typeof end === 'function') end()
    }
    write(0)
  }
}

/** Refuses the request. */
export function refused(wire: Wire, status: number, code: string, message: string, headers: Record<string, string> = {}): WireAnswer {
  return (res) => {
    res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(wire.refusal(status, code, message)))
  }
}
