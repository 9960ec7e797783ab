// The memory option of an agent: the blocks that it declares, and the definitions of the memory tools.
import type { JsonObject } from '../session/json.ts'
import type { MemoryLimit } from '../session/built-in-tools/memory.ts'
import type { MemoryTool } from '../session/built-in-tools/memory-tools.ts'
import { numberText } from '../session/number-text.ts'
import type { ToolDefinition } from './model.ts'

/** Maximum blocks of an agent, and maximum characters of all of them together. */
const MEMORY_LIMITS = { blocks: 20, chars: 30_000 } as const

/** What the option accepts, for error messages. */
export const MEMORY_EXPECTED = `a list of { block, maxChars } with at most ${MEMORY_LIMITS.blocks} blocks: block has 1 to 64 characters of [A-Za-z0-9_-], maxChars is an integer from 1, and all of them together allow at most ${numberText(MEMORY_LIMITS.chars)} characters`

const BLOCK = /^[A-Za-z0-9_-]{1,64}$/

/** Whether the option is a list of blocks within the limits. Does not check for repeated names. */
export function isMemoryOption(given: unknown): given is readonly MemoryLimit[] {
  if (!Array.isArray(given) || given.length > MEMORY_LIMITS.blocks || !given.every(isLimit)) return false
  return given.reduce((sum, { maxChars }) => sum + maxChars, 0) <= MEMORY_LIMITS.chars
}

function isLimit(given: unknown): given is MemoryLimit {
  if (given === null || typeof given !== 'object' || Object.keys(given).some((name) => name !== 'block' && name !== 'maxChars'))
    return false
  const { block, maxChars } = given as Partial<MemoryLimit>
  return typeof block === 'string' && BLOCK.test(block) && Number.isInteger(maxChars) && Number(maxChars) > 0
}

/** The memory tools as the model receives them. */
export function memoryDefinitions(blocks: readonly MemoryLimit[]): ToolDefinition[] {
  const limits = blocks.map(({ block, maxChars }) => `${block} (at most ${maxChars} characters)`).join(', ')
  const schema = (properties: JsonObject, required: string[]): JsonObject => ({
    type: 'object',
    properties: {
      block: { type: 'string', enum: blocks.map(({ block }) => block), description: 'The name of the block.' },
      ...properties,
    },
    required: ['block', ...required],
    additionalProperties: false,
  })
  const tools: Record<MemoryTool, Omit<ToolDefinition, 'name'>> = {
    memory_append: {
      description: `Adds text to a block of your memory, on a new line. The memory survives when the conversation is cut or resumed. Text that the block already ends with is not added twice. Blocks: ${limits}.`,
      input_schema: schema({ content: { type: 'string', minLength: 1, description: 'The text to add.' } }, ['content']),
    },
    memory_replace: {
      description: `Replaces text in a block of your memory: the part that \`old\` names, or the whole block. Empty \`content\` deletes it. Blocks: ${limits}.`,
      input_schema: schema(
        {
          content: { type: 'string', description: 'The new text.' },
          old: {
            type: 'string',
            description: 'The text to replace, exactly as it is in the block, where it occurs once. Default: the whole block.',
          },
        },
        ['content'],
      ),
    },
  }
  return Object.entries(tools).map(([name, tool]) => ({ name, ...tool }))
}
