// Parents and children on different task queues, and a parent that continues as new while it waits.
import { randomUUID } from 'node:crypto'
import { agentTool, defineAgent } from 'pawl'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { deploy, type Deployment } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { ask, passOn, resultsIn, saidIn, treeStage } from '../support/tree.ts'
import { gate, until } from '../support/until.ts'
import { workflowIdOf } from '../../src/session/protocol/protocol.ts'

const OWN_QUEUE = `apart-${randomUUID().slice(0, 8)}`
const TIMEOUT = { timeout: 30_000 }

const worker = defineAgent({ name: 'far', instructions: 'x', model: scripted((request) => `far away: ${saidIn(request)}`) })
const near = defineAgent({
  name: 'near',
  instructions: 'x',
  model: scripted(({ messages }) => resultsIn(messages)[0] ?? [{ type: 'tool_use', id: 'u', name: 'far', input: { message: 'hello' } }]),
  tools: [agentTool(worker, { taskQueue: OWN_QUEUE })],
})

const tree = treeStage()
let here: Deployment
let there: Deployment

beforeAll(async () => {
  here = await deploy({ history: { events: 60, bytes: 4_000_000 } })
  there = await deploy({ taskQueue: OWN_QUEUE })
  await here.startWorker({ agents: [near, ...tree.agents] })
})
afterAll(async () => {
  await here?.stop()
  await there?.stop()
})

it('a child on another task queue is asked there, waits for its workers, and reports back to its parent’s', async () => {
  const session = here.pawl.session(undefined, { agent: 'near' })
  const run = await session.send('go')
  const child = await until('the child is asked', async () => ofType(await eventsOf(session), 'answer_requested')[0]?.child?.session)
  const queueOf = async (id: string) => (await here.temporal.workflow.getHandle(workflowIdOf(id)).describe()).taskQueue
  expect(await until('it has been started', () => queueOf(child).catch(() => undefined))).toBe(OWN_QUEUE)
  expect((await session.status()).waitsFor).toMatchObject([{ for: 'agent', session: child }])
  const remote = await there.startWorker({ agents: [worker] })
  expect((await run.result(TIMEOUT)).text).toBe('far away: hello')
  await remote.stop()
})

it('a parent that continues as new while it waits gets the answer, and asks nobody twice', async () => {
  const open = gate()
  const { session, count } = tree.play(here.pawl, {
    boss: (request) =>
      resultsIn(request.messages).length > 0 ? `got: ${resultsIn(request.messages)[0]}` : passOn(ask('helper', 'find out'))(request),
    helper: async () => {
      await open.pass()
      return 'found'
    },
  })
  const run = await session.send('go')
  await until('the helper is asked', () => count('helper') === 1)
  const executions = async () => {
    const found = []
    for await (const one of here.temporal.workflow.list({ query: `WorkflowId = '${workflowIdOf(session.id)}'` })) found.push(one.runId)
    return found.length
  }
  for (let n = 0; n < 100 && (await executions()) < 2; n++) await session.send(`more ${n}`)
  expect(await executions()).toBeGreaterThan(1)
  expect((await session.state()).current?.calls).toMatchObject([{ status: 'awaiting_answer' }])
  open.open()
  expect((await run.result(TIMEOUT)).text).toBe('got: found')
  expect(count('helper')).toBe(1)
})
