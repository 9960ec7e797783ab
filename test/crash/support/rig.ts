// What the crash tests share: a ledger, a task queue of their own, supervised or bare worker processes on it, and the store's rows.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { Client, Connection } from '@temporalio/client'
import { type ConnectOptions, Pawl, type RunHandle } from 'pawl/client'
import { type SuperviseOptions, type Supervisor, type SupervisorEvent, superviseWorkers } from 'pawl/worker'
import pg from 'pg'
import { expect, inject } from 'vitest'
import { untilFound } from '../../support/until.ts'
import { buildFixtures } from './build.ts'
import { type Ledger, startLedger } from './ledger.ts'
import { type Plan, planText } from './plan.ts'

/** A failed attempt, or a failed run, as the store has it. */
export interface ErrorRow {
  context: string
  call_id: string | null
  attempt: number | null
  class: string
  code: string | null
}

/** A call that an executor held when it died. */
export type LostCall = Extract<SupervisorEvent, { event: 'worker_died' }>['calls'][number]

/** A supervisor in this process and the events that it reported. */
export interface Supervised {
  supervisor: Supervisor
  events: SupervisorEvent[]
  /** Resolves when `processes` of them serve; default: all of them. */
  serving(processes?: number): Promise<void>
}

/** A process of a fixture script that serves. */
export interface ServingProcess {
  pid: number
  /** Lines of its standard output. */
  lines: string[]
  process: ChildProcess
  /** Exit code and signal. */
  ended: Promise<[number | null, NodeJS.Signals | null]>
}

/** The server's state of an activity that a worker has received. */
const STARTED = 2
/** Postgres's code for a table or schema that does not exist. */
const UNDEFINED_TABLE = '42P01'

/** The parts that one test file works with. */
export interface Rig {
  ledger: Ledger
  /** Starts a run of `plan` in a session of its own. Default agent: `planned`. */
  start(plan: Plan, agent?: 'planned' | 'guarded'): Promise<RunHandle>
  /** `fixture`: the worker's module; default `agents`. */
  supervise(
    options?: Partial<SuperviseOptions> & { fixture?: 'agents' | 'faulty-mcp-agents' | 'held-start' | 'mcp-agents' },
  ): Promise<Supervised>
  /**
   * Runs a fixture script that serves, and waits for a line that begins with `until`; default: `ready`. `leads`: it leads a process group
   * of its own, as a command in a terminal does.
   */
  serve(script: 'run-worker' | 'supervise', options?: { until?: string; leads?: true }): Promise<ServingProcess>
  /** Whether the store has the final outcome of a tool call, or the calls or the end of the run that a model call led to. */
  hasEnded(call: LostCall): Promise<boolean>
  /** The session's rows of `errors` once there are `count`. */
  errors(sessionId: string, count: number): Promise<ErrorRow[]>
  /** Names of the activities that the session's workflow waits for, as the server sees it. */
  pendingActivities(sessionId: string): Promise<string[]>
  /** When the server received the newest heartbeat of the pending activities, in milliseconds since 1970; 0 if none. */
  lastHeartbeat(sessionId: string): Promise<number>
  /** Names of the pending activities that a worker has received. */
  startedActivities(sessionId: string): Promise<string[]>
  /** Ends the session's workflow from outside. */
  terminate(sessionId: string): Promise<void>
  /** Resets the session's workflow to before its newest completed task. */
  reset(sessionId: string): Promise<void>
  pawl: Pawl
  taskQueue: string
  close(): Promise<void>
}

