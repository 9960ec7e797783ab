// Records the kept histories: real sessions on a real server, whose workers really die. Run after `npm run build`:
//
//   npx tsx test/replay/record.ts [name …]      without names: those that do not exist yet
//
// It starts its own stack and workers, plays the sessions of recording/sessions.ts, and writes histories/<name>.json. Histories of a
// released version never change: recordings for a new version get new names. The histories contain the name of this machine;
// `unshare --uts sh -c 'hostname recorder && npx tsx test/replay/record.ts'` replaces it.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js'
import { Pawl, type SessionHandle } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { createWorker, superviseWorkers } from 'pawl/worker'
import { nextDigest } from '../../src/session/digest.ts'
import type { SessionEvent } from '../../src/session/events.ts'
import { CORE_VERSION, type EventsPage } from '../../src/session/protocol/protocol.ts'
import { late, later } from './recording/agents.ts'
import { keep, type KeptExecution, keptSessions } from './recording/kept.ts'
import { OPTIONS, SESSIONS } from './recording/sessions.ts'

const versionIn = (path: string | URL): string => (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version

/** Fields that no replay reads; stack traces name the recorder's folders. */
const DROPPED: readonly string[] = ['stackTrace', 'requestId', 'taskId', 'workerVersion']

const taskQueue = 'recording'
const stack = await startStack()
const temporal = { address: stack.temporalAddress, namespace: stack.namespace }
const supervisor = await superviseWorkers({
  module: fileURLToPath(new URL('recording/agents.ts', import.meta.url)),
  processes: 2,
  temporal,
  taskQueue,
  postgres: stack.databaseUrl,
})
await supervisor.ready()
const connection = await Connection.connect({ address: stack.temporalAddress })
const client = new Client({ connection, namespace: stack.namespace })
const pawl = await Pawl.connect({ temporal, taskQueue, postgres: stack.databaseUrl })
const closing: (() => Promise<unknown>)[] = [() => pawl.close(), () => connection.close(), () => supervisor.shutdown()]

try {
  const { serverVersion } = await connection.workflowService.getSystemInfo({})
  const sdk = versionIn(createRequire(import.meta.url).resolve('@temporalio/worker/package.json'))
  const recorded = {
    at: new Date().toISOString().slice(0, 10),
    pawl: versionIn(new URL('../../package.json', import.meta.url)),
    sdk,
    server: serverVersion,
    coreVersion: CORE_VERSION,
  }
  const there = new Set(keptSessions().map((session) => session.name))
  const asked = process.argv.slice(2)
  const names = asked.length > 0 ? asked : Object.keys(SESSIONS).filter((name) => !there.has(name))
  for (const name of names) {
    const play = SESSIONS[name]
    if (!play) throw new Error(`there is no session "${name}"; there are ${Object.keys(SESSIONS).join(', ')}`)
    const id = `${name}-${randomUUID().slice(0, 8)}`
    const session: SessionHandle = pawl.session(id, { agent: 'recorded', context: { tenant: 'a' }, tags: ['recorded'], ...OPTIONS[name] })
    await play(id, { temporal: client, taskQueue, pawl, serveLate }, session)
    const executions = await executionsOf(id)
    console.log(
      keep({ name, workflowId: `pawl:${id}`, recorded, executions }),
      executions.map(({ events, history }) => `${events.length} events, history of ${history.events.length}`).join('; '),
    )
  }
} finally {
  for (const close of closing) await close()
  await stack.stop()
}

async function serveLate(name: 'late' | 'later'): Promise<void> {
  const worker = await createWorker({ agents: [name === 'late' ? late : later], temporal, taskQueue, postgres: stack.databaseUrl })
  const ended = worker.run()
  closing.unshift(() => worker.shutdown().then(() => ended))
}

/** All executions of a session, once it has nothing pending. */
async function executionsOf(id: string): Promise<KeptExecution[]> {
  const workflowId = `pawl:${id}`
  const newest = await atRest(id)
  const executionIds = new Set<string>()
  // Visibility lags a little.
  while (!executionIds.has(newest)) {
    await sleep(100)
    for await (const { runId } of client.workflow.list({ query: `WorkflowId = "${workflowId}"` })) executionIds.add(runId)
  }
  const executions = await Promise.all([...executionIds].map((executionId) => executionOf(workflowId, executionId)))
  return executions.sort((a, b) => a.end.seq - b.end.seq)
}

/** Waits until the newest execution has nothing pending; returns its id. */
async function atRest(id: string): Promise<string> {
  for (;;) {
    const { runId, raw } = await client.workflow.getHandle(`pawl:${id}`).describe()
    if ((raw.pendingActivities ?? []).length === 0 && !raw.pendingWorkflowTask) return runId
    await sleep(20)
  }
}

async function executionOf(workflowId: string, executionId: string): Promise<KeptExecution> {
  const handle = client.workflow.getHandle(workflowId, executionId)
  const history = JSON.parse(historyToJSON(await handle.fetchHistory()), unlessDropped) as KeptExecution['history']
  const { base, to } = await handle.query<EventsPage, [object]>('events', { after: 0 })
  const events: SessionEvent[] = []
  // From the store, which has them as the worker made them: a query may already be answered by a replay.
  for await (const event of pawl.session(workflowId.slice('pawl:'.length)).events({ after: base.seq }))
    if (event.seq <= to.seq) events.push(event)
  const digest = events.reduce((before, event) => nextDigest(before, JSON.stringify(event)), base.digest)
  if (digest !== to.digest) throw new Error(`the store and the execution ${executionId} differ`)
  return { executionId, base, end: to, events, history }
}

function unlessDropped(key: string, value: unknown): unknown {
  return DROPPED.includes(key) ? undefined : value
}
