// `pawl preflight`: what a new build would do to the open sessions, checked before any of its workers runs.
import { randomUUID } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Agent, defineAgent, defineTool, type Tool } from 'pawl'
import type { Pawl } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { preflight } from 'pawl/worker'
import pg from 'pg'
import type { CheckedSession, PreflightOptions } from '../../src/worker/preflight-report.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { fetchOpen } from '../../src/worker/preflight/open-sessions.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { dataConverter as encrypting } from '../support/own/encrypting.ts'
import { use } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { userFolder } from './cli/folder.ts'
import { eventsIn, pawl, runPawl } from './cli/processes.ts'

const own = (name: string): string => fileURLToPath(new URL(`../support/own/${name}`, import.meta.url))

/** Calls the tool that the message names, and ends the run after its result. */
const model = scripted(({ messages }) => {
  const last = [messages.at(-1)?.content ?? ''].flat().at(-1)
  const text = typeof last === 'object' && 'text' in last ? last.text : String(last)
  return text === 'pay' || text === 'look' ? [use(text, 'it')] : 'done'
})
const tool = (name: string, more: Partial<Tool> & { effect: Tool['effect'] }): Tool =>
  defineTool({ name, description: name, input: z.object({ what: z.string() }), execute: () => `${name} done`, ...more } as never)
const clerk = defineAgent({
  name: 'clerk',
  instructions: '',
  model,
  tools: [tool('look', { effect: 'read' }), tool('pay', { effect: 'external', approval: true } as never)],
}) as Agent

/** A build of the module: the same tools, with the given input schema for `pay`. */
const moduleWith = (name: string, payInput: string, tools = 'look, pay'): string => `
import { defineAgent, defineTool } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'
const common = { description: 'd', execute: () => { throw new Error('a preflight calls no tool') } }
const look = defineTool({ ...common, name: 'look', effect: 'read', input: z.object({ what: z.string() }) })
const pay = defineTool({ ...common, name: 'pay', effect: 'external', input: z.object({ ${payInput} }) })
export default defineAgent({ name: '${name}', instructions: '', model: scripted(() => 'hello'), tools: [${tools}] })
export const services = () => { throw new Error('a preflight makes no services') }
`

/** Agents that call agents, some of which cannot answer. */
const CALLING = `
import { agentTool, defineAgent, defineTool } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'
const agent = (name, tools = []) => defineAgent({ name, instructions: '', model: scripted(() => 'hello'), tools })
const tool = (name, effect) => defineTool({ name, description: 'd', effect, input: z.object({ what: z.string() }), execute: () => 'done' })
const helper = agent('helper', [agentTool(agent('clerk'))])
const far = agentTool(agent('far'), { taskQueue: 'nobody-polls-this' })
const clerk = agent('clerk', [agentTool(helper), agentTool(agent('absent')), far, tool('look', 'read'), tool('pay', 'external')])
export default { agents: [clerk, helper] }
`

const SAME = 'what: z.string()'

let here: Deployment
let folder: string
let store: pg.Client
const ids = {
  idle: `idle-${randomUUID()}`,
  waiting: `waiting-${randomUUID()}`,
  continued: `continued-${randomUUID()}`,
  spoken: `spoken-${randomUUID()}`,
}
const all = Object.values(ids).sort()

beforeAll(async () => {
  folder = await userFolder()
  await writeFile(join(folder, 'same.mjs'), moduleWith('clerk', SAME))
  await writeFile(join(folder, 'changed.mjs'), moduleWith('clerk', 'what: z.number()'))
  await writeFile(join(folder, 'renamed.mjs'), moduleWith('cashier', SAME))
  here = await deploy({ history: { events: 100 } })
  store = new pg.Client(here.stack.databaseUrl)
  await store.connect()
  const worker = await here.startWorker({ agents: [clerk] })
  await settle(here.pawl, ids.idle, 'hello')
  await settle(here.pawl, ids.waiting, 'pay')
  await settle(here.pawl, ids.spoken, 'hello')
  await until('the session has continued as new', async () => {
    await settle(here.pawl, ids.continued, 'look')
    return isContinued(ids.continued)
  })
  await worker.stop()
  await here.pawl.session(ids.spoken).send('nobody hears this yet')
  await until('visibility knows them all', async () => {
    const found = new Set<string>()
    for await (const { workflowId } of here.temporal.workflow.list({
      query: `TaskQueue = '${here.taskQueue}' and ExecutionStatus = 'Running'`,
    }))
      found.add(workflowId)
    return all.every((id) => found.has(`pawl:${id}`))
  })
  await until('no task waits for the stopped worker itself', async () => (await Promise.all(all.map(waitsForAnyWorker))).every(Boolean))
})
afterAll(async () => {
  await store?.end()
  await here?.stop()
  if (folder) await rm(folder, { recursive: true, force: true })
})

