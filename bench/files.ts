// `npm run bench -- files`: how much memory a PDF in a message costs each process of a worker, and how long its turn takes.
import { randomBytes } from 'node:crypto'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { peakOf, restartPeak } from './proc.ts'
import { quantile } from './statistics.ts'
import { startWorker } from './worker/start.ts'

const TASK_QUEUE = 'bench-files'
const SETTLE_MS = 3_000

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { megabytes: { type: 'string', default: '10' }, sessions: { type: 'string', default: '10' } },
  })
  const bytes = Number(values.megabytes) * 1_000_000
  const stack = await startStack()
  const { temporalAddress: address, namespace, databaseUrl: postgres } = stack
  const common = { temporal: { address, namespace }, postgres, taskQueue: TASK_QUEUE }
  const module = fileURLToPath(new URL('footprint/agent.mjs', import.meta.url))
  const worker = await startWorker({ ...common, module, processes: 1 })
  const pawl = await Pawl.connect(common)
  try {
    const { orchestrator, executors } = worker.pids()
    for (const size of [0, bytes]) {
      // What a first run loads is not the file's.
      await runOnce(pawl, 0)
      await sleep(SETTLE_MS)
      const pids = [orchestrator, ...executors]
      const before = await Promise.all(pids.map(restartPeak))
      const times: number[] = []
      for (let n = 0; n < Number(values.sessions); n++) times.push(await runOnce(pawl, size))
      const peaks = await Promise.all(pids.map(peakOf))
      const grown = peaks.map((peak, index) => `${(peak - (before[index] ?? 0)).toFixed(0)} MB`)
      console.log(
        `${values.sessions} sessions, one after another, with a file of ${size / 1_000_000} MB: p50 ${Math.round(quantile(times, 0.5))} ms; peak RSS of the orchestrator +${grown[0]}, of the executor +${grown[1]}`,
      )
    }
    console.log(`load average ${loadavg()[0]?.toFixed(1)}`)
  } finally {
    await pawl.close()
    await worker.stop()
    await stack.stop()
  }
}

/** A run whose message has a PDF of this size; milliseconds. */
async function runOnce(pawl: Pawl, size: number): Promise<number> {
  const data = Buffer.concat([Buffer.from('%PDF-1.7\n'), randomBytes(size)]).toString('base64')
  const began = performance.now()
  const handle = await pawl.session(undefined, { agent: 'footprint' }).send([
    { type: 'text', text: 'Read it.' },
    { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data }, title: 'a.pdf' },
  ])
  await handle.result()
  return performance.now() - began
}
