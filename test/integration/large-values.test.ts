// Values too large for history: the model gets them whole, history carries a reference, and rows and clients return them.
import { createHash, randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import type { ModelRequest } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { startStack, type Stack } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Deployment, deploy, type RunningWorker, SILENT } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, resultsIn, saidIn } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { agent, beforeReturn, digestOf, requests, text } from './fixtures/reader.ts'

let stack: Stack
let here: Deployment
let worker: RunningWorker
let database: pg.Pool

beforeAll(async () => {
  // These tests stop and start Postgres, so they have their own.
  stack = await startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] })
  here = await deploy({ stack, history: { events: DUE } })
  worker = await here.startWorker({ agents: [agent] })
  database = new pg.Pool({ connectionString: stack.databaseUrl })
  database.on('error', () => undefined)
})
afterAll(async () => {
  await database?.end()
  await here?.stop()
  await stack?.stop()
})
beforeEach(() => stack.postgres.start())

function newSession(): SessionHandle {
  return here.pawl.session(undefined, { agent: 'reader' })
}

async function say(session: SessionHandle, said: Parameters<SessionHandle['send']>[0]): Promise<string> {
  return (await (await session.send(said)).result({ timeout: 60_000 })).text
}

function lastRequest(session: SessionHandle): ModelRequest {
  const last = requests.get(session.id)?.at(-1)
  if (!last) throw new Error('the model was not asked')
  return last
}

/** Replaces the worker with one that has nothing in memory. */
async function anotherWorker(): Promise<void> {
  await worker.stop()
  worker = await here.startWorker({ agents: [agent] })
}

async function stored(session: SessionHandle): Promise<void> {
  const events = await eventsOf((await here.connect({ postgres: false })).session(session.id))
  await until('everything is stored', async () => {
    const { rows } = await database.query('select flushed_seq::int as seq from pawl.sessions where session_id = $1', [session.id])
    return rows[0]?.seq >= (events.at(-1)?.seq ?? 0)
  })
}

async function blobsOf(session: SessionHandle): Promise<string[]> {
  const { rows } = await database.query('select sha256 from pawl.blobs where session_id = $1 order by created_at', [session.id])
  return rows.map((row) => row.sha256)
}

async function historyBytes(session: SessionHandle): Promise<number> {
  const handle = here.temporal.workflow.getHandle(`pawl:${session.id}`)
  return (await handle.describe()).historySize ?? Number.POSITIVE_INFINITY
}

/** Events of history at which sessions continue as new. */
const DUE = size(100, 1_000)
/** Characters of a result that no message to Temporal can carry: these have at most 4 MB. */
const HUGE = size(3_600_000, 8_000_000)
/** In JSON it has more bytes than that. */
const HUGE_BYTES = size(4_300_000, 10_000_000)
/** Characters of a value that goes to the store. */
const LARGE = size(1_000_000, 2_000_000)
const whole = (size: number): string => JSON.stringify({ text: text(size), size })
const sha256 = (json: string): string => createHash('sha256').update(json).digest('hex')

