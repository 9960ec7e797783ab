// Executors and orchestrators are killed around questions of an MCP server: each is asked once, and the effect that follows happens once.
import { randomUUID } from 'node:crypto'
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { untilFound } from '../support/until.ts'
import type { Mark } from './support/ledger.ts'
import { type Plan, planText } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

let rig: Rig
let workers: Supervised

beforeAll(async () => {
  rig = await startRig()
  workers = await rig.supervise({ fixture: 'mcp-agents', processes: 2 })
})
afterAll(() => rig.close())

const TOOLS = ['ask_look', 'ask_put', 'ask_charge'] as const
type What = (typeof TOOLS)[number]

interface Scene {
  run: RunHandle
  name: string
  /** Stages of the call, in order. */
  stages(): string[]
}

async function start(what: What): Promise<Scene> {
  await workers.serving(2)
  const name = `mcp-ask-${randomUUID()}`
  const plan: Plan = [[{ tool: `ledger__${what}`, input: { name } }]]
  const run = await rig.pawl.session(name, { agent: 'mcp' }).send(planText(plan), { isNew: true })
  return { run, name, stages: () => rig.ledger.marks({ session: name }).map(({ stage }) => stage) }
}

const kill = (mark: Mark): boolean => process.kill((mark.note as { executor: number }).executor, 'SIGKILL')

async function asked({ run }: Scene): Promise<string> {
  const settled = await run.settled({ timeout: 60_000 })
  if (settled.status !== 'waiting') expect.fail(`it does not wait: ${JSON.stringify(settled)}`)
  const [call] = settled.pending
  expect(call).toMatchObject({ kind: 'question', question: { message: expect.stringMatching(/^How much for/) } })
  return call?.digest ?? ''
}

const answer = ({ name }: Scene, digest: string): Promise<void> =>
  rig.pawl.session(name, { agent: 'mcp' }).answer('t_1_1_0', { action: 'accept', content: { amount: 7 } } as never, { digest })

/** The run completes; its question was asked once, and every attempt after it had the answer, the state and the key. */
async function completes(scene: Scene): Promise<void> {
  const { text } = await scene.run.result({ timeout: 60_000 })
  expect(text).toContain(scene.name)
  const events = await eventsOf(rig.pawl.session(scene.name, { agent: 'mcp' }))
  expect(ofType(events, 'answer_requested')).toHaveLength(1)
  expect(ofType(events, 'answer_received')).toHaveLength(1)
  const marks = rig.ledger.marks({ session: scene.name })
  expect(new Set(marks.map(({ key }) => key)).size).toBe(1)
  for (const { note } of marks.filter(({ stage }) => stage === 'entered'))
    expect(note).toMatchObject({ amount: 7, state: `state of ${scene.name}` })
}

describe.each(TOOLS)('a question during a call of %s', (what) => {
  it(`a question during a call of ${what} is asked once if the executor is killed before the server has asked`, async () => {
    const name = rig.ledger.holdNext({ stage: 'checked', what })
    const scene = await start(what)
    kill(await name)
    await answer(scene, await asked(scene))
    await completes(scene)
    expect(scene.stages()).toEqual(['checked', 'checked', 'entered', 'applied', 'left'])
  })

  it(`a question during a call of ${what} outlives its executors, its orchestrator and its server`, async () => {
    const scene = await start(what)
    const digest = await asked(scene)
    const from = workers.events.length
    for (const pid of workers.supervisor.pids()) process.kill(pid, 'SIGKILL')
    process.kill(workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
    await untilFound(() => workers.events.slice(from).some(({ event }) => event === 'orchestrator_ready'))
    await answer(scene, digest)
    await completes(scene)
    expect(scene.stages()).toEqual(['checked', 'entered', 'applied', 'left'])
  })

  it(`a call of ${what} is repeated with the same answer if the executor is killed before the effect`, async () => {
    const scene = await start(what)
    const digest = await asked(scene)
    const held = rig.ledger.holdNext({ stage: 'entered', session: scene.name })
    await answer(scene, digest)
    kill(await held)
    await completes(scene)
    expect(scene.stages()).toEqual(['checked', 'entered', 'entered', 'applied', 'left'])
  })

  it(`a call of ${what} that has its answer is repeated only as its effect allows if the executor is killed after the effect`, async () => {
    const scene = await start(what)
    const digest = await asked(scene)
    const held = rig.ledger.holdNext({ stage: 'left', session: scene.name })
    await answer(scene, digest)
    kill(await held)
    await completes(scene)
    const once = ['entered', 'applied', 'left']
    expect(scene.stages()).toEqual(['checked', ...once, ...(what === 'ask_charge' ? [] : once)])
  })
})

it('the answer to a question of an MCP server takes effect once even if the orchestrator dies while it arrives', async () => {
  const scene = await start('ask_charge')
  const digest = await asked(scene)
  process.kill(workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
  await answer(scene, digest)
  await completes(scene)
  expect(scene.stages()).toEqual(['checked', 'entered', 'applied', 'left'])
})
