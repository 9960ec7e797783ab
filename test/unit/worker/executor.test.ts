// An executor between two orchestrators: what it holds, what it has answered, and what it still waits for.
import { describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import { defineTool } from '../../../src/agent/define-tool.ts'
import type { JobOrder } from '../../../src/calls/jobs.ts'
import { scripted } from '../../../src/testing/scripted.ts'
import type { Channel } from '../../../src/worker/channel.ts'
import { startExecutor } from '../../../src/worker/executor/executor.ts'
import type { FromExecutor, ToExecutor } from '../../../src/worker/protocol.ts'
import { order } from './support/crew.ts'
import { mortalLine } from './support/mortal.ts'

const LOG = { debug() {}, info() {}, warn() {}, error() {} }

/** Bodies that end when a test lets them. */
const bodies: { signal: AbortSignal; finish(result: string): void }[] = []
const work = defineTool({
  name: 'work',
  description: 'Works.',
  input: z.object({}),
  effect: 'external',
  execute: (_, { signal }) => new Promise<string>((finish) => bodies.push({ signal, finish })),
})
const agent = defineAgent({ name: 'a', instructions: '', model: scripted(() => 'done'), tools: [work] })

/** An orchestrator's order to run the tool. */
function orderOfWork(call: string): JobOrder {
  const resolution = { tool: 'work', index: 0, effect: 'external', key: 'k', schemaDigest: agent.tools.get('work')?.schemaDigest }
  const known = order(call, { once: true })
  const place = { agent: 'a', executionId: known.ticket.executionId, run: 1, turn: 1, context: null, metadata: {}, tags: [] }
  return { ...known, input: { ...place, input: {}, resolution } as unknown as JobOrder['input'] }
}

/** An orchestrator that a test plays. */
function orchestrator(executor: { connect(channel: Channel<ToExecutor, FromExecutor>): void }) {
  const { near, far, end } = mortalLine<FromExecutor, ToExecutor>()
  const heard: FromExecutor[] = []
  near.onMessage((message) => heard.push(message))
  executor.connect(far)
  const of = <T extends FromExecutor['type']>(type: T) => heard.filter((one): one is FromExecutor & { type: T } => one.type === type)
  return {
    of,
    kinds: () => heard.map(({ type }) => type),
    say: (message: ToExecutor) => near.send(message),
    hears: (type: FromExecutor['type'], times = 1) => expect.poll(() => of(type).length).toBeGreaterThanOrEqual(times),
    die: end,
  }
}

const anExecutor = () => startExecutor({ id: 4, agents: [agent], services: {}, logger: LOG, ownProcess: true })

/** An executor with one job, whose body was entered with the permission of the first orchestrator. */
async function atWork(job: string) {
  const executor = anExecutor()
  const first = orchestrator(executor)
  first.say({ type: 'job', job, order: orderOfWork(job) })
  await first.hears('request')
  first.say({ type: 'answer', request: first.of('request')[0]?.request ?? 0, value: true })
  await first.hears('entered')
  const body = bodies.at(-1)
  if (!body) throw new Error('the body was not entered')
  return { executor, first, body }
}

describe('an executor', () => {
  it('an executor accepts a job, enters an external body only with permission, and answers', async () => {
    const { first, body } = await atWork('j1')
    body.finish('worked')
    await first.hears('done')
    expect(first.kinds()).toEqual(['hello', 'accepted', 'request', 'entered', 'done'])
    expect(first.of('done')[0]?.outcome).toMatchObject({ kind: 'answered', result: { kind: 'completed', value: 'worked' } })
  })

  it('an executor does not enter the body if the orchestrator says that the attempt is lost', async () => {
    const first = orchestrator(anExecutor())
    const entered = bodies.length
    first.say({ type: 'job', job: 'j2', order: orderOfWork('j2') })
    await first.hears('request')
    first.say({ type: 'refusal', request: first.of('request')[0]?.request ?? 0, code: 'attempt_lost', message: 'lost' })
    await first.hears('done')
    expect(first.of('done')[0]?.outcome).toMatchObject({ kind: 'answered', result: { kind: 'not_begun' } })
    expect(bodies).toHaveLength(entered)
  })

  it('an executor asks for permission again if the answer is out of date, because its event loop was blocked', async () => {
    const first = orchestrator(anExecutor())
    const entered = bodies.length
    first.say({ type: 'job', job: 'j5', order: orderOfWork('j5') })
    await first.hears('request')
    const now = performance.now.bind(performance)
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + 4_000)
    try {
      first.say({ type: 'answer', request: first.of('request')[0]?.request ?? 0, value: true })
      await first.hears('request', 2)
      expect(bodies).toHaveLength(entered)
      first.say({ type: 'answer', request: first.of('request')[1]?.request ?? 0, value: true })
      await first.hears('entered')
    } finally {
      clock.mockRestore()
    }
  })

  it('an executor has each external body watched from before it is entered until it has ended', async () => {
    const watched: unknown[] = []
    const executor = startExecutor({
      id: 4,
      agents: [agent],
      services: {},
      logger: LOG,
      ownProcess: true,
      bodies: { entered: (...what) => watched.push([...what, bodies.length]), left: (job) => watched.push(job) },
    })
    const first = orchestrator(executor)
    const entered = bodies.length
    first.say({ type: 'job', job: 'j6', order: orderOfWork('j6') })
    await first.hears('request')
    first.say({ type: 'answer', request: first.of('request')[0]?.request ?? 0, value: true })
    await first.hears('entered')
    expect(watched).toEqual([['j6', 60_000, entered]])
    bodies.at(-1)?.finish('worked')
    await first.hears('done')
    expect(watched.slice(1)).toEqual(['j6'])
  })

  it('an executor carries out a job once, however often it receives it', async () => {
    const { first } = await atWork('j3')
    const entered = bodies.length
    first.say({ type: 'job', job: 'j3', order: orderOfWork('j3') })
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect([first.of('accepted').length, bodies.length]).toEqual([1, entered])
  })

  it('an executor aborts a body that has to stop', async () => {
    const { first, body } = await atWork('j4')
    first.say({ type: 'stop', job: 'j4', why: 'cancelled' })
    await expect.poll(() => body.signal.aborted).toBe(true)
  })
})