async function settle(pawl: Pawl, id: string, text: string): Promise<void> {
  await (await pawl.session(id, { agent: 'clerk' }).send(text)).settled({ timeout: 30_000 })
}

const executionOf = async (id: string) => (await here.temporal.workflow.getHandle(`pawl:${id}`).describe()).runId
/** Whether the newest execution continues an earlier one. */
async function isContinued(id: string): Promise<boolean> {
  const { events } = await here.temporal.workflow.getHandle(`pawl:${id}`).fetchHistory()
  return Boolean(events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId)
}

/** The server's code for the task queue of a single worker. */
const STICKY = 2
/**
 * Whether the session's newest workflow task is done, or open to any worker. A task that is reserved for the worker that had the session
 * cached, or was started by it, soon times out, which changes the history. Events that arrived meanwhile may come after it.
 */
async function waitsForAnyWorker(id: string): Promise<boolean> {
  const { events } = await here.temporal.workflow.getHandle(`pawl:${id}`).fetchHistory()
  const newest = events?.findLast(
    (event) =>
      event.workflowTaskScheduledEventAttributes || event.workflowTaskStartedEventAttributes || event.workflowTaskCompletedEventAttributes,
  )
  if (newest?.workflowTaskStartedEventAttributes) return false
  return newest?.workflowTaskScheduledEventAttributes?.taskQueue?.kind !== STICKY
}

/** Runs a preflight in this process, and also returns what it reported about each session. */
async function checked(options: PreflightOptions = {}) {
  const { temporalAddress: address, namespace, databaseUrl: postgres } = here.stack
  const told: CheckedSession[] = []
  const report = await preflight({
    temporal: { address, namespace },
    taskQueue: here.taskQueue,
    postgres,
    onSession: (session) => void told.push(session),
    ...options,
  })
  return { ...report, told: told.sort((a, b) => a.sessionId.localeCompare(b.sessionId)) }
}

const interceptors = (name: string) => ({ workflowModules: [own(name)] })

