// All workers were away, and many sessions with long histories have a message: one worker replays them at its own pace.
import { fileURLToPath } from 'node:url'
import { type Agent, defineAgent } from 'pawl'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'

/** Their replays take 6 s together, which is twice the timeout of a workflow task. */
const SESSIONS = 40
const agent = defineAgent({ name: 'away', instructions: '', model: scripted(() => 'done') }) as Agent

let here: Deployment
beforeAll(async () => {
  here = await deploy()
})
afterAll(() => here?.stop())

const slowToReplay = () =>
  here.startWorker({
    agents: [agent],
    interceptors: { workflowModules: [fileURLToPath(new URL('../support/own/slow-replay.js', import.meta.url))] },
  })

/** Of the execution's workflow tasks, those that a worker has taken and not completed in time. */
async function lostTasks(id: string): Promise<number> {
  const { events } = await here.temporal.workflow.getHandle(`pawl:${id}`).fetchHistory()
  return (events ?? []).filter(({ workflowTaskTimedOutEventAttributes: lost }) => Number(lost?.startedEventId ?? 0) > 0).length
}

it('after an outage of all workers, no workflow task is lost, and the first sessions answer long before the last', async () => {
  const sessions = Array.from({ length: SESSIONS }, (_, n) => here.pawl.session(`${here.taskQueue}-${n}`, { agent: 'away' }))
  const before = await slowToReplay()
  for (const run of await Promise.all(sessions.map((session) => session.send('go')))) await run.result()
  await before.stop()
  const runs = await Promise.all(sessions.map((session) => session.send('again')))
  await slowToReplay()
  const backAt = performance.now()
  const took = await Promise.all(
    runs.map(async (run) => {
      await run.result()
      return performance.now() - backAt
    }),
  )
  expect(await Promise.all(sessions.map(({ id }) => lostTasks(id)))).toEqual(sessions.map(() => 0))
  expect(Math.min(...took)).toBeLessThan(Math.max(...took) / 3)
})
