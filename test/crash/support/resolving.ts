// Kills an executor after the model's answer has reached the orchestrator, but before its calls are resolved.
import { expect } from 'vitest'
import { finalAnswer, type Plan } from './plan.ts'
import type { Rig } from './rig.ts'

/** Its calls can be held while they are resolved. */
const plan: Plan = [[{ tool: 'weigh', input: { name: 'gold' } }]]

/** The failed attempt, as the store has it. */
export const DIED = { context: 'model', call_id: null, attempt: 1, class: 'WorkerDied', code: null }
/** The requests if the answer was used. */
export const ONCE_A_TURN = [
  ['model:1:1', 1],
  ['model:1:2', 1],
]

/** The requests that the model received: their calls and attempts. */
export function requests(rig: Rig, session: string): [string, number][] {
  return rig.ledger.marks({ session, stage: 'model' }).map(({ callId, attempt }) => [callId, attempt])
}

/** A run whose executor is killed, after `meanwhile`, while it resolves the model's calls. */
export async function killedWhileResolving(rig: Rig, meanwhile: () => Promise<void> = async () => undefined): Promise<string> {
  const checked = rig.ledger.holdNext({ stage: 'checked', what: 'gold' })
  const run = await rig.start(plan)
  const { pid } = await checked
  await meanwhile()
  process.kill(pid, 'SIGKILL')
  expect((await run.result()).text).toBe(finalAnswer(plan))
  return run.sessionId
}
