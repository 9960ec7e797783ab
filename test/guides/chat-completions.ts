// The example of docs/models.md, compiled and run by our tests: a Model over any API that speaks OpenAI's chat completions.
// #region guide
import { type Message, type Model, ModelError, type StopReason } from '../../src/models/index.ts'

interface ChatCompletion {
  choices: { finish_reason: string; message: { content: string | null; tool_calls?: ToolCall[] } }[]
  usage: { prompt_tokens: number; completion_tokens: number }
}
interface ToolCall {
  id: string
  type: 'function'
  function: { name: string; arguments: string }
}

const STOPS: Record<string, StopReason> = { length: 'max_tokens', tool_calls: 'tool_use', content_filter: 'refusal' }

export function chatCompletions(name: string, options: { baseURL: string; apiKey: string }): Model {
  return {
    name,
    async generate(request, ctx) {
      const response = await fetch(`${options.baseURL}/chat/completions`, {
        method: 'POST',
        signal: ctx.signal,
        headers: { 'content-type': 'application/json', authorization: `Bearer ${options.apiKey}` },
        body: JSON.stringify({
          model: name,
          max_completion_tokens: request.maxTokens,
          messages: [{ role: 'system', content: request.system }, ...request.messages.flatMap(toChat)],
          ...(request.tools.length > 0 && {
            tools: request.tools.map(({ input_schema, ...tool }) => ({
              type: 'function',
              function: { ...tool, parameters: input_schema },
            })),
          }),
        }),
      })
      if (!response.ok) {
        throw new ModelError(`http_${response.status}`, `${name}: ${await response.text()}`, {
          retryable: response.status === 429 || response.status >= 500,
          retryAfter: 1000 * Number(response.headers.get('retry-after') ?? 0) || undefined,
          status: response.status,
        })
      }
      const { choices, usage } = (await response.json()) as ChatCompletion
      const [choice] = choices
      if (!choice) throw new ModelError('empty_response', `${name}: the answer has no choices. Try again.`, { retryable: true })
      const { content, tool_calls: calls = [] } = choice.message
      if (content) ctx.onDelta({ type: 'text', index: 0, text: content })
      return {
        content: [
          ...(content ? [{ type: 'text' as const, text: content }] : []),
          ...calls.map((call) => ({ type: 'tool_use' as const, id: call.id, name: call.function.name, input: argumentsOf(call) })),
        ],
        stopReason: STOPS[choice.finish_reason] ?? 'end_turn',
        usage: {
          input_tokens: usage.prompt_tokens,
          output_tokens: usage.completion_tokens,
        },
      }
    },
  }
}

/** Arguments that are not JSON stay text: pawl answers the call with an error result, which the model reads. */
function argumentsOf({ function: { arguments: json } }: ToolCall) {
  try {
    return JSON.parse(json)
  } catch {
    return json
  }
}

/** Text and tools only: this example sends no images and no thinking. */
function toChat({ role, content }: Message): object[] {
  if (typeof content === 'string') return [{ role, content }]
  const text = content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')
  const calls = content.flatMap((block) =>
    block.type === 'tool_use'
      ? [{ id: block.id, type: 'function', function: { name: block.name, arguments: JSON.stringify(block.input) } }]
      : [],
  )
  const results = content.flatMap((block) =>
    block.type === 'tool_result'
      ? [
          {
            role: 'tool',
            tool_call_id: block.tool_use_id,
            content: typeof block.content === 'string' ? block.content : JSON.stringify(block.content),
          },
        ]
      : [],
  )
  if (calls.length > 0) return [{ role, content: text || null, tool_calls: calls }]
  return [...results, ...(text ? [{ role, content: text }] : [])]
}
// #endregion
