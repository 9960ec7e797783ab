// Which members of an AI SDK tool pawl supports. pawl refuses a member that would change the tool's behaviour, or warns about it; it never
// ignores one silently.
import { DeclarationError } from '../agent/errors.ts'
import { isObject } from '../session/json.ts'
import type { AiSdkToolMembers } from './ai-sdk-tool.ts'

/** Members that pawl reads, and members that are for user interfaces only. */
const SUPPORTED = new Set([
  'type',
  'description',
  'inputSchema',
  'outputSchema',
  'contextSchema',
  'inputExamples',
  'execute',
  'needsApproval',
  'toModelOutput',
  'title',
  'metadata',
  '_meta',
])

/** Callbacks for a model's answer as it streams. */
const LISTENERS = ['onInputStart', 'onInputDelta', 'onInputAvailable']

/** The tool's members. @throws DeclarationError `invalid_tool` for a member that pawl cannot support. */
export function supportedMembers(name: string, tool: unknown): AiSdkToolMembers {
  const refuse = (problem: string): DeclarationError => new DeclarationError('invalid_tool', `Tool "${name}" ${problem}`)
  if (!isObject(tool)) throw refuse('is not a tool of the AI SDK.')
  const { type, id, execute } = tool
  if (type === 'provider' || type === 'provider-defined' || id !== undefined) {
    const which = typeof id === 'string' ? ` (${id})` : ''
    throw refuse(
      `is defined by a model provider${which}, so pawl does not have its schema, its calls or its effect. Pass it to providerTool() if the provider runs it, or declare a tool() with an inputSchema and an execute of your own.`,
    )
  }
  if (type !== undefined && type !== 'function' && type !== 'dynamic')
    throw refuse(`has the type ${JSON.stringify(type)}, which pawl does not know. It accepts what tool() and dynamicTool() return.`)
  if (execute !== undefined && typeof execute !== 'function') throw refuse('has an execute that is not a function.')
  const listener = LISTENERS.find((member) => tool[member] !== undefined)
  if (listener !== undefined)
    throw refuse(
      `has ${listener}, which pawl does not call: a model call may be repeated after a crash. Pass { ...${name}, ${listener}: undefined }, and read the session's stream instead.`,
    )
  if (tool.experimental_toolCaller !== undefined)
    throw refuse('calls other tools itself (experimental_toolCaller), bypassing their effects. Let the model call them.')
  warnOfUnsent(name, tool)
  return tool
}

/** Warns about members that change only what the model sees, and about members of later releases. */
function warnOfUnsent(name: string, tool: Record<string, unknown>): void {
  const unsent = Object.keys(tool).filter((member) => !SUPPORTED.has(member) && tool[member] !== undefined && tool[member] !== false)
  if (unsent.length === 0) return
  const text = `pawl: Tool "${name}": pawl ignores ${unsent.join(', ')}, which it does not support in AI SDK tools.`
  process.emitWarning(text, { type: 'PawlWarning', code: 'PAWL_AI_SDK_TOOL' })
}

/** The description of the tool that the model receives, with its examples. @throws DeclarationError `invalid_tool` if there is none. */
export function descriptionOf(name: string, { description, inputExamples }: AiSdkToolMembers, own: unknown): string {
  const text = own ?? description
  if (typeof text !== 'string' || text.trim() === '') {
    const why = typeof text === 'function' ? 'has a description that depends on its context' : 'has no description'
    throw new DeclarationError('invalid_tool', `Tool "${name}" ${why}. Set one: effects: { ${name}: { effect: …, description: '…' } }.`)
  }
  if (!Array.isArray(inputExamples) || inputExamples.length === 0) return text
  return [text, '', 'Input Examples:', ...inputExamples.map(({ input }: { input: unknown }) => JSON.stringify(input))].join('\n')
}
