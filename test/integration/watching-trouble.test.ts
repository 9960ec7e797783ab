// Watching while Postgres crashes, and when it cannot send notifications.
import type { SessionHandle, WatchItem } from 'pawl/client'
import { startStack, type Stack } from 'pawl/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { findBouncer, startBouncer } from '../support/pgbouncer.ts'
import { stage } from '../support/scenes.ts'
import { type Gate, gate, until } from '../support/until.ts'

const WORDS = ['one ', 'two ', 'three ', 'four']

let stack: Stack
let here: Deployment
const player = stage()

beforeAll(async () => {
  stack = await startStack({ temporal: ['address'], postgres: ['embedded'] })
  here = await deploy({ stack })
  await here.startWorker({ agents: [player.agent] })
})
afterAll(async () => {
  await here?.stop()
  await stack?.stop()
})

/** A session whose model says a word for each gate that opens. */
function speaking(): { session: SessionHandle; gates: Gate[] } {
  const gates = WORDS.map(() => gate())
  const { session } = player.play(here.pawl, {
    async model(_, ctx) {
      for (const [at, word] of WORDS.entries()) {
        await gates[at]?.pass(ctx.signal)
        ctx.onDelta({ type: 'text', index: 0, text: word })
      }
      return WORDS.join('')
    },
  })
  return { session, gates }
}

/** Watches until `end` is called. */
function watch(session: SessionHandle, after = 0) {
  const stop = new AbortController()
  const seen: WatchItem[] = []
  const done = (async () => {
    for await (const item of session.watch({ after, signal: stop.signal })) seen.push(item)
  })()
  return {
    seen,
    said: () => seen.map((item) => (item.type === 'delta' && item.delta.type === 'text' ? item.delta.text : '')).join(''),
    hasEnded: () => seen.some((item) => item.type === 'event' && item.event.type === 'run_completed'),
    async end() {
      stop.abort()
      await done
    },
  }
}

/** Kills one of its processes: Postgres restarts, and empties unlogged tables. */
async function crashPostgres(): Promise<void> {
  const client = new pg.Client(stack.databaseUrl)
  client.on('error', () => {})
  await client.connect()
  const { rows } = await client.query('select pg_backend_pid() as pid')
  process.kill(Number(rows[0]?.pid), 'SIGKILL')
  await until('Postgres is back', async () => {
    const probe = new pg.Client(stack.databaseUrl)
    probe.on('error', () => {})
    await probe.connect()
    await probe.query('select 1')
    await probe.end()
    return true
  })
}

describe('a watcher', () => {
  it('a watcher keeps reading after Postgres crashed in mid-answer, and a new one gets the answer from its first word', async () => {
    const { session, gates } = speaking()
    const early = watch(session)
    const run = await session.send('count')
    gates[0]?.open()
    gates[1]?.open()
    await until('two words are read', () => early.said() === 'one two ')
    await crashPostgres()
    gates[2]?.open()
    await until('the third one is read', () => early.said() === 'one two three ')
    const late = watch(session, 2)
    await until('the other one reads all of it', () => late.said() === 'one two three ')
    gates[3]?.open()
    expect((await run.result({ timeout: 30_000 })).text).toBe(WORDS.join(''))
    await until('both see the end', () => early.hasEnded() && late.hasEnded())
    expect(early.seen.some(({ type }) => type === 'reset')).toBe(false)
    await Promise.all([early.end(), late.end()])
  })

  it('a watcher keeps up behind a pooler, which does not forward notifications', async ({ skip }) => {
    const bouncer = await findBouncer()
    if (typeof bouncer === 'string') return skip(`no pgbouncer: ${bouncer}`)
    const { url, stop } = await startBouncer(bouncer, stack.databaseUrl)
    const { session, gates } = speaking()
    const pooled = await here.connect({ postgres: url })
    const watcher = watch(pooled.session(session.id))
    const run = await session.send('count')
    for (const [at, word] of WORDS.entries()) {
      gates[at]?.open()
      if (at < WORDS.length - 1) await until(`"${word}" is read`, () => watcher.said().endsWith(word))
    }
    expect((await run.result({ timeout: 30_000 })).text).toBe(WORDS.join(''))
    await until('it sees the end', watcher.hasEnded)
    await watcher.end()
    await pooled.close()
    await stop()
  })
})
