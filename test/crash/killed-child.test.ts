// A supervised process is killed while it holds a call, or the model's answer: each kind of call resumes as its effect allows, without
// intervention.
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { seed, variants } from '../support/sizes.ts'
import { until, untilFound } from '../support/until.ts'
import type { HeldMark, MarkFilter } from './support/ledger.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { DIED, killedWhileResolving, ONCE_A_TURN, requests } from './support/resolving.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import type { HeldCall } from '../../src/worker/options.ts'

const call = (tool: string, input: { tells?: boolean } = {}): Plan => [[{ tool, input: { name: 'a', ...input } }]]

let rig: Rig
let workers: Supervised

beforeAll(async () => {
  rig = await startRig()
  workers = await rig.supervise({ processes: 3 })
})

afterAll(() => rig.close())

// The first, because one of the processes is kept for suspects for a while, and would be the only one left when the others have died.
describe('a tool call that kills its process each time', () => {
  let guilty: RunHandle
  let others: RunHandle[]

  // The others begin after its second death.
  beforeAll(async () => {
    await workers.serving()
    guilty = await rig.start([[{ tool: 'crash', input: { name: 'a' } }], [{ tool: 'look', input: { name: 'b' } }]])
    const isGuilty = ({ sessionId }: HeldCall): boolean => sessionId === guilty.sessionId
    await untilFound(() => workers.events.filter((event) => event.event === 'worker_died' && event.calls.some(isGuilty)).length >= 2)
    others = await Promise.all(Array.from({ length: 6 }, () => rig.start([[{ tool: 'dawdle', input: { name: 'a', ms: 2_000 } }]])))
    for (const run of [...others, guilty]) await run.result()
  })

  it('a tool that kills its process each time ends with an error result, and the session continues', async () => {
    const { text } = await guilty.result()
    expect(text).toMatch(/^Done: .*given up.*; look b$/)
    const entered = rig.ledger.marks({ session: guilty.sessionId, stage: 'entered', what: 'crash' })
    expect(entered.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5])
    const errors = await rig.errors(guilty.sessionId, 5)
    expect(errors.map(({ attempt, class: of }) => [attempt, of])).toEqual([1, 2, 3, 4, 5].map((attempt) => [attempt, 'WorkerDied']))
  })

  it('a tool call that kills its process each time takes no other calls with it from its third death on', async () => {
    for (const { sessionId } of others) expect(await rig.errors(sessionId, 0)).toEqual([])
  })
})

