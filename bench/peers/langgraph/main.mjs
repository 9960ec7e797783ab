// A graph of a model node and the prebuilt tool node, with the Postgres checkpointer. The variant is the durability, and the channel of the
// messages: `full` stores all of them at each step, `delta` what each step adds.
import { AIMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { END, MessagesDeltaValue, MessagesValue, START, StateGraph, StateSchema } from '@langchain/langgraph'
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { z } from 'zod'
import { ask, fill, serve, setting, settled } from '../program.mjs'

const [durability, channel] = setting.variant.split(' ')

const fillTool = tool((input) => fill(input), {
  name: 'fill',
  description: 'Answers with filler text.',
  schema: z.object({ id: z.string(), turn: z.number(), hold: z.boolean() }),
})

function model({ messages }) {
  const turn = 1 + messages.filter((message) => message.getType() === 'ai').length
  const args = ask(JSON.parse(messages[0].content), turn)
  const calls = args ? [{ id: `toolu_${turn}`, name: 'fill', args, type: 'tool_call' }] : []
  return { messages: [new AIMessage({ id: `ai_${turn}`, content: '', tool_calls: calls })] }
}

const State = new StateSchema({ messages: channel === 'delta' ? MessagesDeltaValue : MessagesValue })
const checkpointer = PostgresSaver.fromConnString(setting.databaseUrl)
await checkpointer.setup()
const graph = new StateGraph(State)
  .addNode('model', model)
  .addNode('tools', new ToolNode([fillTool]))
  .addEdge(START, 'model')
  .addConditionalEdges('model', ({ messages }) => (messages.at(-1).tool_calls.length > 0 ? 'tools' : END), ['tools', END])
  .addEdge('tools', 'model')
  .compile({ checkpointer })

async function run(said, input) {
  await graph.invoke(input, { configurable: { thread_id: said.id }, durability, recursionLimit: 10 * said.turns })
  settled(said.id)
}

// Nothing resumes by itself: an application must know which threads were running.
if (setting.resume) void run(setting.resume, null)

await serve(
  (said) => run(said, { messages: [{ role: 'user', content: JSON.stringify(said), id: 'user' }] }),
  () => checkpointer.end(),
)