describe('a preflight', () => {
  it('a preflight replays open sessions of every kind, and changes nothing anywhere', async () => {
    const before = await everything()
    const { told, ...report } = await checked({ module: join(folder, 'same.mjs') })
    expect(report).toMatchObject({ sessions: 4, replays: 4, breaks: 0, unread: 0, closed: 0, problems: [], warnings: [], stopped: false })
    expect(report.store).toEqual({ schema: 'pawl', missing: [], tooNew: [] })
    expect(told.map(({ sessionId, outcome }) => [sessionId, outcome])).toEqual(all.map((id) => [id, 'replays']))
    expect(told.find(({ sessionId }) => sessionId === ids.continued)?.executionId).toBe(await executionOf(ids.continued))
    expect(await everything()).toEqual(before)
  })

  it('a preflight names the first event that this build would make differently, without its content', async () => {
    const { told, breaks } = await checked({ interceptors: interceptors('changed-content.js') })
    expect(breaks).toBeGreaterThanOrEqual(3)
    const idle = told.find(({ sessionId }) => sessionId === ids.idle)
    expect(idle).toMatchObject({ outcome: 'breaks', problem: { code: 'other_events', fromSeq: 2, toSeq: 2 } })
    expect(idle?.problem?.message).toMatch(/Event 2 \(message_received\) differs in: content\.$/)
  })

  it('a preflight names the history event at which this build would behave differently', async () => {
    const { problems } = await checked({ interceptors: interceptors('added-timer.js') })
    expect(problems.map(({ sessionId }) => sessionId).sort()).toEqual(all)
    for (const { problem } of problems) {
      expect(problem).toMatchObject({ code: 'other_commands', message: expect.stringContaining(`history event ${problem?.historyEvent}`) })
    }
  })

  it('a preflight compares the sessions and their open calls with the agents of a module', async () => {
    expect((await checked({ module: join(folder, 'changed.mjs') })).warnings).toEqual([
      {
        code: 'arguments_do_not_match',
        agent: 'clerk',
        tool: 'pay',
        sessions: 1,
        examples: [ids.waiting],
        message: expect.stringContaining('error result'),
      },
    ])
    const { warnings, replays } = await checked({ module: join(folder, 'renamed.mjs') })
    expect([replays, warnings]).toMatchObject([4, [{ code: 'agent_not_served', agent: 'clerk', sessions: 4 }]])
    expect(warnings[0]?.examples).toHaveLength(3)
  })

  it('a preflight names the external tools whose interrupted calls only a person can answer for', async () => {
    const { unverified } = await checked({ module: join(folder, 'same.mjs'), sample: 1 })
    expect(unverified).toEqual([{ agent: 'clerk', tool: 'pay', onUnknown: 'ask' }])
    expect(await checked({ sample: 1 })).not.toHaveProperty('unverified')
  })

  it('a preflight names the calls of other agents that would not be answered: of no worker, on a queue without workers, and in a circle', async () => {
    await writeFile(join(folder, 'calling.mjs'), CALLING)
    const { agentCalls } = await checked({ module: join(folder, 'calling.mjs'), sample: 1 })
    expect(agentCalls?.map(({ code, agent, tool, child }) => [code, agent, tool, child])).toEqual([
      ['agent_cycle', 'clerk', 'helper', 'helper'],
      ['agent_not_served', 'clerk', 'absent', 'absent'],
      ['no_workers', 'clerk', 'far', 'far'],
      ['agent_cycle', 'helper', 'clerk', 'clerk'],
    ])
    expect((await checked({ module: join(folder, 'same.mjs'), sample: 1 })).agentCalls).toEqual([])
    const { temporalAddress, databaseUrl } = here.stack
    const env = { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl }
    const said = await runPawl(['preflight', 'calling.mjs', '--task-queue', here.taskQueue, '--sample', '1'], { cwd: folder, env })
    expect(said.stdout).toContain('no_workers, agent clerk, tool far: No worker polls the task queue "nobody-polls-this"')
  })

  it('a preflight rejects with the reason why its module cannot be loaded', async () => {
    await expect(checked({ module: join(folder, 'broken.mjs') })).rejects.toMatchObject({ name: 'WorkerError', code: 'module_failed' })
    await expect(checked({ module: join(folder, 'nobody.mjs') })).rejects.toMatchObject({ name: 'DeclarationError', code: 'no_agents' })
  })

  it('a preflight checks a sample, and stops when it is told to', async () => {
    expect(await checked({ sample: 2, concurrency: 4 })).toMatchObject({ sessions: 2, replays: 2, stopped: false })
    expect(await checked({ signal: AbortSignal.abort() })).toMatchObject({ sessions: 0, stopped: true })
    expect(await checked({ taskQueue: 'nobody-uses-this' })).toMatchObject({ sessions: 0, stopped: false })
  })

  it('a preflight reports a store that cannot be read, and still replays', async () => {
    const { store: found, replays } = await checked({ postgres: 'postgres://nobody@127.0.0.1:1/none' })
    expect([replays, found?.error?.code]).toEqual([4, 'store_unavailable'])
  })

  it('a preflight needs the data converter of the workers, and reports that it is missing', async () => {
    const encrypted = await deploy()
    try {
      await encrypted.startWorker({ agents: [clerk], dataConverter: encrypting })
      await settle(await encrypted.connect({ dataConverter: encrypting }), `secret-${randomUUID()}`, 'look')
      const { taskQueue } = encrypted
      await until('visibility knows it', async () => (await checked({ taskQueue })).sessions === 1)
      const without = await checked({ taskQueue })
      expect([without.unread, without.problems[0]?.problem]).toMatchObject([
        1,
        { code: 'undecodable', message: expect.stringContaining('data converter') },
      ])
      expect(await checked({ taskQueue, dataConverter: encrypting })).toMatchObject({ replays: 1, problems: [] })
    } finally {
      await encrypted.stop()
    }
  })

  /** The lengths of the histories, and the sessions' rows in the store. */
  async function everything() {
    const histories = await Promise.all(
      all.map(async (id) => {
        const { runId, historyLength, raw } = await here.temporal.workflow.getHandle(`pawl:${id}`).describe()
        return { id, runId, historyLength, task: raw.pendingWorkflowTask?.attempt }
      }),
    )
    const { rows } = await store.query('select to_jsonb(s) as row from pawl.sessions s where session_id = any($1) order by session_id', [
      all,
    ])
    return { histories, rows }
  }
})