describe('when a process is killed', () => {
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

  it('when a process is killed during a model call, the model is asked again', async () => {
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

  it('when a process is killed during a call to a fallback, the fallback is asked again, and not the model before it', async () => {
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

  it('when a process is killed during a read, the read is repeated', async () => {
    const plan = call('look')
    const { text, errors, marks } = await killedAt(plan, { stage: 'entered', what: 'look' })
    expect(text).toBe(finalAnswer(plan))
    expect(marks('entered').map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(errors).toEqual([died('tool:look', 't_1_1_0')])
  })

  const repeated = `when a process is killed during an idempotent call (%s), the call is repeated with the same key (seed ${seed}, again with PAWL_SEED)`
  it.each(variants(['entered', 'left'] as const, 1))(repeated, async (stage) => {
    const plan = call('put')
    const { text, errors, marks } = await killedAt(plan, { stage, what: 'put' })
    expect(text).toBe(finalAnswer(plan))
    const [first, second, ...more] = marks('entered')
    expect([first?.attempt, second?.attempt, more]).toEqual([1, 2, []])
    expect(first?.key).not.toBe('')
    expect(second?.key).toBe(first?.key)
    expect(errors).toEqual([died('tool:put', 't_1_1_0')])
  })

  /** A tool of pawl's, and a generator of the AI SDK. */
  const EXTERNAL = ['charge', 'transfer']

  it.each(EXTERNAL)(
    'when a process is killed in an external call (%s) that did not happen, verify is asked, and the body is entered once more',
    async (tool) => {
      const plan = call(tool)
      const { text, errors, marks, tooEarly } = await killedAt(plan, { stage: 'entered', what: tool })
      expect(text).toBe(finalAnswer(plan))
      expect(marks('entered').map(({ attempt }) => attempt)).toEqual([1, 2])
      expect(new Set(marks('entered').map(({ key }) => key)).size).toBe(1)
      expect(marks('applied')).toHaveLength(1)
      expect(marks('verify')).toHaveLength(1)
      expect(tooEarly).toEqual([])
      expect(errors).toEqual([died(`tool:${tool}`, 't_1_1_0')])
    },
  )

  it.each(EXTERNAL)(
    'when a process is killed in an external call (%s) that happened, verify is asked, and the body is never entered again',
    async (tool) => {
      const plan = call(tool)
      const { text, errors, marks, tooEarly } = await killedAt(plan, { stage: 'left', what: tool })
      expect(text).toBe(finalAnswer(plan))
      expect(marks('entered')).toHaveLength(1)
      expect(marks('applied')).toHaveLength(1)
      expect(marks('verify')).toHaveLength(1)
      expect(tooEarly).toEqual([])
      expect(errors).toEqual([died(`tool:${tool}`, 't_1_1_0')])
    },
  )

  it('when a process is killed in an external call whose verify cannot tell, the model is told so, and nothing is repeated', async () => {
    const { text, errors, marks } = await killedAt(call('charge', { tells: false }), { stage: 'entered', what: 'charge' })
    expect(text).toMatch(/^Done: The outcome of this call is unknown/)
    expect(marks('entered')).toHaveLength(1)
    expect(marks('verify')).toHaveLength(1)
    expect(errors).toEqual([died('tool:charge', 't_1_1_0')])
  })

  it('when a process is killed in an external call without verify, the model is told that the outcome is unknown', async () => {
    const { text, errors, marks } = await killedAt(call('post'), { stage: 'entered', what: 'post' })
    expect(text).toMatch(/^Done: The outcome of this call is unknown/)
    expect(marks('entered')).toHaveLength(1)
    expect(errors).toEqual([died('tool:post', 't_1_1_0')])
  })

  it('when a process is killed during verify, verify is asked again', async () => {
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

  it('when a process is killed, another one replaces it: it is reported in events, serves, and is listed by pids()', async () => {
    await workers.serving()
    const before = workers.supervisor.pids()
    const [victim = expect.fail('no process')] = before
    const from = workers.events.length
    process.kill(victim, 'SIGKILL')
    await untilFound(() => workers.events.slice(from).some(({ event }) => event === 'worker_died'))
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

describe('when a process is killed after the model’s answer has reached the orchestrator, the model is not asked again', () => {
  it('another executor resolves the calls of an answer whose executor died, and one failed attempt is recorded', async () => {
    await workers.serving(2)
    const sessionId = await killedWhileResolving(rig)
    expect(requests(rig, sessionId)).toEqual(ONCE_A_TURN)
    expect(rig.ledger.marks({ session: sessionId, stage: 'entered' }).map(({ attempt }) => attempt)).toEqual([1])
    expect(await rig.errors(sessionId, 1)).toEqual([DIED])
    const events = await eventsOf(rig.pawl.session(sessionId))
    expect(ofType(events, 'model_completed').map(({ turn, attempt }) => [turn, attempt])).toEqual([
      [1, 2],
      [2, 1],
    ])
  })

  it('a run fails after an answer’s calls have killed five processes that resolved them; the model is not asked again', async () => {
    const run = await rig.start([[{ tool: 'topple', input: { name: 'a' } }]])
    const session = rig.pawl.session(run.sessionId)
    const error = await until('the run fails', async () => (await session.state()).error, 120_000)
    expect(error).toMatchObject({ code: 'worker_died', attempts: 5 })
    // Otherwise, recovery would request the answer once more and kill five more executors.
    await session.interrupt()
    expect(requests(rig, run.sessionId).filter(([, attempt]) => Number(attempt) <= 5)).toEqual([['model:1:1', 1]])
    const rows = await rig.errors(run.sessionId, 6)
    expect(rows.slice(0, 5)).toEqual([1, 2, 3, 4, 5].map((attempt) => ({ ...DIED, attempt })))
  })
})

describe('a model call that kills its process each time', () => {
  it('a model call that kills its process each time puts the session into error', async () => {
    const run = await rig.start(['crash'])
    const { status, error } = await until(
      'the run fails',
      async () => {
        const state = await rig.pawl.session(run.sessionId).state()
        return state.status === 'error' && state
      },
      120_000,
    )
    // pawl retries it later.
    expect({ status, error }).toMatchObject({ status: 'error', error: { code: 'worker_died', nextAttemptAt: expect.any(Number) } })
    await rig.pawl.session(run.sessionId).interrupt()
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'model' })).toHaveLength(5)
    const failed = ofType(await eventsOf(rig.pawl.session(run.sessionId)), 'model_attempt_failed')
    expect(failed.map(({ error: { retryable } }) => retryable)).toEqual([true, true, true, true, false])
  })
})
