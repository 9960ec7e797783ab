// A conversation: a step for each model and tool call.
import { ask, fill } from '../../program.mjs'

/** Runs turns until the model requests no call. */
export async function conversation(said) {
  'use workflow'
  const messages = [{ role: 'user', content: JSON.stringify(said) }]
  for (let turn = 1; ; turn += 1) {
    const message = await model(messages, turn)
    if (!message) return 'done'
    const call = message.content[0]
    const content = await tool(call.input)
    messages.push(message, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content }] })
  }
}

async function model(messages, turn) {
  'use step'
  const input = ask(JSON.parse(messages[0].content), turn)
  return input && { role: 'assistant', content: [{ type: 'tool_use', id: `toolu_${turn}`, name: 'fill', input }] }
}

async function tool(input) {
  'use step'
  return fill(input)
}
