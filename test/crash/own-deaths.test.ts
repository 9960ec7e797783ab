// Executors that their own code ends, or that die at a moment no tool can observe: each call resumes as its effect allows.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seed, variants } from '../support/sizes.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { defined } from '../../src/session/defined.ts'
import { DIED, killedWhileResolving, ONCE_A_TURN, requests } from './support/resolving.ts'
import { isAlive, type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

/** Room for a result of 64 MB. */
const HEAP_MB = 400

const call = (tool: string, how?: string): Plan => [[{ tool, input: { name: 'a', ...defined({ how }) } }]]

let rig: Rig
let workers: Supervised

// One executor, so calls that run at the same time share it and die with it.
beforeAll(async () => {
  rig = await startRig()
  workers = await rig.supervise({ processes: 1, executorMemory: HEAP_MB })
})

afterAll(() => rig.close())

const executor = (): number => workers.supervisor.pids()[0] ?? expect.fail('no executor')
const attempts = (session: string, stage: 'entered' | 'applied' | 'verify' | 'model', what?: string): number[] =>
  rig.ledger.marks({ session, stage, ...defined({ what }) }).map(({ attempt }) => attempt)

/** The calls that the executor held when it died. */
async function heldAtDeath(pid: number): Promise<string[]> {
  const died = await untilFound(() => workers.events.find((event) => event.event === 'worker_died' && event.pid === pid))
  return died.event === 'worker_died' ? died.calls.map(({ call: id }) => id) : []
}

describe('when an executor dies between being given a job and accepting it', () => {
  it('if an executor dies before it accepts a tool call, another one gets it: no attempt is counted, and the body is entered once', async () => {
    const run = await rig.start(call('permit'))
    const { pending } = await untilFound(async () => {
      const end = await run.settled()
      return end.status === 'waiting' && end
    })
    const digest = pending[0]?.digest ?? expect.fail('no digest')
    await workers.serving()
    const pid = executor()
    process.kill(pid, 'SIGSTOP')
    await rig.pawl.session(run.sessionId).approve('t_1_1_0', { digest })
    await untilFound(async () => (await rig.startedActivities(run.sessionId)).includes('executeTool'))
    // A moment later, it has been sent to the executor.
    await sleep(1_000)
    process.kill(pid, 'SIGKILL')
    expect(await heldAtDeath(pid)).toEqual(['t_1_1_0'])
    expect((await run.result()).text).toBe(finalAnswer(call('permit')))
    expect(attempts(run.sessionId, 'entered')).toEqual([1])
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })

  it('if an executor dies before it accepts a model call, another one gets it', async () => {
    await workers.serving()
    const pid = executor()
    process.kill(pid, 'SIGSTOP')
    const run = await rig.start(call('look'))
    await untilFound(async () => (await rig.startedActivities(run.sessionId)).includes('callModel'))
    await sleep(1_000)
    process.kill(pid, 'SIGKILL')
    expect(await heldAtDeath(pid)).toEqual(['model:1:1'])
    expect((await run.result()).text).toBe(finalAnswer(call('look')))
    expect(attempts(run.sessionId, 'model')).toEqual([1, 1])
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })
})

describe('when the only executor dies between receiving the model’s answer and resolving its calls', () => {
  it('the answer of a model whose only executor has died waits until another executor has started', async () => {
    await workers.serving()
    const sessionId = await killedWhileResolving(rig)
    expect(requests(rig, sessionId)).toEqual(ONCE_A_TURN)
    expect(await rig.errors(sessionId, 1)).toEqual([DIED])
  })

  it('the next orchestrator also knows the answer of a model whose only executor has died', async () => {
    await workers.serving()
    const sessionId = await killedWhileResolving(rig, async () => {
      process.kill(workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
      // Once the executor gets other jobs, it has reported what it holds.
      await (await rig.start(call('look'))).result()
    })
    const asked = requests(rig, sessionId).map(([of]) => of)
    expect(asked).toEqual(['model:1:1', 'model:1:2'])
    // If a new orchestrator takes longer to start than the server waits for a heartbeat, another attempt has used the answer.
    const errors = await rig.errors(sessionId, 1)
    if (!errors.some((one) => one.class === 'HeartbeatTimeout')) expect(errors).toEqual([DIED])
  })
})

describe('when an executor dies between the end of a body and its result', () => {
  it('if an executor dies between the end of an external body and its result, verify is asked, and the body is not entered again', async () => {
    await workers.serving()
    const run = await rig.start(call('vanish'))
    expect((await run.result()).text).toBe(finalAnswer(call('vanish')))
    expect(attempts(run.sessionId, 'entered')).toEqual([1])
    expect(attempts(run.sessionId, 'verify')).toHaveLength(1)
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:vanish', attempt: 1, class: 'WorkerDied' }])
  })

  it('if an executor dies between the end of an idempotent body and its result, the call is repeated with the same key', async () => {
    await workers.serving()
    const run = await rig.start(call('vanput'))
    expect((await run.result()).text).toBe(finalAnswer(call('vanput')))
    expect(attempts(run.sessionId, 'entered')).toEqual([1, 2])
    expect(new Set(rig.ledger.marks({ session: run.sessionId, what: 'vanput' }).map(({ key }) => key)).size).toBe(1)
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:vanput', attempt: 1, class: 'WorkerDied' }])
  })
})

const ENDS = [
  ['process.exit(0)', 'exit'],
  ['process.abort()', 'abort'],
  ['more memory than executorMemory', 'heap'],
] as const

describe.each(variants(ENDS, 1))(`when a tool ends its executor (%s; seed ${seed}, again with PAWL_SEED)`, (_, how) => {
  it('when a tool ends its executor, all calls of that executor resume as their effects allow', async () => {
    // The orchestrator would remember the deaths of the variant before: calls that died beside the tool wait for an executor of their own.
    workers.supervisor.kill()
    workers = await rig.supervise({ processes: 1, executorMemory: HEAP_MB })
    await workers.serving()
    const neighbours = []
    for (const what of ['look', 'charge'] as const) {
      const held = rig.ledger.holdNext({ stage: 'entered', what })
      neighbours.push({ what, run: await rig.start(call(what)), mark: await held })
    }
    const [external, idempotent] = [call('perish', how), call('perput', how)]
    const once = await rig.start(external)
    expect((await once.result()).text).toBe(finalAnswer(external))
    expect(attempts(once.sessionId, 'entered')).toEqual([1])
    expect(attempts(once.sessionId, 'verify')).toHaveLength(1)
    for (const { what, run } of neighbours) {
      expect((await run.result()).text).toBe(finalAnswer(call(what)))
      expect(attempts(run.sessionId, 'entered')).toEqual([1, 2])
      expect(attempts(run.sessionId, 'applied')).toEqual([2])
      expect(rig.ledger.marks({ session: run.sessionId, stage: 'verified_too_early' })).toEqual([])
      expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: `tool:${what}`, attempt: 1, class: 'WorkerDied' }])
    }
    await workers.serving()
    const repeated = await rig.start(idempotent)
    expect((await repeated.result()).text).toBe(finalAnswer(idempotent))
    expect(attempts(repeated.sessionId, 'entered')).toEqual([1, 2])
    for (const [run, what] of [
      [once, 'perish'],
      [repeated, 'perput'],
    ] as const) {
      expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: `tool:${what}`, attempt: 1, class: 'WorkerDied' }])
    }
  })
})