/** Sets up a rig on the shared stack. */
export async function startRig(connecting: Pick<ConnectOptions, 'dataConverter'> = {}): Promise<Rig> {
  const stack = inject('stack')
  const taskQueue = `crash-${randomUUID()}`
  const ledger = await startLedger()
  const fixtures = await buildFixtures()
  const env = { ...process.env, LEDGER_URL: ledger.url, CRASH_TASK_QUEUE: taskQueue }
  // Supervised processes inherit this process's environment.
  process.env.LEDGER_URL = ledger.url
  const temporal = { address: stack.temporalAddress, namespace: stack.namespace }
  const pawl = await Pawl.connect({ temporal, postgres: stack.databaseUrl, taskQueue, ...connecting })
  const connection = await Connection.connect({ address: temporal.address })
  const client = new Client({ connection, namespace: temporal.namespace })
  const pool = new pg.Pool({ connectionString: stack.databaseUrl, max: 1 })
  const pendingOf = async (sessionId: string) =>
    (await client.workflow.getHandle(`pawl:${sessionId}`).describe()).raw.pendingActivities ?? []
  const ends: (() => Promise<unknown>)[] = [
    () => pool.end(),
    () => connection.close(),
    () => pawl.close(),
    () => ledger.close(),
    () => fixtures.remove(),
  ]

  return {
    ledger,
    pawl,
    taskQueue,
    start: (plan, agent = 'planned') => pawl.session(`crash-${randomUUID()}`, { agent }).send(planText(plan), { isNew: true }),
    async supervise({ fixture = 'agents', ...options } = {}) {
      const events: SupervisorEvent[] = []
      const processes = options.processes ?? 2
      const supervisor = await superviseWorkers({
        module: fixtures.path(fixture),
        processes,
        temporal,
        taskQueue,
        postgres: stack.databaseUrl,
        ...options,
        onEvent: (event) => void events.push(event),
      })
      ends.push(() => supervisor.shutdown())
      const isReady = (pid: number): boolean => events.some((event) => event.event === 'worker_ready' && event.pid === pid)
      const serving = async (count = processes): Promise<void> =>
        void (await untilFound(() => supervisor.pids().filter(isReady).length >= count))
      await serving()
      return { supervisor, events, serving }
    },
    async serve(script, { until: begin = 'ready', leads: detached = false } = {}) {
      const child = spawn(process.execPath, [fixtures.path(script)], { env, detached, stdio: ['ignore', 'pipe', 'inherit'] })
      const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
      ends.push(() => endOf(child, ended))
      const lines: string[] = []
      createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
      await untilFound(() => lines.some((line) => line.startsWith(begin)) || child.exitCode !== null)
      expect(child.exitCode, `${script} ended before it served`).toBeNull()
      return { pid: child.pid ?? expect.fail('no pid'), lines, process: child, ended }
    },
    async hasEnded({ sessionId, call }) {
      const { rows } = await pool.query<{ ended: boolean }>(
        `SELECT EXISTS (SELECT FROM pawl.tool_calls WHERE session_id = $1
                        AND (call_id = $2 AND status NOT IN ('issued', 'running', 'unknown') OR 'model:' || run || ':' || turn = $2))
             OR $2 LIKE 'model:%' AND EXISTS (SELECT FROM pawl.sessions WHERE session_id = $1 AND status <> 'running') AS ended`,
        [sessionId, call],
      )
      return rows[0]?.ended === true
    },
    async errors(sessionId, count) {
      const query = 'SELECT context, call_id, attempt, class, code FROM pawl.errors WHERE session_id = $1 ORDER BY seq'
      return untilFound(async () => {
        const rows = await pool.query<ErrorRow>(query, [sessionId]).then((result) => result.rows, noTableYet)
        return rows.length >= count ? rows : undefined
      })
    },
    lastHeartbeat: async (sessionId) =>
      Math.max(
        0,
        ...(await pendingOf(sessionId)).map(
          ({ lastHeartbeatTime }) => Number(lastHeartbeatTime?.seconds ?? 0) * 1_000 + (lastHeartbeatTime?.nanos ?? 0) / 1e6,
        ),
      ),
    pendingActivities: async (sessionId) => (await pendingOf(sessionId)).map(nameOf),
    startedActivities: async (sessionId) => (await pendingOf(sessionId)).filter(({ state }) => state === STARTED).map(nameOf),
    terminate: async (sessionId) => void (await client.workflow.getHandle(`pawl:${sessionId}`).terminate('by the test')),
    async reset(sessionId) {
      const handle = client.workflow.getHandle(`pawl:${sessionId}`)
      const { events = [] } = await handle.fetchHistory()
      const newest = events?.findLast((event) => event.workflowTaskCompletedEventAttributes)
      await client.workflowService.resetWorkflowExecution({
        namespace: stack.namespace,
        workflowExecution: { workflowId: handle.workflowId, runId: (await handle.describe()).runId },
        reason: 'by the test',
        workflowTaskFinishEventId: newest?.eventId ?? expect.fail('no completed task'),
        requestId: randomUUID(),
      })
    },
    async close() {
      for (const end of ends.reverse()) await end()
    },
  }
}

function nameOf({ activityType }: { activityType?: { name?: string | null } | null }): string {
  return activityType?.name ?? ''
}

/** The first worker to start creates the tables; before that, there are no rows. */
function noTableYet(error: { code?: string }): ErrorRow[] {
  if (error.code !== UNDEFINED_TABLE) throw error
  return []
}

/** Whether the process exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

async function endOf(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
  await ended
}
