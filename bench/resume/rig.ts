// The worker whose processes the benchmark kills, and one kill of each kind, measured.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { historyLengthOf } from '../turn/history.ts'
import { type BenchWorker, startWorker } from '../worker/start.ts'

const QUIET_MS = 1_000
/** Ten seconds after an orchestrator serves, a worker starts its spare, which then loads its code. */
const SPARE_MS = 14_000
const TASK_QUEUE = 'bench-resume'
const AGENT = 'resume'
/** A session of at least this many turns is made once and reused for each kill, which adds little to its long history. */
const KEPT_FROM_TURNS = 200

/** A call that was entered, as the executor reported it. */
interface Entered {
  sessionId: string
  what: string
  attempt: number
  pid: number
  at: number
}

/** Milliseconds from the kill of an orchestrator. */
export interface OrchestratorKilled {
  /** Until its successor polls. */
  readyMs: number
  /** Until each session's next call was entered. */
  sessionMs: number[]
}

/** The kills. */
export interface ResumeBench {
  /** Milliseconds to the call running again, and the session's history events. */
  killExecutor(turns: number, end: 'tool' | 'model'): Promise<{ ms: number; events: number }>
  /** Kills it while this many sessions are each in a tool call; what counts is the call that follows. */
  killOrchestrator(sessions: number): Promise<OrchestratorKilled>
  /** Kills it while it holds the workflow task of a session that has received a message; what counts is the run's first call. */
  killOrchestratorWithTask(): Promise<OrchestratorKilled>
  /** Milliseconds until a second worker runs the call of a worker whose processes were all killed. */
  killWorker(): Promise<number>
}

/** Starts a stack and a worker on it. */
export async function withResumeBench<T>(use: (bench: ResumeBench) => Promise<T>): Promise<T> {
  const stack = await startStack()
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bench-'))
  const file = join(folder, 'entered')
  process.env.BENCH_ENTERED = file
  const temporal = { address: stack.temporalAddress, namespace: stack.namespace }
  const connection = await Connection.connect({ address: temporal.address })
  const client = new Client({ connection, namespace: temporal.namespace })
  const pawl = await Pawl.connect({ temporal, postgres: stack.databaseUrl, taskQueue: TASK_QUEUE })
  const module = fileURLToPath(new URL('agent.mjs', import.meta.url))
  const start = () => startWorker({ module, processes: 2, temporal, taskQueue: TASK_QUEUE, postgres: stack.databaseUrl })
  let worker = await start()
  const kept = new Map<number, string>()
  let names = 0

  async function entered(sessionId: string, what: string, attempt?: number): Promise<Entered> {
    for (;;) {
      const lines = (await readFile(file, 'utf8').catch(() => '')).split('\n').slice(0, -1)
      const found = lines.map((line) => JSON.parse(line) as Entered).find((one) => matches(one, sessionId, what, attempt))
      if (found) return found
      await sleep(10)
    }
  }

  async function quiet(): Promise<BenchWorker> {
    await worker.serving()
    await sleep(QUIET_MS)
    return worker
  }

  async function converse(turns: number, end: string, sessionId?: string) {
    const name = `call ${++names}`
    const session = pawl.session(sessionId, { agent: AGENT })
    return { name, session, handle: await session.send(JSON.stringify({ name, turns, end })) }
  }

  /** The session that already has this many turns, if one is kept, and how many turns the next run must add. */
  async function sessionWith(turns: number): Promise<{ id?: string; more: number }> {
    if (turns < KEPT_FROM_TURNS) return { more: turns }
    const known = kept.get(turns)
    if (known !== undefined) return { id: known, more: 0 }
    const { session, handle } = await converse(turns, 'nothing')
    await handle.result()
    kept.set(turns, session.id)
    return { id: session.id, more: 0 }
  }

  async function killExecutor(turns: number, end: 'tool' | 'model'): Promise<{ ms: number; events: number }> {
    const { id, more } = await sessionWith(turns)
    await quiet()
    const { name, session, handle } = await converse(more, end, id)
    const { pid } = await entered(session.id, name, 1)
    const events = await historyLengthOf(client, `pawl:${session.id}`)
    const at = Date.now()
    process.kill(pid, 'SIGKILL')
    const again = await entered(session.id, name, 2)
    await handle.result()
    return { ms: again.at - at, events }
  }

  /** Kills the orchestrator once `prepare` has made work for it, and waits until the calls that must follow are entered. */
  async function killIt(
    prepare: (pid: number) => Promise<{ id: string; what: string; settled: Promise<unknown> }[]>,
  ): Promise<OrchestratorKilled> {
    const { pids, events } = await quiet()
    await sleep(SPARE_MS)
    const { orchestrator } = pids()
    const spoken = await prepare(orchestrator)
    const before = events.length
    const at = Date.now()
    process.kill(orchestrator, 'SIGKILL')
    const after = await Promise.all(spoken.map(({ id, what }) => entered(id, what)))
    await Promise.all(spoken.map(({ settled }) => settled))
    const ready = events.slice(before).find(({ event }) => event === 'orchestrator_ready')
    if (!ready) throw new Error('The sessions went on without a new orchestrator.')
    return { readyMs: ready.at - at, sessionMs: after.map((one) => one.at - at) }
  }

  async function killOrchestrator(sessions: number): Promise<OrchestratorKilled> {
    return killIt(async () => {
      const spoken = await Promise.all(Array.from({ length: sessions }, () => converse(2, 'outlived')))
      await Promise.all(spoken.map(({ name, session }) => entered(session.id, name, 1)))
      return spoken.map(({ name, session, handle }) => ({ id: session.id, what: `${name} after`, settled: handle.result() }))
    })
  }

  async function killOrchestratorWithTask(): Promise<OrchestratorKilled> {
    const first = await converse(24, 'nothing')
    await first.handle.result()
    return killIt(async (pid) => {
      // A stopped process still holds its polls, so the server hands it the task.
      process.kill(pid, 'SIGSTOP')
      const { name, session, handle } = await converse(0, 'begun', first.session.id)
      const workflow = client.workflow.getHandle(`pawl:${session.id}`)
      for (;;) {
        const { raw } = await workflow.describe()
        if (raw.pendingWorkflowTask?.startedTime) break
        await sleep(10)
      }
      return [{ id: session.id, what: name, settled: handle.result() }]
    })
  }

  async function killWorker(): Promise<number> {
    const victim = await quiet()
    const { name, session, handle } = await converse(24, 'tool')
    await entered(session.id, name, 1)
    const second = await start()
    await sleep(QUIET_MS)
    const at = Date.now()
    victim.kill()
    worker = second
    const again = await entered(session.id, name, 2)
    await handle.result()
    return again.at - at
  }

  try {
    return await use({ killExecutor, killOrchestrator, killOrchestratorWithTask, killWorker })
  } finally {
    await worker.stop()
    await pawl.close()
    await connection.close()
    await stack.stop()
    await rm(folder, { recursive: true })
  }
}

function matches(one: Entered, sessionId: string, what: string, attempt = one.attempt): boolean {
  return one.sessionId === sessionId && one.what === what && one.attempt === attempt
}