describe('a tool result of more than 4 MB', () => {
  let session: SessionHandle
  beforeAll(async () => {
    await stack.postgres.start()
    session = newSession()
    await say(session, `fetch ${HUGE}`)
  })

  it('a tool result of more than 4 MB is given to the model whole', () => {
    expect(Buffer.byteLength(whole(HUGE))).toBeGreaterThan(HUGE_BYTES)
    expect(resultsIn(lastRequest(session))[0]?.content === whole(HUGE)).toBe(true)
  })

  it('history has a tool result of more than 4 MB as a small reference with its size and beginning', async () => {
    const [completed] = ofType(await eventsOf(session), 'tool_completed')
    expect(completed).not.toHaveProperty('value')
    const json = JSON.stringify({ value: { text: text(HUGE), size: HUGE } })
    expect(completed?.blob).toEqual({
      sha256: sha256(json),
      bytes: Buffer.byteLength(json),
      preview: expect.stringMatching(/^\{"text":"0 a€😀/),
    })
    expect(await historyBytes(session)).toBeLessThan(100_000)
  })

  it('a tool result of more than 4 MB comes back whole from rows and by its sha256', async () => {
    await stored(session)
    const rows = await session.messages()
    const block = rows.find(({ kind }) => kind === 'tool_results')?.content[0]
    expect(typeof block === 'object' && block.type === 'tool_result' && block.content === whole(HUGE)).toBe(true)
    const [call] = await session.toolCalls()
    expect(JSON.stringify(call?.result) === whole(HUGE)).toBe(true)
    const [sha] = await blobsOf(session)
    expect(call?.resultBlob).toBe(sha)
    expect((await session.blob(sha ?? '')) === JSON.stringify({ value: { text: text(HUGE), size: HUGE } })).toBe(true)
    expect(await session.blob('0'.repeat(64))).toBeNull()
    const then = await session.messagesUpTo({ checkpoint: 2 })
    expect(then.length).toBeGreaterThan(2)
    expect(isDeepStrictEqual(then, rows.slice(0, then.length))).toBe(true)
  })

  it('another worker gives the model a tool result of more than 4 MB whole, even after continue-as-new', async () => {
    const before = JSON.stringify(lastRequest(session).messages)
    await anotherWorker()
    await say(session, 'and?')
    expect(JSON.stringify(lastRequest(session).messages).startsWith(before.slice(0, -1))).toBe(true)

    const handle = here.temporal.workflow.getHandle(`pawl:${session.id}`)
    const { runId } = await handle.describe()
    // An interrupt of an idle session only adds an event to its history.
    for (let n = 0; n < DUE + 50; n += 50) await Promise.all(Array.from({ length: 50 }, () => handle.signal('interrupt')))
    await until('it continued as new', async () => (await handle.describe()).runId !== runId)
    await anotherWorker()
    await say(session, 'and now?')
    expect(JSON.stringify(lastRequest(session).messages).startsWith(before.slice(0, -1))).toBe(true)
  })

  it('a tool result of more than 4 MB is given to the model whole by another process', async () => {
    const { messages } = lastRequest(session)
    await worker.stop()
    const { temporalAddress: address, namespace, databaseUrl: postgres } = stack
    const supervisor = await superviseWorkers({
      module: fileURLToPath(new URL('./fixtures/reader.ts', import.meta.url)),
      processes: 1,
      temporal: { address, namespace },
      postgres,
      taskQueue: here.taskQueue,
      logger: SILENT,
    })
    try {
      const answer = await say(session, 'and there?')
      const said = [
        { role: 'assistant' as const, content: [{ type: 'text' as const, text: `read ${digestOf({ messages })}` }] },
        { role: 'user' as const, content: 'and there?' },
      ]
      expect(answer).toBe(`read ${digestOf({ messages: [...messages, ...said] })}`)
    } finally {
      await supervisor.shutdown()
      worker = await here.startWorker({ agents: [agent] })
    }
  })

  it('a tool result of more than 4 MB also belongs to a fork, which keeps its own copy', async () => {
    const fork = await session.fork()
    await say(fork, 'hello')
    expect(resultsIn(lastRequest(fork))[0]?.content === whole(HUGE)).toBe(true)
    expect(await blobsOf(fork)).toEqual(await blobsOf(session))
  })
})

it('the replay of a large result is the first one, with a note, for the model and in rows', async () => {
  const session = newSession()
  await say(session, `twice ${LARGE}`)
  const replay = `[idempotent replay of t_1_1_0]\n${whole(LARGE)}`
  expect(resultsIn(lastRequest(session))[0]?.content === replay).toBe(true)
  await stored(session)
  const block = (await session.messages()).findLast(({ kind }) => kind === 'tool_results')?.content[0]
  expect(typeof block === 'object' && block.type === 'tool_result' && block.content === replay).toBe(true)
})

it('a large result that `verify` finds is treated like any other large result', async () => {
  const session = newSession()
  await say(session, `unsure ${LARGE}`)
  expect(resultsIn(lastRequest(session))[0]?.content === whole(LARGE)).toBe(true)
  const [completed] = ofType(await eventsOf(session), 'tool_completed')
  expect(completed).toMatchObject({ blob: { bytes: expect.any(Number) } })
  expect(completed).not.toHaveProperty('value')
})

it('a result below the threshold stays in history', async () => {
  const session = newSession()
  await say(session, 'fetch 50000')
  expect(ofType(await eventsOf(session), 'tool_completed')[0]).toMatchObject({ value: { text: text(50_000) } })
  expect(await blobsOf(session)).toEqual([])
})

describe('while Postgres is down', () => {
  it('while Postgres is down, a large result that fits into history stays there as a whole', async () => {
    const session = newSession()
    await say(session, 'hello')
    await stack.postgres.stop()
    await say(session, 'fetch 300000')
    expect(resultsIn(lastRequest(session))[0]?.content === whole(300_000)).toBe(true)
    expect(ofType(await eventsOf(session), 'tool_completed')[0]).toMatchObject({ value: { text: text(300_000) } })
    await stack.postgres.start()
    await stored(session)
    expect(JSON.stringify((await session.toolCalls())[0]?.result) === whole(300_000)).toBe(true)
  })

  it('while Postgres is down, a result too large for history waits for the store, and the call is not made again', async () => {
    const session = newSession()
    let entered = 0
    beforeReturn.set(session.id, async () => {
      entered += 1
      await stack.postgres.stop()
      setTimeout(() => void stack.postgres.start(), 1_000)
    })
    await say(session, `once ${HUGE}`)
    expect(entered).toBe(1)
    expect(resultsIn(lastRequest(session))[0]?.content === whole(HUGE)).toBe(true)
    expect(ofType(await eventsOf(session), 'tool_completed')[0]?.blob?.bytes).toBeGreaterThan(HUGE_BYTES)
  })

  it('a result that waits for as long as its call may last is recorded by its size and its beginning, without a failure', async () => {
    const session = newSession()
    await say(session, 'hello')
    await stack.postgres.stop()
    await say(session, `hasty ${HUGE}`)
    const [result] = resultsIn(lastRequest(session))
    expect(result).toMatchObject({ isError: false })
    expect(result?.content).toMatch(
      /^The call completed\. Its result has \d{7,8} bytes, more than could be recorded \(sha256 [0-9a-f]{64}\); it begins:\n\{"text":"0 a€/,
    )
    expect(ofType(await eventsOf(session), 'tool_attempt_failed')).toEqual([])
    const failed = (await here.temporal.workflow.getHandle(`pawl:${session.id}`).fetchHistory()).events?.filter(
      (event) => event.workflowTaskFailedEventAttributes,
    )
    expect(failed).toEqual([])
  })

  it('while Postgres is down, a worker that has a session’s large values in memory continues', async () => {
    const session = newSession()
    await say(session, `fetch ${LARGE}`)
    await stack.postgres.stop()
    await say(session, 'and?')
    expect(resultsIn(lastRequest(session))[0]?.content === whole(LARGE)).toBe(true)
  })

  it('a worker that cannot read a session’s large values reports that, waits, and continues by itself when Postgres is back', async () => {
    const session = newSession()
    await say(session, `fetch ${LARGE}`)
    await stored(session)
    await stack.postgres.stop()
    await anotherWorker()
    const asked = requests.get(session.id)?.length ?? 0
    const run = await session.send('and?')
    await until('it says what it waits for', async () => (await session.state()).error?.code === 'archive_unavailable')
    expect(await session.state()).toMatchObject({ status: 'error', error: { strategy: 'automatic' } })
    expect(requests.get(session.id)).toHaveLength(asked)

    await stack.postgres.start()
    expect(await run.result({ timeout: 60_000 })).toMatchObject({ text: expect.stringMatching(/^read /) })
    expect(resultsIn(lastRequest(session))[0]?.content === whole(LARGE)).toBe(true)
    expect(await session.state()).toMatchObject({ status: 'idle', error: null })
    expect((await eventsOf(session)).map(({ type }) => type)).toEqual(expect.arrayContaining(['error_entered', 'recovery_ended']))
  })

  it('a run that waits for large values can be interrupted', async () => {
    const session = newSession()
    await say(session, `fetch ${LARGE}`)
    await stored(session)
    await stack.postgres.stop()
    await anotherWorker()
    const run = await session.send('and?')
    await until('it says what it waits for', async () => (await session.state()).error?.code === 'archive_unavailable')
    await session.interrupt()
    expect(await run.settled({ timeout: 60_000 })).toMatchObject({ status: 'interrupted' })
  })
})

it('a permanently lost large value is described by its size and its beginning, never truncated silently', async () => {
  const session = newSession()
  await say(session, `fetch ${LARGE}`)
  await say(session, text(LARGE))
  await stored(session)
  await database.query('delete from pawl.blobs where session_id = $1', [session.id])
  await anotherWorker()
  await say(session, 'and?')
  const placeholder = /^\[A value of \d{7} bytes, sha256 [0-9a-f]{64}; it begins:\]\n/
  expect(resultsIn(lastRequest(session))[0]?.content).toMatch(placeholder)
  expect(saidIn(lastRequest(session))[1]).toMatch(placeholder)
  const [result] = (await session.messages()).find(({ kind }) => kind === 'tool_results')?.content ?? []
  expect(result).toMatchObject({ content: expect.stringMatching(placeholder) })
})

it('a large value that was changed in the store is not trusted', async () => {
  const session = newSession()
  await say(session, `fetch ${LARGE}`)
  await stored(session)
  await database.query(`update pawl.blobs set content = '{"value":"a lie"}' where session_id = $1`, [session.id])
  await anotherWorker()
  await say(session, 'and?')
  expect(resultsIn(lastRequest(session))[0]?.content).toMatch(/^\[A value of \d{7} bytes/)
})

describe('a user message', () => {
  it('a user message of more than 4 MB is read back exactly as it was sent', async () => {
    const session = newSession()
    await say(session, text(HUGE))
    expect(saidIn(lastRequest(session))[0] === text(HUGE)).toBe(true)
    const [received] = ofType(await eventsOf(session), 'message_received')
    expect(received?.blob?.sha256).toBe(sha256(JSON.stringify(text(HUGE))))
    expect(received?.content).toMatch(/^\[A value of \d+ bytes/)
    expect(await historyBytes(session)).toBeLessThan(100_000)
    await stored(session)
    expect((await session.messages())[0]?.content === text(HUGE)).toBe(true)
    await anotherWorker()
    await say(session, 'and?')
    expect(saidIn(lastRequest(session))[0] === text(HUGE)).toBe(true)
  })

  it('a user message of blocks, including images, is read back exactly as it was sent', async () => {
    const session = newSession()
    const blocks = [
      {
        type: 'image' as const,
        source: {
          type: 'base64' as const,
          media_type: 'image/png' as const,
          data: `iVBORw0KGgo${'A'.repeat(Math.ceil(LARGE / 4) * 4 + 1)}`,
        },
      },
      { type: 'text' as const, text: 'what is it?' },
    ]
    await say(session, blocks)
    expect(lastRequest(session).messages[0]?.content).toEqual(blocks)
    await stored(session)
    expect((await session.messages())[0]?.content).toEqual(blocks)
  })

  it('a user message that a signal can carry goes to the store while the store answers, and otherwise with the signal', async () => {
    const session = newSession()
    await say(session, text(200_000))
    await stack.postgres.stop()
    await say(session, text(300_000))
    expect(saidIn(lastRequest(session))).toEqual([text(200_000), text(300_000)])
    const received = ofType(await eventsOf(session), 'message_received')
    expect(received.map((event) => 'blob' in event)).toEqual([true, false])
  })

  it.each<[string, number, boolean, boolean, string, string]>([
    ['of more than a signal can carry, without a store', 1_000_000, false, true, 'InvalidMessageError', 'message_too_large'],
    ['of more than a signal can carry, while Postgres is down', 1_000_000, true, false, 'StoreError', 'store_unavailable'],
    ['of more than 20 MB', 20_000_000, true, true, 'InvalidMessageError', 'message_too_large'],
  ])('a user message %s is refused, and nothing is recorded', async (_, size, withStore, up, name, code) => {
    const id = randomUUID()
    if (!up) await stack.postgres.stop()
    const pawl = await here.connect(withStore ? {} : { postgres: false })
    await expect(pawl.session(id, { agent: 'reader' }).send('x'.repeat(size))).rejects.toMatchObject({ name, code })
    await expect(here.temporal.workflow.getHandle(`pawl:${id}`).describe()).rejects.toMatchObject({ name: 'WorkflowNotFoundError' })
  })

  it('a message that refers to a missing or unusable value is described by what it says about itself', async () => {
    const session = newSession()
    await say(session, `fetch ${LARGE}`)
    await stored(session)
    const [result = ''] = await blobsOf(session)
    const handle = here.temporal.workflow.getHandle(`pawl:${session.id}`)
    const told = [
      { sha256: 'a'.repeat(64), bytes: -1_000_000_000, preview: 'how it begins' },
      { sha256: result, bytes: Number.MAX_SAFE_INTEGER, preview: 'how it begins' },
    ]
    for (const blob of told) {
      await handle.signal('message', { messageId: blob.sha256, content: 'how it begins', blob })
      await session.run(blob.sha256).result({ timeout: 60_000 })
    }
    const said = saidIn(lastRequest(session)).slice(1)
    expect(said).toEqual(told.map(({ sha256: sha, bytes }) => `[A value of ${bytes} bytes, sha256 ${sha}; it begins:]\nhow it begins`))
    expect(answersIn(lastRequest(session))).toBe(3)
  })
})
