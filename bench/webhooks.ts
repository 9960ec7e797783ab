// `npm run bench -- webhooks`: from the time of an event to the arrival of its request at a webhook's target.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { quantile } from './statistics.ts'
import { startWorker } from './worker/start.ts'

/** Runs a second, which is far from what the machine could do. */
const PER_SECOND = 5
/** A worker looks for new webhooks every 5 s. */
const FOUND_MS = 6_000

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { runs: { type: 'string', default: '200' }, json: { type: 'boolean', default: false } } })
  process.env.PAWL_WEBHOOKS = 'private'
  const stack = await startStack()
  const common = {
    temporal: { address: stack.temporalAddress, namespace: stack.namespace },
    postgres: stack.databaseUrl,
    taskQueue: 'bench-webhooks',
  }
  const ms: number[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (part) => (body += part))
    request.on('end', () => {
      ms.push(Date.now() - Date.parse((JSON.parse(body) as { timestamp: string }).timestamp))
      response.writeHead(204).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const worker = await startWorker({ ...common, module: fileURLToPath(new URL('footprint/agent.mjs', import.meta.url)), processes: 2 })
  const pawl = await Pawl.connect(common)
  try {
    await pawl.webhooks.create({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, types: ['run.completed'] })
    await sleep(FOUND_MS)
    const runs = Number(values.runs)
    for (let n = 0; n < runs; n++) {
      await pawl.session(undefined, { agent: 'footprint' }).send('hello')
      await sleep(1_000 / PER_SECOND)
    }
    while (ms.length < runs) await sleep(20)
    const [p50, p99] = [quantile(ms, 0.5), quantile(ms, 0.99)].map(Math.round)
    if (values.json) console.log(JSON.stringify({ bench: 'webhooks', runs, p50Ms: p50, p99Ms: p99 }))
    else
      console.log(
        `from the event to its request at the target: p50 ${p50} ms, p99 ${p99} ms (${runs} runs); load average ${loadavg()[0]?.toFixed(1)}`,
      )
  } finally {
    await pawl.close()
    await worker.stop()
    await stack.stop()
    server.close()
  }
}