describe('an executor whose orchestrator has died', () => {
  it('an executor whose orchestrator has died keeps working, and tells the next one what it holds and since when', async () => {
    const { executor, first, body } = await atWork('k1')
    first.die()
    const second = orchestrator(executor)
    await second.hears('hello')
    expect(second.of('hello')[0]).toMatchObject({
      executor: 4,
      holding: [{ job: 'k1', begun: true, entered: { agoMs: expect.any(Number), timeoutMs: expect.any(Number) } }],
    })
    expect(body.signal.aborted).toBe(false)
    body.finish('late')
    await second.hears('done')
    expect(first.of('done')).toEqual([])
  })

  it('an executor reports to a new orchestrator what it answered just before the old one died', async () => {
    const { executor, first, body } = await atWork('k2')
    body.finish('worked')
    await first.hears('done')
    first.die()
    const second = orchestrator(executor)
    await second.hears('hello')
    expect(second.of('hello')[0]?.holding).toMatchObject([{ job: 'k2', outcome: { kind: 'answered', result: { value: 'worked' } } }])
  })

  it('an executor keeps the answers of external bodies longer, and recent ones until an orchestrator serves', async () => {
    vi.useFakeTimers()
    try {
      const executor = anExecutor()
      const first = orchestrator(executor)
      first.say({ type: 'serving' })
      const broken = { ...orderOfWork('read'), kind: 'verifyTool' as const }
      const { once: _, ...ticket } = broken.ticket
      first.say({ type: 'job', job: 'external', order: orderOfWork('external') })
      await vi.advanceTimersByTimeAsync(1)
      first.say({ type: 'answer', request: first.of('request')[0]?.request ?? 0, value: true })
      await vi.advanceTimersByTimeAsync(1)
      bodies.at(-1)?.finish('worked')
      first.say({ type: 'job', job: 'repeatable', order: { ...broken, ticket } })
      await vi.advanceTimersByTimeAsync(3_000)
      expect(new Set(first.of('done').map(({ job }) => job))).toEqual(new Set(['external', 'repeatable']))
      first.die()
      await vi.advanceTimersByTimeAsync(60_000)
      const second = orchestrator(executor)
      // This one dies before it has created its Temporal workers.
      await vi.advanceTimersByTimeAsync(60_000)
      second.die()
      const third = orchestrator(executor)
      third.say({ type: 'serving' })
      await vi.advanceTimersByTimeAsync(20_000)
      third.die()
      const fourth = orchestrator(executor)
      await vi.advanceTimersByTimeAsync(1)
      const held = (one: typeof first) => one.of('hello')[0]?.holding.map(({ job }) => job)
      expect(held(second)).toEqual(['external', 'repeatable'])
      expect(held(third)).toEqual(['external', 'repeatable'])
      expect(held(fourth)).toEqual(['external'])
    } finally {
      vi.useRealTimers()
    }
  })

  it('an executor whose orchestrator has died repeats unanswered requests to the next one, after its hello', async () => {
    const executor = anExecutor()
    const first = orchestrator(executor)
    first.say({ type: 'job', job: 'k3', order: orderOfWork('k3') })
    await first.hears('request')
    first.die()
    const second = orchestrator(executor)
    await second.hears('request')
    expect(second.kinds().slice(0, 2)).toEqual(['hello', 'request'])
    // It may have been recorded as begun.
    expect(second.of('hello')[0]?.holding).toMatchObject([{ job: 'k3', begun: true }])
    const [asked] = second.of('request')
    expect(asked?.ask).toEqual({ ask: 'begin', job: 'k3' })
    second.say({ type: 'answer', request: asked?.request ?? 0, value: true })
    await second.hears('entered')
  })

  it('an executor whose orchestrator has died does not report a job that was moved to another executor', async () => {
    const { executor, first } = await atWork('k4')
    first.say({ type: 'stop', job: 'k4', why: 'moved' })
    await new Promise((resolve) => setTimeout(resolve, 5))
    first.die()
    const second = orchestrator(executor)
    await second.hears('hello')
    expect(second.of('hello')[0]?.holding).toEqual([])
  })
})
