// MCP servers that go wrong before and after an effect, over stdio and HTTP and in both generations of the protocol, also while executors are
// killed: the ledger has each external effect once, `verify` was asked where the outcome was open, and every call has its result.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { randomFrom } from '../../src/testing/crash/random.ts'
import { type Fault, FAULTS_AFTER, FAULTS_BEFORE } from '../support/mcp/faulty.ts'
import { startFaulty } from '../support/mcp/faulty-http.ts'
import { seed, size, variants } from '../support/sizes.ts'
import { untilFound } from '../support/until.ts'
import type { Mark } from './support/ledger.ts'
import { finalAnswer, type Plan, type PlannedCall, planText } from './support/plan.ts'
import { isAnyInDanger, readyIn } from './support/sparing.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

const SERVERS = ['stdio', 'http', 'stdio-legacy', 'http-legacy'] as const
const HTTP = { http: 'modern', 'http-legacy': 'legacy' } as const
/** After these, a `read` or an `idempotent` call is an error for the model. */
const FINAL: readonly Fault[] = ['error result', 'huge']
const CALM_MS = 240_000

const SESSIONS = size(6, 24)
const TURNS = size(4, 12)
const KILLS = size(5, 40)

let rig: Rig
let workers: Supervised
const servers: { close(): Promise<void> }[] = []

beforeAll(async () => {
  rig = await startRig()
  for (const [name, generation] of Object.entries(HTTP)) {
    const server = await startFaulty(generation, { name, report: reportTo(rig.ledger.url) })
    servers.push(server)
    process.env[`FAULTY_${name}`] = server.url
  }
  workers = await rig.supervise({ fixture: 'faulty-mcp-agents', processes: 3 })
})
afterAll(async () => {
  await rig?.close()
  for (const server of servers) await server.close()
})

/** Reports to the ledger from this process. */
function reportTo(url: string): Parameters<typeof startFaulty>[1]['report'] {
  return async (stage, details) => {
    const response = await fetch(url, { method: 'POST', body: JSON.stringify({ stage, pid: process.pid, ...details }) })
    return (await response.json()) as { applied: boolean; enteredBy: number[] }
  }
}

async function carryOut(plan: Plan): Promise<void> {
  const run = await rig.pawl.session(`faulty-${randomUUID()}`, { agent: 'faulty' }).send(planText(plan), { isNew: true })
  expect((await run.result({ timeout: CALM_MS })).text).toBe(finalAnswer(plan))
}

const marksOf = ({ input }: PlannedCall): Mark[] => rig.ledger.marks({ session: input.name })
const isAfter = (fault: string | undefined): boolean => (FAULTS_AFTER as readonly (string | undefined)[]).includes(fault)

/** Checks what the ledger has of a call that has ended. */
function expectOnce(call: PlannedCall): void {
  const { tool, input } = call
  const marks = marksOf(call)
  const applied = marks.filter(({ stage }) => stage === 'applied').length
  const [key = '', ...others] = new Set(marks.map((mark) => mark.key))
  expect(others, `keys of ${tool}`).toEqual([])
  if (!tool.endsWith('__charge')) return expect(applied, `effects of ${tool}`).toBeGreaterThan(0)
  expect(applied, `effects of ${tool} with the fault "${input.how}"`).toBe(1)
  if (isAfter(input.how)) expect(verified(key), `verify of ${tool} after the fault "${input.how}"`).toBeGreaterThan(0)
}

const verified = (key: string): number => rig.ledger.marks({ stage: 'verify' }).filter((mark) => mark.key === key).length

// Usually two of the servers; the random sessions have all.
describe.concurrent.each(variants(SERVERS, 2))('an MCP server over %s', (server) => {
  it.each([...FAULTS_BEFORE, ...FAULTS_AFTER])(
    `an external effect happens once, and is reported, if the MCP server over ${server} goes wrong: %s`,
    async (how) => {
      const call: PlannedCall = { tool: `${server}__charge`, input: { name: randomUUID(), how } }
      await carryOut([[call]])
      expectOnce(call)
    },
  )

  it.each([...FAULTS_BEFORE, ...FAULTS_AFTER].filter((how) => !FINAL.includes(how)))(
    `an idempotent call is repeated with its key if the MCP server over ${server} goes wrong: %s`,
    async (how) => {
      const call: PlannedCall = { tool: `${server}__put`, input: { name: randomUUID(), how } }
      await carryOut([[call]])
      expectOnce(call)
      expect(marksOf(call).filter(({ stage }) => stage === 'entered').length).toBeGreaterThan(1)
    },
  )
})

describe('with executors that are killed', () => {
  it(`${SESSIONS} sessions with faulty MCP servers have each effect once while executors are killed at random (seed ${seed}, again with PAWL_SEED)`, async () => {
    const random = randomFrom(seed)
    const plans = Array.from({ length: SESSIONS }, () => Array.from({ length: TURNS }, () => someCalls(random)))
    const before = rig.ledger.marks().length
    let isOver = false
    let kills = 0
    const killing = (async () => {
      while (kills < KILLS && !isOver) {
        const next = rig.ledger.marks().length + random.integer(4, 16)
        await untilFound(() => isOver || rig.ledger.marks().length >= next)
        await untilFound(async () => isOver || (ready().length > 1 && !(await isAnyInDanger(rig, [workers]))))
        if (isOver) break
        process.kill(random.pick(ready()), 'SIGKILL')
        kills += 1
      }
    })()
    try {
      await Promise.all(plans.map(carryOut))
    } finally {
      isOver = true
      await killing
    }
    const calls = plans.flat(2)
    for (const call of calls) expectOnce(call)
    console.log(`faulty MCP servers: ${calls.length} calls, ${rig.ledger.marks().length - before} marks, ${kills} kills, seed ${seed}`)
    expect(kills).toBeGreaterThan(0)
  }, 600_000)
})

const ready = (): number[] => readyIn(workers)

/** One or two calls, half of which go wrong. */
function someCalls(random: ReturnType<typeof randomFrom>): PlannedCall[] {
  return Array.from({ length: random.integer(1, 2) }, () => {
    const what = random.pick(['look', 'put', 'charge', 'charge'])
    const faults = [...FAULTS_BEFORE, ...FAULTS_AFTER].filter((how) => what === 'charge' || !FINAL.includes(how))
    const how = random.fraction() < 0.5 ? random.pick(faults) : undefined
    return { tool: `${random.pick(SERVERS)}__${what}`, input: { name: randomUUID(), ...(how && { how }) } }
  })
}
