// What may happen to the processes that hold calls of each effect, where no other test covers it: a supervisor dies with all its processes
// after an effect, processes are asked to stop, are paused or hold a body past its timeout, and a dead attempt leaves its progress.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { defined } from '../../src/session/defined.ts'
import { seed, variants } from '../support/sizes.ts'
import type { HeldMark, Mark } from './support/ledger.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { isAlive, type Rig, type ServingProcess, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

const call = (tool: string, ms?: number): Plan => [[{ tool, input: { name: 'a', ...defined({ ms }) } }]]
/** One tool of each effect. */
const EFFECTS = ['look', 'put', 'charge'] as const

/** A call that is held at a stage of its body. */
interface HeldCall {
  what: string
  plan: Plan
  mark: HeldMark
  answer: Promise<string>
  session: string
}

/** Starts a run with one call and holds it. */
async function hold(rig: Rig, what: string, stage: Mark['stage']): Promise<HeldCall> {
  const plan = call(what)
  const held = rig.ledger.holdNext({ stage, what, attempt: 1 })
  const run = await rig.start(plan)
  const mark = await held
  const answer = run.result().then(({ text }) => text)
  // It is awaited later; a failure before that must not count as an unhandled rejection.
  answer.catch(() => undefined)
  return { what, plan, mark, answer, session: run.sessionId }
}

const stagesOf = (rig: Rig, { session, what }: HeldCall): string[] =>
  rig.ledger.marks({ session, what }).map(({ stage, attempt }) => `${stage} ${attempt}`)

const ONCE = ['entered 1', 'applied 1', 'left 1']

/** A call of each effect, held within one process or group of processes: no other exists yet that could hold them. */
async function holdAll(rig: Rig, stage: Mark['stage']): Promise<HeldCall[]> {
  const calls: HeldCall[] = []
  for (const what of EFFECTS) calls.push(await hold(rig, what, stage))
  return calls
}

/** A process, or a supervisor and its executors. */
const pidsOf = ({ pid, lines }: ServingProcess): number[] => [
  pid,
  ...lines.flatMap((line) => /^worker (\d+)$/.exec(line)?.[1] ?? []).map(Number),
]

describe('a supervisor', () => {
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
  })
  afterAll(() => rig.close())

  async function startGroup(): Promise<ServingProcess> {
    const group = await rig.serve('supervise')
    await untilFound(() => pidsOf(group).length === 3)
    return group
  }

  it('a supervisor killed between effects and replies has every call repeated except the external one', async () => {
    const group = await startGroup()
    const calls = await holdAll(rig, 'left')
    for (const pid of pidsOf(group)) process.kill(pid, 'SIGKILL')
    await startGroup()
    const again = [...ONCE, 'entered 2', 'applied 2', 'left 2']
    const expected: Record<string, string[]> = { look: again, put: again, charge: [...ONCE, 'verify 1'] }
    for (const one of calls) {
      expect(await one.answer).toBe(finalAnswer(one.plan))
      expect(stagesOf(rig, one)).toEqual(expected[one.what])
      expect(new Set(rig.ledger.marks({ session: one.session, what: one.what }).map(({ key }) => key)).size).toBe(1)
      expect(await rig.errors(one.session, 1)).toMatchObject([{ context: `tool:${one.what}`, attempt: 1, class: 'HeartbeatTimeout' }])
      expect(rig.ledger.marks({ session: one.session, stage: 'verified_too_early' })).toEqual([])
    }
  })
})

describe.each(
  variants(
    [
      { kind: 'a supervisor', script: 'supervise' },
      { kind: 'a process without a supervisor', script: 'run-worker' },
    ] as const,
    1,
  ),
)(`$kind (seed ${seed}, again with PAWL_SEED)`, ({ script }) => {
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
  })
  afterAll(() => rig.close())

  it('a worker that is asked to stop lets a call of each effect finish, records it, and exits cleanly', async () => {
    const first = await rig.serve(script)
    const calls = await holdAll(rig, 'entered')
    process.kill(first.pid, 'SIGTERM')
    for (const { mark } of calls) mark.release()
    expect(await first.ended).toEqual([0, null])
    // Another one continues the sessions.
    await rig.serve(script)
    for (const one of calls) {
      expect(await one.answer).toBe(finalAnswer(one.plan))
      expect(stagesOf(rig, one)).toEqual(ONCE)
      expect(rig.ledger.marks({ session: one.session, what: one.what }).every(({ pid }) => pidsOf(first).includes(pid))).toBe(true)
      expect(await rig.errors(one.session, 0)).toEqual([])
    }
  })
})

