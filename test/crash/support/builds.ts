// Builds of one worker module for one task queue, each served by its own worker. They tell the ledger which of them acts.
import { randomUUID } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { OTHER_BUILD } from '../../support/other-build.ts'
import { Client, Connection } from '@temporalio/client'
import { Pawl } from 'pawl/client'
import { type PreflightReport, preflight, type SuperviseOptions, superviseWorkers, type Supervisor } from 'pawl/worker'
import { inject } from 'vitest'
import { type Ledger, startLedger } from './ledger.ts'
import { moduleFolder } from './versions.ts'

/** What differs between builds. */
export interface Build {
  name: string
  /** More members of the tools' input schemas, as source. */
  input?: string
  /** The agent has a tool `stamp`, which the model uses if it sees it. */
  stamps?: true
  maxTurns: number
  /** The build's own workflow code: modules of workflow interceptors. */
  workflowModules?: string[]
}

/** A user's interceptors that only mark activities: another workflow bundle, which behaves the same. */
export const OTHER_BUNDLE = [fileURLToPath(new URL('../../support/own/workflow-interceptors.js', import.meta.url))]

/** Workflow code that cannot replay the histories of the other builds. */
export const OTHER_COMMANDS = OTHER_BUILD.workflowModules

/** How many turns of a run make a read and an effect. */
export const TURNS = 3

const textOf = ({ name, input = '', stamps, maxTurns }: Build): string => `
import { setTimeout as sleep } from 'node:timers/promises'
import { defineAgent, defineTool, defineWorker } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'
const tell = (told) =>
  fetch(process.env.LEDGER_URL, { method: 'POST', body: JSON.stringify({ pid: process.pid, note: '${name}', ...told }) })
const tool = (name, effect) =>
  defineTool({
    name,
    description: 'Tells the ledger.',
    input: z.object({ what: z.string(), ${input} }),
    effect,
    async execute({ what }, { sessionId: session, callId, attempt, idempotencyKey: key }) {
      await tell({ stage: 'entered', session, what: name, callId, attempt, key })
      await sleep(30)
      return name + ' ' + what + ' by ${name}'
    },
  })
const use = (name, what) => ({ type: 'tool_use', id: 'toolu_' + name, name, input: { what } })
/** By how far the run is: reads and pays, stamps at last if this build can, and is done. */
const model = scripted(({ messages, tools, run }) => {
  const begin = messages.findLastIndex(({ role, content }) => role === 'user' && typeof content === 'string')
  const turn = messages.slice(begin).filter(({ role }) => role === 'assistant').length
  const what = 'run ' + run + ', turn ' + turn
  if (turn < ${TURNS}) return [use('look', what), use('pay', what)]
  return turn === ${TURNS} && tools.some(({ name }) => name === 'stamp') ? [use('stamp', what)] : 'done'
})
const tools = [tool('look', 'read'), tool('pay', 'external')${stamps ? ", tool('stamp', 'external')" : ''}]
export default defineWorker({
  agents: [defineAgent({ name: 'clerk', instructions: 'You are ${name}.', model, tools, limits: { maxTurns: ${maxTurns} } })],
})
`

/** One deployment in which builds come and go. */
export interface Builds {
  taskQueue: string
  ledger: Ledger
  pawl: Pawl
  temporal: Client
  /** Starts a worker of the build, with one executor. */
  serve(build: Build, options?: Pick<SuperviseOptions, 'healAfter'>): Promise<Supervisor>
  /** How many open sessions Temporal lists; it lists them shortly after they start. */
  listed(): Promise<number>
  /** The report of the build's preflight. */
  preflight(build: Build): Promise<PreflightReport>
  close(): Promise<void>
}

/** Prepares a task queue that no worker serves yet. */
export async function startBuilds(): Promise<Builds> {
  const stack = inject('stack')
  const folder = await moduleFolder()
  const ledger = await startLedger()
  // The processes inherit this one's environment.
  process.env.LEDGER_URL = ledger.url
  const temporal = { address: stack.temporalAddress, namespace: stack.namespace }
  const where = { temporal, taskQueue: `builds-${randomUUID()}`, postgres: stack.databaseUrl }
  const pawl = await Pawl.connect(where)
  const connection = await Connection.connect({ address: temporal.address })
  const client = new Client({ connection, namespace: temporal.namespace })
  const supervisors: Supervisor[] = []

  /** Writes the build's modules; returns their paths. */
  async function write(build: Build): Promise<{ module: string; interceptors: string }> {
    const [module, interceptors] = [folder.path(`${build.name}.mjs`), folder.path(`${build.name}-interceptors.mjs`)]
    await writeFile(module, textOf(build))
    await writeFile(interceptors, `export const interceptors = ${JSON.stringify({ workflowModules: build.workflowModules ?? [] })}`)
    return { module, interceptors }
  }

  return {
    taskQueue: where.taskQueue,
    ledger,
    pawl,
    temporal: client,
    async serve(build, options = {}) {
      const supervisor = await superviseWorkers({ ...where, ...(await write(build)), processes: 1, ...options })
      supervisors.push(supervisor)
      await supervisor.ready()
      return supervisor
    },
    async listed() {
      const query = `TaskQueue = '${where.taskQueue}' and ExecutionStatus = 'Running'`
      return (await client.workflow.count(query)).count
    },
    preflight: async (build) => preflight({ ...where, ...(await write(build)) }),
    async close() {
      await Promise.all(supervisors.map((supervisor) => supervisor.shutdown()))
      await pawl.close()
      await connection.close()
      await ledger.close()
      await rm(folder.root, { recursive: true })
    },
  }
}
