// The floor of `stream.ts`: the same words, each sent by a notification of its own. Started with the database, the streams and an order.
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { now, type StreamOrder } from './clock.ts'

const [databaseUrl, streams, order = ''] = process.argv.slice(2)
const { words, perSecond } = JSON.parse(order) as StreamOrder
const pool = new pg.Pool({ connectionString: databaseUrl, max: 4 })

async function speak(): Promise<void> {
  await sleep(Math.random() * 2_000)
  const begunAt = performance.now()
  const sent: Promise<unknown>[] = []
  for (let word = 0; word < words; word++) {
    const dueIn = begunAt + (word * 1_000) / perSecond - performance.now()
    if (dueIn > 0) await sleep(dueIn)
    sent.push(pool.query('select pg_notify($1, $2)', ['floor', String(now())]))
  }
  await Promise.all(sent)
}

await Promise.all(Array.from({ length: Number(streams) }, speak))
await pool.end()
