// The scripted model's next answer, from the transcript alone.
import { type AssistantBlock, type Message, textOf } from '../../src/session/content.ts'
import type { Task } from './workload.ts'

/** What a user writes to have a task carried out. */
export const requestFor = (task: Task) => `Task ${task.id}: ${task.instruction}`

/** The next ground-truth call of the task that the last user's text asks for, one per turn; the answer once all were made. */
export function nextStep(tasks: ReadonlyMap<string, Task>, messages: readonly Message[]): AssistantBlock[] {
  const asked = messages.findLastIndex((message) => message.role === 'user' && taskIdIn(message) !== undefined)
  const task = tasks.get((messages[asked] && taskIdIn(messages[asked])) ?? '')
  if (!task) return [{ type: 'text', text: 'Which task? Begin with "Task <id>:".' }]
  const step = messages.slice(asked + 1).filter((message) => message.role === 'assistant').length
  const action = task.actions[step]
  if (!action) return [{ type: 'text', text: `Done: ${task.outputs.join(', ')}` }]
  return [{ type: 'tool_use', id: `toolu_${step}`, name: action.name, input: action.kwargs }]
}

function taskIdIn(message: Message): string | undefined {
  return /^Task ([\w-]+):/.exec(textOf(message.content))?.[1]
}
