// A conversation in the barest loop that Temporal allows.
import { proxyActivities } from '@temporalio/workflow'

const { model } = proxyActivities({ startToCloseTimeout: '1 minute' })
const { tool } = proxyActivities({ startToCloseTimeout: '15 minutes', heartbeatTimeout: '1s', retry: { initialInterval: '100ms' } })

/** Runs turns until the model requests no call. */
export async function conversation(said) {
  for (let turn = 1; ; turn += 1) {
    const message = await model({ conversation: said, turn })
    if (!message) return
    await tool(message.content[0].input)
  }
}
