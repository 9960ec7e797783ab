// A run's plan, as the user's message carries it: what the model asks for turn by turn, and what it answers at the end.
import type { ModelRequest, ToolUseBlock } from 'pawl'

/** One requested call. */
export interface PlannedCall {
  tool: string
  input: { name: string; ms?: number; tells?: boolean; how?: string; seconds?: number }
}

/** The calls of each turn. `crash`: the model kills its process instead of answering. */
export type Plan = (PlannedCall[] | 'crash')[]

/** The message that carries a plan. */
export const planText = (plan: Plan): string => JSON.stringify(plan)

/** The final answer of a run in which everything went as it would without kills. */
export function finalAnswer(plan: Plan): string {
  return answerOf(plan.flatMap((calls) => (calls === 'crash' ? [] : calls.map(({ tool, input }) => `${tool} ${input.name}`))))
}

/** What the model answers to the transcript: the calls of the next step, or the results so far; `'crash'` if the plan says so. */
export function planStep(messages: ModelRequest['messages']): ToolUseBlock[] | string {
  const start = messages.findLastIndex(({ role, content }) => role === 'user' && !resultsIn(content).length)
  const plan = JSON.parse(textIn(messages[start]?.content ?? '')) as Plan
  const since = messages.slice(start + 1)
  const step = plan[since.filter(({ role }) => role === 'assistant').length]
  if (step === undefined) return answerOf(since.flatMap(({ content }) => resultsIn(content)))
  if (step === 'crash') return step
  return step.map(({ tool, input }, index) => ({ type: 'tool_use', id: `toolu_${index}`, name: tool, input: { ...input } }))
}

const answerOf = (results: string[]): string => `Done: ${results.join('; ')}`

type Content = ModelRequest['messages'][number]['content']

function textIn(content: Content): string {
  if (typeof content === 'string') return content
  return content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')
}

/** The results in a message, as text. */
export function resultsIn(content: Content): string[] {
  if (typeof content === 'string') return []
  return content.flatMap((block) => (block.type === 'tool_result' ? [textIn(block.content)] : []))
}
