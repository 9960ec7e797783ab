// A conversation as the plugin's documentation writes it.
import { TemporalProvider } from '@temporalio/ai-sdk/workflow'
import { proxyActivities } from '@temporalio/workflow'
import { generateText, jsonSchema, tool } from 'ai'

// A killed model call would otherwise be retried after ten minutes.
const provider = new TemporalProvider({ languageModel: { startToCloseTimeout: '1 minute', retry: { initialInterval: '100ms' } } })
const activities = proxyActivities({ startToCloseTimeout: '15 minutes', heartbeatTimeout: '1s', retry: { initialInterval: '100ms' } })

/** Runs turns until the model requests no call. */
export async function conversation(said) {
  const fill = tool({
    description: 'Answers with filler text.',
    inputSchema: jsonSchema({
      type: 'object',
      properties: { id: { type: 'string' }, turn: { type: 'number' }, hold: { type: 'boolean' } },
    }),
    execute: (input) => activities.fill(input),
  })
  await generateText({
    model: provider.languageModel('bench'),
    prompt: JSON.stringify(said),
    tools: { fill },
    stopWhen: ({ steps }) => steps.length > said.turns,
  })
}
