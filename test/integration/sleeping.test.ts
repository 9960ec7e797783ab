// `sleepTool`: the model waits until a time or a message, and nothing runs meanwhile.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { DeclarationError, defineAgent, sleepTool } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 30_000 }
let here: Deployment
let worker: RunningWorker

/** Sleeps as long as the first message says, in JSON, and then answers with the newest result and message. */
const sleepy = defineAgent({
  name: 'sleepy',
  instructions: '',
  model: scripted((request) => {
    const [first] = request.messages
    if (answersIn(request) === 0)
      return [{ type: 'tool_use', id: 'toolu_1', name: 'sleep', input: JSON.parse(String(first?.content)) as never }]
    return JSON.stringify(request.messages.slice(2).map(({ content }) => content))
  }),
  tools: [sleepTool({ max: '1d' })],
})

beforeAll(async () => {
  here = await deploy()
  worker = await here.startWorker({ agents: [sleepy, thoughtful] })
})
afterAll(() => here?.stop())

const thinks = gate()
/** Thinks before it sleeps for an hour; after that, it sleeps again until it sees a message. */
const thoughtful = defineAgent({
  name: 'thoughtful',
  instructions: '',
  model: scripted(async (request) => {
    await thinks.pass()
    const heard = request.messages.slice(1).filter(({ content }) => JSON.stringify(content).includes('hello'))
    if (heard.length > 0) return `heard ${JSON.stringify(heard)}`
    return [{ type: 'tool_use', id: `toolu_${answersIn(request)}`, name: 'sleep', input: { seconds: 3_600 } }]
  }),
  tools: [sleepTool({ max: '1d' })],
  limits: { maxTurns: 20 },
})

const newSession = (): SessionHandle => here.pawl.session(`sleepy-${randomUUID()}`, { agent: 'sleepy' })
const asleep = (session: SessionHandle) =>
  until('the model sleeps', async () => (await session.state()).current?.calls.some(({ status }) => status === 'asleep'))

describe.concurrent('a sleeping model', () => {
  it('a sleeping model wakes up at its time, and is told so', async () => {
    const session = newSession()
    const run = await session.send('{"seconds": 1.5}')
    const { text } = await run.result(TIMEOUT)
    expect(text).toContain('\\"wokenBy\\":\\"time\\"')
    const [started] = ofType(await eventsOf(session), 'sleep_started')
    const [ended] = ofType(await eventsOf(session), 'tool_completed')
    expect((ended?.at ?? 0) - (started?.at ?? 0)).toBeGreaterThanOrEqual(1_490)
    await rowsMatchEvents(here.stack, session.id)
  })

  it('a sleeping model wakes up when a message arrives, sees it in the next turn, and costs no history meanwhile', async () => {
    const session = newSession()
    const run = await session.send('{"seconds": 3600}')
    await asleep(session)
    expect(await session.state()).toMatchObject({ status: 'waiting' })
    expect((await session.status()).waitsFor).toEqual([expect.objectContaining({ for: 'time', tool: 'sleep', until: expect.any(Number) })])
    const length = async () => (await here.temporal.workflow.getHandle(`pawl:${session.id}`).describe()).historyLength
    await sleep(1_000)
    const before = await length()
    await sleep(2_500)
    expect(await length()).toBe(before)
    const settled = await run.settled({ timeout: 500 }).catch((error: { code: string }) => error.code)
    expect(settled).toBe('result_timeout')
    const stored = async () => (await here.pawl.toolCalls({ session: session.id, status: 'asleep' })).items
    expect(await until('it is stored', async () => (await stored()).length === 1 && stored())).toMatchObject([
      { tool: 'sleep', status: 'asleep' },
    ])
    expect((await here.pawl.pending.list()).items.filter(({ sessionId }) => sessionId === session.id)).toEqual([])
    await session.send('wake up')
    const { text } = await run.result(TIMEOUT)
    expect(text).toContain('\\"wokenBy\\":\\"message\\"')
    expect(text).toContain('wake up')
  })

  it('a sleeping model is not woken by a message whose deadline has passed, and by each that comes after it', async () => {
    const session = here.pawl.session(`thoughtful-${randomUUID()}`, { agent: 'thoughtful' })
    const run = await session.send('sleep')
    await thinks.reached
    const late = await session.send('too late', { deadline: 500 })
    await until('it has arrived', async () => ofType(await eventsOf(session), 'message_received').length === 2)
    await sleep(1_500)
    thinks.open()
    await asleep(session)
    await sleep(500)
    expect(ofType(await eventsOf(session), 'model_completed')).toHaveLength(1)
    await session.send('hello')
    const { text } = await run.result(TIMEOUT)
    expect(text).toContain('hello')
    expect(text).not.toContain('too late')
    expect(await late.settled(TIMEOUT)).toMatchObject({ status: 'failed', code: 'deadline_exceeded' })
    expect(ofType(await eventsOf(session), 'model_completed')).toHaveLength(2)
    await rowsMatchEvents(here.stack, session.id)
  })

  it('a sleeping model is woken by a scheduled message', async () => {
    const session = newSession()
    const run = await session.send('{"seconds": 3600}')
    await asleep(session)
    await session.send('an hour early', { delay: 500 })
    expect((await run.result(TIMEOUT)).text).toContain('an hour early')
  })

  it('a sleeping model can be interrupted, rolled back, and cannot be answered by a client', async () => {
    const session = newSession()
    const run = await session.send('{"until": "2026-01-01T00:00:00Z"}')
    expect((await run.result(TIMEOUT)).text).toContain('wokenBy')
    const long = newSession()
    const sleeping = await long.send('{"seconds": 3600}', { messageId: 'm1' })
    await asleep(long)
    await expect(long.answer('t_1_1_0', 'x')).rejects.toMatchObject({ code: 'not_waiting' })
    await long.interrupt()
    await expect(sleeping.result(TIMEOUT)).rejects.toMatchObject({ code: 'run_interrupted' })
    const other = newSession()
    await other.send('{"seconds": 3600}', { messageId: 'm1' })
    await asleep(other)
    await other.rollback({ run: 1 })
    expect(await other.state()).toMatchObject({ status: 'idle', current: null })
    await rowsMatchEvents(here.stack, other.id)
  })

  it.each(['{}', '{"seconds": 90000}', '{"seconds": 1, "until": "2026-12-24T18:00:00Z"}', '{"until": "noon"}'])(
    'is told what is wrong with %s',
    async (input) => {
      const session = newSession()
      await (await session.send(input)).result(TIMEOUT)
      expect(ofType(await eventsOf(session), 'tool_failed')).toMatchObject([{ code: 'invalid_arguments' }])
    },
  )
})

it('a sleeping model wakes up on another worker, also if none ran at its time', async () => {
  const sessions = [newSession(), newSession()]
  const runs = await Promise.all(sessions.map((session, n) => session.send(`{"seconds": ${n === 0 ? 2 : 6}}`)))
  await Promise.all(sessions.map((session) => asleep(session)))
  await worker.stop()
  await sleep(2_500)
  worker = await here.startWorker({ agents: [sleepy] })
  for (const run of runs) expect((await run.result(TIMEOUT)).text).toContain('\\"wokenBy\\":\\"time\\"')
})

it('a sleep tool without a sound maximum is refused', () => {
  for (const options of [{}, { max: 'long' }, { max: '2y' }, { max: 10 }, { max: '1h', min: 1 }]) {
    expect(() => sleepTool(options as never), JSON.stringify(options)).toThrow(DeclarationError)
  }
})
