// `npm run bench -- scheduled`: how late scheduled messages are delivered, by the events' own times, at a steady rate.
import { loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { quantile } from './statistics.ts'
import { startWorker } from './worker/start.ts'

/** Time to send all messages before the first is due. */
const AHEAD_MS = 15_000

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      'per-minute': { type: 'string', default: '100' },
      minutes: { type: 'string', default: '3' },
      json: { type: 'boolean', default: false },
    },
  })
  const perMinute = Number(values['per-minute'])
  const messages = Math.round(perMinute * Number(values.minutes))
  const stack = await startStack()
  const common = {
    temporal: { address: stack.temporalAddress, namespace: stack.namespace },
    postgres: stack.databaseUrl,
    taskQueue: 'bench-scheduled',
  }
  const worker = await startWorker({ ...common, module: fileURLToPath(new URL('footprint/agent.mjs', import.meta.url)), processes: 2 })
  const pawl = await Pawl.connect(common)
  try {
    const first = Date.now() + AHEAD_MS
    // The figures come at the end: a run that is cut off has printed this alone.
    console.error(`${messages} messages, the last of them due in ${Math.round((AHEAD_MS + (messages * 60_000) / perMinute) / 1_000)} s`)
    const sent = []
    for (let n = 0; n < messages; n++) {
      const at = first + Math.round((n * 60_000) / perMinute)
      const session = pawl.session(undefined, { agent: 'footprint' })
      sent.push({ at, session, run: await session.send('hello', { at }) })
    }
    const ms: number[] = []
    for (const { at, session, run: one } of sent) {
      await one.result()
      for await (const event of session.events()) {
        if (event.type === 'message_received' && event.messageId === one.messageId) ms.push(event.at - at)
      }
    }
    const [p50, p99] = [quantile(ms, 0.5), quantile(ms, 0.99)].map(Math.round)
    const most = Math.max(...ms)
    if (values.json) console.log(JSON.stringify({ bench: 'scheduled', messages, perMinute, p50Ms: p50, p99Ms: p99, maxMs: most }))
    else
      console.log(
        `late by p50 ${p50} ms, p99 ${p99} ms, at most ${most} ms (${messages} messages, ${perMinute} a minute); load average ${loadavg()[0]?.toFixed(1)}`,
      )
  } finally {
    await pawl.close()
    await worker.stop()
    await stack.stop()
  }
}