describe('a process without a supervisor', () => {
  let rig: Rig
  let first: ServingProcess

  beforeAll(async () => {
    rig = await startRig()
    first = await rig.serve('run-worker')
  })
  afterAll(() => rig.close())

  it('a process that was paused past its heartbeat timeout learns that its read and its idempotent call were reassigned', async () => {
    const calls = [await hold(rig, 'look', 'entered'), await hold(rig, 'put', 'entered')]
    process.kill(first.pid, 'SIGSTOP')
    let second: ServingProcess | undefined
    try {
      for (const { mark } of calls) mark.release()
      second = await rig.serve('run-worker')
      for (const one of calls) {
        expect(await one.answer).toBe(finalAnswer(one.plan))
        // While the paused one still polls the server's queue, it may be handed attempts that it never sees; each counts as lost.
        const [before, ...after] = rig.ledger.marks({ session: one.session, what: one.what })
        const number = after[0]?.attempt ?? 0
        expect(before).toMatchObject({ stage: 'entered', attempt: 1, pid: first.pid })
        expect(after.map(({ stage, attempt, pid }) => [stage, attempt, pid])).toEqual(
          ['entered', 'applied', 'left'].map((stage) => [stage, number, second?.pid]),
        )
        expect(after.at(-1)).toMatchObject({ key: before?.key, note: { stillMine: true } })
        const errors = await rig.errors(one.session, number - 1)
        expect(errors.map((error) => [error.attempt, error.class, error.code])).toEqual(
          Array.from({ length: number - 1 }, (_, index) => [index + 1, 'HeartbeatTimeout', index === 0 ? null : 'not_begun']),
        )
      }
    } finally {
      process.kill(first.pid, 'SIGCONT')
      if (second) process.kill(second.pid, 'SIGTERM')
    }
    expect(await second.ended).toEqual([0, null])
    for (const { session, what } of calls) {
      const late = await rig.ledger.reached({ session, what, stage: 'left', attempt: 1 })
      expect(late).toMatchObject({ pid: first.pid, note: { stillMine: false } })
    }
  })

  it('an unsupervised process that is killed leaves its progress to the next attempt, which continues from there', async () => {
    const { mark, answer, session, plan } = await hold(rig, 'climb', 'entered')
    process.kill(mark.pid, 'SIGKILL')
    const second = await rig.serve('run-worker')
    expect(await answer).toBe(finalAnswer(plan))
    const entered = rig.ledger.marks({ session, stage: 'entered' })
    expect(entered.map(({ attempt, pid, note }) => [attempt, pid, note])).toEqual([
      [1, mark.pid, { from: 0 }],
      [2, second.pid, { from: 1 }],
    ])
  })
})

describe(`a supervised process (seed ${seed}, again with PAWL_SEED)`, () => {
  let rig: Rig
  let workers: Supervised

  beforeAll(async () => {
    rig = await startRig()
    workers = await rig.supervise({ stuckLoop: 4_000, processes: 1 })
  })
  afterAll(() => rig.close())

  it.each(variants(['look', 'put'], 1))(
    'a supervised process that is paused too long during a call (%s) is killed, and the call is made again',
    async (what) => {
      await workers.serving()
      const one = await hold(rig, what, 'entered')
      process.kill(one.mark.pid, 'SIGSTOP')
      one.mark.release()
      expect(await one.answer).toBe(finalAnswer(one.plan))
      expect(stagesOf(rig, one)).toEqual(['entered 1', 'entered 2', 'applied 2', 'left 2'])
      expect(await rig.errors(one.session, 1)).toMatchObject([{ attempt: 1, class: 'WorkerDied', code: 'stuck_loop' }])
      await untilFound(() => !isAlive(one.mark.pid))
    },
  )

  it.each(variants(['overlook', 'overput'], 1))(
    'a supervised process outlives a call (%s) that exceeds its timeout; the call is made again with the same key',
    async (what) => {
      await workers.serving()
      const run = await rig.start(call(what, 60_000))
      expect((await run.result()).text).toBe(finalAnswer(call(what)))
      const marks = rig.ledger.marks({ session: run.sessionId, what })
      expect(marks.map(({ stage, attempt }) => `${stage} ${attempt}`)).toEqual(['entered 1', 'entered 2', 'applied 2'])
      expect(new Set(marks.map(({ key }) => key)).size).toBe(1)
      expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ attempt: 1, class: 'Timeout', code: 'timeout' }])
    },
  )

  it('a supervised process that is killed leaves its progress to the next attempt, which leaves its own to a third', async () => {
    await workers.serving()
    const one = await hold(rig, 'climb', 'entered')
    const second = rig.ledger.holdNext({ session: one.session, stage: 'entered', attempt: 2 })
    process.kill(one.mark.pid, 'SIGKILL')
    await workers.serving()
    process.kill((await second).pid, 'SIGKILL')
    expect(await one.answer).toBe(finalAnswer(one.plan))
    const entered = rig.ledger.marks({ session: one.session, stage: 'entered' })
    expect(entered.map(({ attempt, note }) => [attempt, note])).toEqual([
      [1, { from: 0 }],
      [2, { from: 1 }],
      [3, { from: 2 }],
    ])
    const said = []
    for await (const event of rig.pawl.session(one.session).events()) if (event.type === 'tool_progress') said.push(event)
    expect(said).toMatchObject([
      { attempt: 1, value: { step: 1 } },
      { attempt: 2, value: { step: 2 } },
      { attempt: 3, value: { step: 3 } },
    ])
  })
})