describe('a detached process that a tool started', () => {
  it('a detached process that a tool started outlives its executor, whose death is still confirmed', async () => {
    await workers.serving()
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'beget' })
    const run = await rig.start(call('beget'))
    const { pid, note } = await held
    const { child } = note as { child: number }
    try {
      process.kill(pid, 'SIGKILL')
      // The second attempt starts a child as well, and its executor completes the call.
      const second = await rig.ledger.reached({ session: run.sessionId, stage: 'entered', attempt: 2 })
      process.kill((second.note as { child: number }).child, 'SIGKILL')
      expect(isAlive(child)).toBe(true)
      expect((await run.result()).text).toBe(finalAnswer(call('beget')))
      expect(rig.ledger.marks({ session: run.sessionId, stage: 'verified_too_early' })).toEqual([])
      expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:beget', attempt: 1, class: 'WorkerDied' }])
    } finally {
      process.kill(child, 'SIGKILL')
    }
  })
})

describe('a call whose result is larger than 64 MB', () => {
  it('a call whose result is larger than 64 MB is recorded as completed, with a note that shows how the result begins', async () => {
    await workers.serving()
    const run = await rig.start(call('gush'))
    expect((await run.result()).text).toMatch(
      /^Done: The call completed\. Its result has 641\d+ bytes, more than could be recorded .*begins:\nx+$/,
    )
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'applied' })).toHaveLength(1)
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })
})
