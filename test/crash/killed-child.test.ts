// A supervised process is killed while it holds a call: each kind of call resumes as its effect allows, without intervention.
import type { HeldCall } from 'pawl/worker'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { HeldMark, MarkFilter } from './support/ledger.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised, until } from './support/rig.ts'

const call = (tool: string, input: { tells?: boolean } = {}): Plan => [[{ tool, input: { name: 'a', ...input } }]]

describe('when a process is killed', () => {
  let rig: Rig
  let workers: Supervised

  beforeAll(async () => {
    rig = await startRig()
    workers = await rig.supervise({ processes: 3 })
  })

  afterAll(() => rig.close())

  /** Runs the plan and kills the process of the first mark that fits `at`, at that mark. */
  async function killedAt(plan: Plan, at: MarkFilter) {
    // One spare is enough: the successor of the process that was killed last may still be starting.
    await workers.serving(2)
    const held = rig.ledger.holdNext(at)
    const run = await rig.start(plan)
    const mark: HeldMark = await held
    process.kill(mark.pid, 'SIGKILL')
    const { text } = await run.result()
    const { sessionId: session } = run
    return {
      text,
      errors: await rig.errors(session, 1),
      marks: (stage: 'entered' | 'applied' | 'verify' | 'model') => rig.ledger.marks({ session, stage }),
      tooEarly: rig.ledger.marks({ session, stage: 'verified_too_early' }),
    }
  }

  const died = (context: string, callId: string | null) => ({ context, call_id: callId, attempt: 1, class: 'WorkerDied', code: null })

  it('during a model call, the model is asked again', async () => {
    const plan = call('look')
    const { text, errors, marks } = await killedAt(plan, { stage: 'model' })
    expect(text).toBe(finalAnswer(plan))
    expect(marks('model').map(({ callId, attempt }) => [callId, attempt])).toEqual([
      ['model:1:1', 1],
      ['model:1:1', 2],
      ['model:1:2', 1],
    ])
    expect(errors).toEqual([died('model', null)])
  })

  it('during a call to a fallback, the fallback is asked again, and not the model before it', async () => {
    await workers.serving(2)
    const held = rig.ledger.holdNext({ stage: 'model', what: 'model' })
    const run = await rig.start([], 'guarded')
    process.kill((await held).pid, 'SIGKILL')
    expect((await run.result()).text).toBe(finalAnswer([]))
    const asked = rig.ledger.marks({ session: run.sessionId, stage: 'model' })
    expect(asked.map(({ what, attempt }) => [what, attempt])).toEqual([
      ['denied', 1],
      ['model', 2],
      ['model', 3],
    ])
    expect((await rig.errors(run.sessionId, 2)).map(({ attempt, class: of }) => [attempt, of])).toEqual([
      [1, 'ModelError'],
      [2, 'WorkerDied'],
    ])
  })

  it('by a call for the second time, further deaths that it causes take no other calls with them', async () => {
    await workers.serving()
    const guilty = await rig.start(call('crash'))
    const isGuilty = ({ sessionId }: HeldCall): boolean => sessionId === guilty.sessionId
    const deaths = () => workers.events.filter((event) => event.event === 'worker_died' && event.calls.some(isGuilty)).length
    await until(() => deaths() >= 2)
    const others = await Promise.all(Array.from({ length: 6 }, () => rig.start([[{ tool: 'dawdle', input: { name: 'a', ms: 2_000 } }]])))
    for (const other of others) await other.result()
    await until(() => deaths() >= 5)
    for (const { sessionId } of others) expect(await rig.errors(sessionId, 0)).toEqual([])
  })

  it('during a read, the read is repeated', async () => {
    const plan = call('look')
    const { text, errors, marks } = await killedAt(plan, { stage: 'entered', what: 'look' })
    expect(text).toBe(finalAnswer(plan))
    expect(marks('entered').map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(errors).toEqual([died('tool:look', 't_1_1_0')])
  })

  it.each(['entered', 'left'] as const)('during an idempotent call (%s), the call is repeated with the same key', async (stage) => {
    const plan = call('put')
    const { text, errors, marks } = await killedAt(plan, { stage, what: 'put' })
    expect(text).toBe(finalAnswer(plan))
    const [first, second, ...more] = marks('entered')
    expect([first?.attempt, second?.attempt, more]).toEqual([1, 2, []])
    expect(first?.key).not.toBe('')
    expect(second?.key).toBe(first?.key)
    expect(errors).toEqual([died('tool:put', 't_1_1_0')])
  })

  it('during an external call that did not happen, verify is asked, and the body is entered once more', async () => {
    const plan = call('charge')
    const { text, errors, marks, tooEarly } = await killedAt(plan, { stage: 'entered', what: 'charge' })
    expect(text).toBe(finalAnswer(plan))
    expect(marks('entered').map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(new Set(marks('entered').map(({ key }) => key)).size).toBe(1)
    expect(marks('applied')).toHaveLength(1)
    expect(marks('verify')).toHaveLength(1)
    expect(tooEarly).toEqual([])
    expect(errors).toEqual([died('tool:charge', 't_1_1_0')])
  })

  it('during an external call that happened, verify is asked, and the body is never entered again', async () => {
    const plan = call('charge')
    const { text, errors, marks, tooEarly } = await killedAt(plan, { stage: 'left', what: 'charge' })
    expect(text).toBe(finalAnswer(plan))
    expect(marks('entered')).toHaveLength(1)
    expect(marks('applied')).toHaveLength(1)
    expect(marks('verify')).toHaveLength(1)
    expect(tooEarly).toEqual([])
    expect(errors).toEqual([died('tool:charge', 't_1_1_0')])
  })

  it('during an external call whose verify cannot tell, the model is told so, and the body is never entered again', async () => {
    const { text, errors, marks } = await killedAt(call('charge', { tells: false }), { stage: 'entered', what: 'charge' })
    expect(text).toMatch(/^Done: The outcome of this call is unknown/)
    expect(marks('entered')).toHaveLength(1)
    expect(marks('verify')).toHaveLength(1)
    expect(errors).toEqual([died('tool:charge', 't_1_1_0')])
  })

  it('during an external call without verify, the model is told the outcome is unknown, and the body is never entered again', async () => {
    const { text, errors, marks } = await killedAt(call('post'), { stage: 'entered', what: 'post' })
    expect(text).toMatch(/^Done: The outcome of this call is unknown/)
    expect(marks('entered')).toHaveLength(1)
    expect(errors).toEqual([died('tool:post', 't_1_1_0')])
  })

  it('during verify, verify is asked again', async () => {
    const plan = call('charge')
    await workers.serving(2)
    const entered = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const verifying = rig.ledger.holdNext({ stage: 'verify', what: 'charge' })
    const run = await rig.start(plan)
    process.kill((await entered).pid, 'SIGKILL')
    process.kill((await verifying).pid, 'SIGKILL')
    const { text } = await run.result()
    expect(text).toBe(finalAnswer(plan))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' }).map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'applied' })).toHaveLength(1)
  })

  it('another one replaces it: it is reported in events, serves, and is listed by pids()', async () => {
    await workers.serving()
    const before = workers.supervisor.pids()
    const [victim = expect.fail('no process')] = before
    const from = workers.events.length
    process.kill(victim, 'SIGKILL')
    await until(() => workers.events.slice(from).some(({ event }) => event === 'worker_died'))
    await workers.serving()
    const told = workers.events.slice(from)
    const after = workers.supervisor.pids()
    const [fresh] = after.filter((pid) => !before.includes(pid))
    expect(after).toHaveLength(3)
    expect(after).not.toContain(victim)
    expect(told).toContainEqual(expect.objectContaining({ event: 'worker_died', pid: victim, signal: 'SIGKILL' }))
    expect(told.filter(({ event }) => event === 'worker_started').map(({ pid }) => pid)).toEqual([fresh])
    expect(told.filter(({ event }) => event === 'worker_ready').map(({ pid }) => pid)).toEqual([fresh])
  })
})

describe('a call that kills its process each time', () => {
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.supervise({ processes: 3 })
  })

  afterAll(() => rig.close())

  it('ends with an error result after a few deaths if it is a tool call, and the session continues', async () => {
    const run = await rig.start([[{ tool: 'crash', input: { name: 'a' } }], [{ tool: 'look', input: { name: 'b' } }]])
    const { text } = await run.result()
    expect(text).toMatch(/^Done: .*given up.*; look b$/)
    const entered = rig.ledger.marks({ session: run.sessionId, stage: 'entered', what: 'crash' })
    expect(entered.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5])
    const errors = await rig.errors(run.sessionId, 5)
    expect(errors.map(({ attempt, class: of }) => [attempt, of])).toEqual([1, 2, 3, 4, 5].map((attempt) => [attempt, 'WorkerDied']))
  })

  it('puts the session into error if it is a model call', async () => {
    const run = await rig.start(['crash'])
    const { status, error } = await until(async () => {
      const state = await rig.pawl.session(run.sessionId).state()
      return state.status === 'error' ? state : undefined
    })
    // pawl retries it later.
    expect({ status, error }).toMatchObject({ status: 'error', error: { code: 'worker_died', nextAttemptAt: expect.any(Number) } })
    await rig.pawl.session(run.sessionId).interrupt()
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'model' })).toHaveLength(5)
  })
})
