// The floor: the same two activities in the barest loop that Temporal allows. Like pawl's, their inputs are references.
import { proxyActivities } from '@temporalio/workflow'
import type { FloorActivities } from './floor-worker.ts'

const { model, tool } = proxyActivities<FloorActivities>({ startToCloseTimeout: '1 minute' })

/** Runs `turns` turns, and the model call that ends a run. */
export async function floor(sessionId: string, turns: number): Promise<void> {
  for (let turn = 1; turn <= turns; turn += 1) {
    const message = await model({ sessionId, turn })
    await tool({ sessionId, turn, name: message.content[0]?.name ?? '' })
  }
  await model({ sessionId, turn: turns + 1 })
}
