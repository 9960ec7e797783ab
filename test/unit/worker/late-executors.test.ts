// Executors that come late, or go early: the pool neither gives them jobs nor forgets what they hold.
import { describe, expect, it } from 'vitest'
import { startPool } from '../../../src/worker/orchestrator/pool.ts'
import type { Lease, Leases } from '../../../src/worker/orchestrator/leases.ts'
import type { FromExecutor, Holding, ToExecutor } from '../../../src/worker/protocol.ts'
import type { Channel } from '../../../src/worker/channel.ts'
import type { JobOrder } from '../../../src/jobs/contract.ts'

const ignore = (): void => undefined
const report = { attempt: 1, failed: [], begun: false, worker: 'here:1' }
const leases = {
  take: ({ report: given }) => ({ report: given, release: () => undefined }) as unknown as Lease,
  receive: () => undefined,
} as Leases

const orderOf = (call: string): JobOrder =>
  ({ kind: 'executeTool', input: {}, attempt: {}, ticket: { sessionId: 's', call, report } }) as unknown as JobOrder

/** The other end of an executor's line. */
function anExecutor() {
  const sent: ToExecutor[] = []
  let listener: (message: FromExecutor) => void = () => undefined
  let closed: () => void = () => undefined
  const channel: Channel<FromExecutor, ToExecutor> = {
    send: (message) => void sent.push(message),
    onMessage: (given) => {
      listener = given
    },
    onClose: (given) => {
      closed = given
    },
    close: () => undefined,
  }
  const jobs = () => sent.filter((message) => message.type === 'job')
  return {
    channel,
    jobs,
    hello: (executor: number, holding: Holding[] = []) => listener({ type: 'hello', executor, pid: executor, worker: 'here:1', holding }),
    says: (message: FromExecutor) => listener(message),
    hangsUp: () => closed(),
  }
}

function aPool() {
  const drained: number[] = []
  const deaths: { id: number; calls: string[] }[] = []
  const pool = startPool({
    leases,
    eventsFor: () => undefined,
    answerRequest: async () => undefined,
    logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
    onDrained: (executor) => drained.push(executor),
    onDeath: ({ id }, held) => deaths.push({ id, calls: held.map(({ ticket }) => ticket.call) }),
  })
  const adopted: Promise<{ result: unknown } | undefined>[] = []
  const connect = (one: ReturnType<typeof anExecutor>) => pool.connect(one.channel, (_, running) => adopted.push(running))
  return { pool, connect, adopted, drained, deaths }
}

const held = (job: string, result?: string): Holding => ({
  job,
  order: orderOf(job),
  begun: true,
  ...(result !== undefined && { outcome: { kind: 'answered', result } }),
})

describe('an executor whose end is known before its hello is read', () => {
  it('is given nothing, and what it says that it held ends at once as a death', async () => {
    const { pool, connect, adopted, deaths } = aPool()
    const [late, other] = [anExecutor(), anExecutor()]
    for (const one of [late, other]) connect(one)
    expect(pool.exited(1)).toBe(false)
    late.hello(1, [held('running')])
    other.hello(2)
    const dispatched = pool.dispatch(orderOf('new'))
    await expect.poll(() => other.jobs()).toHaveLength(1)
    expect(late.jobs()).toEqual([])
    late.hangsUp()
    await expect(adopted[0]).rejects.toMatchObject({ type: 'WorkerDied' })
    expect(deaths).toEqual([{ id: 1, calls: ['running'] }])
    const [job] = other.jobs()
    other.says({ type: 'done', job: job?.type === 'job' ? job.job : '', outcome: { kind: 'answered', result: 'done' } })
    expect(await dispatched).toEqual({ result: 'done' })
  })
})

describe('an executor that is retired before it says hello', () => {
  it('is drained only once all that it holds has ended, whatever has ended before', async () => {
    const { pool, connect, adopted, drained } = aPool()
    const old = anExecutor()
    connect(old)
    pool.retire(1)
    expect(drained).toEqual([])
    old.hello(1, [held('over', 'kept'), held('running')])
    expect(await adopted[0]).toEqual({ result: 'kept' })
    expect(drained).toEqual([])
    expect(await pool.dispatch(orderOf('new'))).toBeUndefined()
    old.says({ type: 'done', job: 'running', outcome: { kind: 'answered', result: 'done' } })
    expect(await adopted[1]).toEqual({ result: 'done' })
    expect(drained).toEqual([1])
  })
})
