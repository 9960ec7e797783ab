// A model that is a function: deterministic, for tests and demos.
import type { Model, ModelCallContext, ModelRequest, ModelResponse } from '../agent/model.ts'
import { NO_USAGE } from '../session/content.ts'
import type { AssistantBlock } from '../session/content.ts'

/** What a script may answer: text, content blocks, or a whole response with the rest left out. */
export type ScriptedAnswer = string | AssistantBlock[] | (Partial<ModelResponse> & { content: AssistantBlock[] })

/**
 * A `Model` from a function of the request. It must be a function of the request alone, so that a repeated call answers the same.
 * Without a `stopReason`, an answer with tool_use blocks stops with `tool_use`, any other with `end_turn`.
 * Text is streamed as one delta a block.
 */
export function scripted(
  answer: (request: ModelRequest, ctx: ModelCallContext) => ScriptedAnswer | Promise<ScriptedAnswer>,
  options: { name?: string } = {},
): Model {
  return {
    name: options.name ?? 'scripted',
    async generate(request, ctx) {
      const given = await answer(request, ctx)
      const response = typeof given === 'string' ? { content: [{ type: 'text' as const, text: given }] } : Array.isArray(given) ? { content: given } : given
      for (const [index, block] of response.content.entries()) {
        if (block.type === 'text') ctx.onDelta({ type: 'text', index, text: block.text })
      }
      return {
        stopReason: response.content.some((block) => block.type === 'tool_use') ? 'tool_use' : 'end_turn',
        usage: NO_USAGE,
        ...response,
      }
    },
  }
}
