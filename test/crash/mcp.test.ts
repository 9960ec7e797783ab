// Executors are killed during calls of an MCP server's tools: each effect happens once, and no server outlives its executor.
import { randomUUID } from 'node:crypto'
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { HeldMark, Mark } from './support/ledger.ts'
import { type Plan, planText } from './support/plan.ts'
import { isAlive, type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

let rig: Rig
let workers: Supervised

beforeAll(async () => {
  rig = await startRig()
  workers = await rig.supervise({ fixture: 'mcp-agents', processes: 2 })
})
afterAll(() => rig.close())

const EFFECTS = { look: 'read', put: 'idempotent', charge: 'external' } as const
type What = keyof typeof EFFECTS

/** Starts a run that calls the tool, and kills the executor when the server is at the stage. Returns the marks in order. */
async function killedAt(stage: Mark['stage'], what: What): Promise<{ run: RunHandle; name: string; server: number; text: string }> {
  await workers.serving(2)
  const name = `mcp-${randomUUID()}`
  const held: Promise<HeldMark> = rig.ledger.holdNext({ stage, session: name })
  const plan: Plan = [[{ tool: `ledger__${what}`, input: { name } }]]
  const run = await rig.pawl.session(name, { agent: 'mcp' }).send(planText(plan), { isNew: true })
  const mark = await held
  process.kill((mark.note as { executor: number }).executor, 'SIGKILL')
  const { text } = await run.result()
  return { run, name, server: mark.pid, text }
}

const stagesOf = (name: string): string[] => rig.ledger.marks({ session: name }).map(({ stage }) => stage)

describe.each(Object.keys(EFFECTS) as What[])('a call of %s through an MCP server', (what) => {
  it(`a call of ${what} through an MCP server has one effect if its executor is killed before it, and the server dies with the executor`, async () => {
    const { run, name, server, text } = await killedAt('entered', what)
    expect(text).toBe(`Done: ${what} ${name}`)
    expect(stagesOf(name)).toEqual(['entered', 'entered', 'applied', 'left'])
    await untilFound(() => !isAlive(server))
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: `tool:ledger__${what}`, attempt: 1, class: 'WorkerDied' }])
  })

  it(`a call of ${what} through an MCP server is repeated only as its effect allows if its executor is killed after it`, async () => {
    const { name, text } = await killedAt('left', what)
    expect(text).toBe(`Done: ${what} ${name}`)
    const once = ['entered', 'applied', 'left']
    expect(stagesOf(name)).toEqual(what === 'charge' ? once : [...once, ...once])
    const keys = new Set(rig.ledger.marks({ session: name }).map(({ key }) => key))
    expect(keys.size).toBe(1)
  })
})
