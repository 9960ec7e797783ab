// Executors and orchestrators are killed while models stream: every watcher gets each event once and in order. Of the text, it gets nothing
// twice and nothing out of place, and in the end what is recorded.
import { randomUUID } from 'node:crypto'
import type { SessionHandle, WatchItem } from 'pawl/client'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { seededRandom } from '../../src/testing/crash/random.ts'
import { seed, size } from '../support/sizes.ts'
import { type Compiled, compile } from './support/build.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'
import { speech, type SpeechOrder } from './support/speech.ts'

const SESSIONS = size(4, 30)
const TURNS = size(3, 8)
const KILLS = size(4, 60)
const random = seededRandom(seed)

let rig: Rig
let fixtures: Compiled
let workers: Supervised
let store: pg.Client

beforeAll(async () => {
  fixtures = await compile(['test/crash/fixtures/speaking.ts'])
  rig = await startRig()
  workers = await rig.supervise({ module: fixtures.path('speaking'), processes: 2 })
  store = new pg.Client(inject('stack').databaseUrl)
  await store.connect()
})
afterAll(async () => {
  await store?.end()
  await rig?.close()
  await fixtures?.remove()
})

const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] ?? expect.fail('nothing to pick from')

/** Reads along and checks every item; resolves at the end of the run with the number of resets and the events' sequence numbers. */
async function readAlong(
  session: SessionHandle,
  order: SpeechOrder,
  after: number,
  onPiece: () => void,
): Promise<{ resets: number; seqs: number[] }> {
  const stop = new AbortController()
  const seqs: number[] = []
  let said: { turn: number; attempt: number; text: string } | undefined
  let resets = 0
  for await (const item of session.watch({ after, signal: stop.signal })) {
    check(item)
    if (item.type === 'event' && item.event.type === 'run_completed') stop.abort()
  }
  return { resets, seqs }

  function check(item: WatchItem): void {
    if (item.type === 'delta' && item.delta.type === 'text') {
      onPiece()
      said ??= { turn: item.turn, attempt: item.attempt, text: '' }
      said.text += item.delta.text
      expect(item).toMatchObject({ turn: said.turn, attempt: said.attempt })
      expect(speech(order, item.turn).startsWith(said.text), `${order.name}, turn ${item.turn}: ${said.text}`).toBe(true)
    } else if (item.type === 'reset') {
      expect(item).toMatchObject({ turn: said?.turn, attempt: said?.attempt })
      said = undefined
      resets += 1
    } else if (item.type === 'event') {
      expect(item.event.seq).toBe((seqs.at(-1) ?? after) + 1)
      seqs.push(item.event.seq)
      if (item.event.type !== 'model_completed') return
      // What was streamed belongs to this answer, and none of it to another one.
      expect(said?.turn ?? item.event.turn).toBe(item.event.turn)
      expect(said?.attempt ?? item.event.attempt).toBe(item.event.attempt)
      said = undefined
    }
  }
}

describe('watchers of sessions', () => {
  it(`watchers read exactly what is recorded through ${KILLS} kills in the middle of answers (seed ${seed}, again with PAWL_SEED)`, async () => {
    let pieces = 0
    let going = true
    const readers: Promise<{ resets: number; seqs: number[] }>[] = []
    const orders = Array.from({ length: SESSIONS }, (_, n): SpeechOrder => ({ name: `s${n}`, turns: TURNS, words: 60, everyMs: 20 }))
    const sessions = orders.map((order) => ({
      order,
      session: rig.pawl.session(`streams-${randomUUID()}`, { agent: 'speaking' }) as SessionHandle,
    }))
    const count = (): void => void pieces++
    const runs = await Promise.all(
      sessions.map(async ({ order, session }) => {
        readers.push(readAlong(session, order, 0, count))
        return session.send(JSON.stringify(order), { isNew: true })
      }),
    )
    const results = Promise.all(runs.map(async (run) => run.result()))
    const stop = (): void => void (going = false)
    void results.then(stop, stop)
    let kills = 0
    for (; kills < KILLS && going; kills++) {
      // Paced by progress, so that a slow machine gets as many kills as a fast one.
      const before = pieces
      while (going && pieces < before + 20) await new Promise((resolve) => setTimeout(resolve, 5))
      await new Promise((resolve) => setTimeout(resolve, random() * 200))
      if (!going) break
      const orchestrator = workers.supervisor.orchestratorPid()
      const isOrchestrator = kills % 3 === 2 && orchestrator !== undefined
      const victim = isOrchestrator ? orchestrator : workers.supervisor.pids().length > 0 ? pick(workers.supervisor.pids()) : undefined
      if (victim !== undefined) process.kill(victim, 'SIGKILL')
      // A watcher that joins in mid-answer.
      const { order, session } = pick(sessions)
      const { seq } = await session.state().catch(() => ({ seq: 0 }))
      const { rows } = await store.query(`select 1 from pawl.events where session_id = $1 and type = 'run_completed'`, [session.id])
      if (rows.length === 0) readers.push(readAlong(session, order, seq > 0 && seq <= (await storedUpTo(session.id)) ? seq : 0, count))
    }
    for (const [n, { text }] of (await results).entries()) expect(text).toBe(speech(orders[n] ?? expect.fail(), TURNS))
    const read = await Promise.all(readers)
    const resets = read.reduce((sum, one) => sum + one.resets, 0)
    const deaths = workers.events.flatMap((event) => (event.event === 'worker_died' ? event.calls : [])).length
    console.log(`streams: ${kills} kills, ${deaths} calls died, ${read.length} readers, ${pieces} pieces, ${resets} resets, seed ${seed}`)
    expect(resets).toBeGreaterThan(0)

    const ids = sessions.map(({ session }) => session.id)
    await untilFound(async () => (await store.query('select 1 from pawl.deltas where session_id = any($1)', [ids])).rows.length === 0)
  })

  async function storedUpTo(sessionId: string): Promise<number> {
    const { rows } = await store.query('select flushed_seq from pawl.sessions where session_id = $1', [sessionId])
    return Number(rows[0]?.flushed_seq ?? 0)
  }
})