describe('a session that has changed since it was listed', () => {
  it('a preflight reads a session’s newest execution, and skips one that has closed or has no history left', async () => {
    const session = `moving-${randomUUID()}`
    const workflowId = `pawl:${session}`
    const { temporal } = here
    const first = await temporal.workflow.start('pawlSession', { workflowId, taskQueue: here.taskQueue, args: [] })
    const listed = { workflowId, executionId: first.firstExecutionRunId }
    expect(await fetchOpen(temporal, listed)).toMatchObject(listed)
    const [oldest] = await executionsOf(ids.continued)
    const newest = await executionOf(ids.continued)
    expect(oldest).not.toBe(newest)
    const continued = { workflowId: `pawl:${ids.continued}`, executionId: oldest ?? '' }
    expect((await fetchOpen(temporal, continued))?.executionId).toBe(newest)
    await temporal.workflow.getHandle(workflowId).terminate()
    expect(await fetchOpen(temporal, listed)).toBeUndefined()
    expect(await fetchOpen(temporal, { workflowId, executionId: randomUUID() })).toBeUndefined()
    // The tests that follow count the open sessions.
    const closed = `WorkflowId = '${workflowId}' and ExecutionStatus = 'Terminated'`
    await until('visibility knows that it has closed', async () => (await temporal.workflow.count(closed)).count === 1)
  })

  /** Oldest first. */
  async function executionsOf(id: string): Promise<string[]> {
    const found: { runId: string; startTime: Date }[] = []
    for await (const one of here.temporal.workflow.list({ query: `WorkflowId = 'pawl:${id}'` })) found.push(one)
    return found.sort((a, b) => a.startTime.getTime() - b.startTime.getTime()).map(({ runId }) => runId)
  }
})

describe('pawl preflight', () => {
  const argsOf = (args: string[]) => ['preflight', '--task-queue', here.taskQueue, ...args]
  const place = () => {
    const { temporalAddress: TEMPORAL_ADDRESS, databaseUrl: DATABASE_URL } = here.stack
    return { cwd: folder, env: { TEMPORAL_ADDRESS, DATABASE_URL } }
  }
  const run = (...args: string[]) => runPawl(argsOf(args), place())

  it('pawl preflight says how many sessions replay and which tools lack a verify, and exits with 0', async () => {
    expect(await run('same.mjs')).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^(\d+ sessions? checked so far\n)*$/),
      stdout:
        'note     agent clerk, tool pay: external, without verify. If a worker dies during a call, the call waits for a person\n' +
        `4 open sessions on "${here.taskQueue}": 4 replay, 0 break, 0 unread, 0 closed in the meantime\n`,
    })
  })

  it('pawl preflight prints a line for each session that would break, and exits with 1', async () => {
    const path = 'interceptors.ts'
    await writeFile(join(folder, path), `export const interceptors: object = { workflowModules: ['${own('added-timer.js')}'] }\n`)
    // In a process of its own, because from then on a process loads TypeScript.
    const { code, stdout } = await pawl(argsOf(['--interceptors', path]), place()).ended
    expect(code).toBe(1)
    for (const id of all) expect(stdout).toMatch(new RegExp(`^breaks +${id}  other_commands: .* at history event \\d+`, 'm'))
    expect(stdout).toContain('0 replay, 4 break')
    expect(stdout).toContain('not compared')
  })

  it('pawl preflight prints warnings, which fail only with --strict', async () => {
    const lenient = await run('changed.mjs')
    expect(lenient).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`warning arguments_do_not_match, agent clerk, tool pay: 1 session (${ids.waiting})`),
    })
    const strict = await run('changed.mjs', '--strict', '--json')
    expect(strict.code).toBe(1)
    const events = eventsIn(strict.stdout)
    expect(events.map(({ event }) => event)).toEqual(['session', 'preflight'])
    expect(events[0]).toMatchObject({ sessionId: ids.waiting, outcome: 'replays', warnings: [{ callId: 't_1_1_0' }] })
    expect(events[1]).toMatchObject({ sessions: 4, replays: 4, store: { missing: [] } })
  })

  it('pawl preflight refuses a missing module and an invalid option', async () => {
    expect(await run('nothing.mjs')).toMatchObject({ code: 1, stderr: expect.stringMatching(/^module_not_found: /) })
    expect(await run('--sample', 'some')).toMatchObject({ code: 1, stderr: expect.stringMatching(/^invalid_option: `sample` must be/) })
  })
})
