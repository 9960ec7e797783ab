// An executor is killed after the model's answer has reached the orchestrator, but before its calls are resolved: the answer is used.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised, until } from './support/rig.ts'

const plan: Plan = [[{ tool: 'weigh', input: { name: 'gold' } }]]

let rig: Rig
beforeAll(async () => {
  rig = await startRig()
})
afterAll(() => rig.close())

/** The requests that the model received: their calls and attempts. */
const requests = (session: string) => rig.ledger.marks({ session, stage: 'model' }).map(({ callId, attempt }) => [callId, attempt])

/** A run whose executor is killed, after `meanwhile`, while it resolves the model's calls. */
async function killedWhileResolving(meanwhile: () => Promise<void> = async () => undefined): Promise<string> {
  const checked = rig.ledger.holdNext({ stage: 'checked', what: 'gold' })
  const run = await rig.start(plan)
  const { pid } = await checked
  await meanwhile()
  process.kill(pid, 'SIGKILL')
  expect((await run.result()).text).toBe(finalAnswer(plan))
  return run.sessionId
}

const DIED = { context: 'model', call_id: null, attempt: 1, class: 'WorkerDied', code: null }
const ONCE_A_TURN = [
  ['model:1:1', 1],
  ['model:1:2', 1],
]

describe('the model is not asked again', () => {
  let workers: Supervised
  beforeAll(async () => {
    workers = await rig.supervise({ processes: 2 })
  })
  afterAll(() => workers.supervisor.shutdown())

  it('if another executor can resolve the calls; the death counts as a failed attempt', async () => {
    const sessionId = await killedWhileResolving()
    expect(requests(sessionId)).toEqual(ONCE_A_TURN)
    expect(rig.ledger.marks({ session: sessionId, stage: 'entered' }).map(({ attempt }) => attempt)).toEqual([1])
    expect(await rig.errors(sessionId, 1)).toEqual([DIED])
    const events = await eventsOf(rig.pawl.session(sessionId))
    expect(ofType(events, 'model_completed').map(({ turn, attempt }) => [turn, attempt])).toEqual([
      [1, 2],
      [2, 1],
    ])
  })

  it('if its calls kill each executor that resolves them; after five deaths, the run fails', async () => {
    const run = await rig.start([[{ tool: 'topple', input: { name: 'a' } }]])
    const session = rig.pawl.session(run.sessionId)
    const error = await until(async () => (await session.state()).error ?? undefined)
    expect(error).toMatchObject({ code: 'worker_died', attempts: 5 })
    // Otherwise, recovery would request the answer once more and kill five more executors.
    await session.interrupt()
    expect(requests(run.sessionId).filter(([, attempt]) => Number(attempt) <= 5)).toEqual([['model:1:1', 1]])
    const rows = await rig.errors(run.sessionId, 6)
    expect(rows.slice(0, 5)).toEqual([1, 2, 3, 4, 5].map((attempt) => ({ ...DIED, attempt })))
  })
})

describe('the answer that a worker’s only executor has received', () => {
  let workers: Supervised
  beforeAll(async () => {
    workers = await rig.supervise({ processes: 1 })
  })
  afterAll(() => workers.supervisor.shutdown())

  it('waits until another executor has started', async () => {
    const sessionId = await killedWhileResolving()
    expect(requests(sessionId)).toEqual(ONCE_A_TURN)
    expect(await rig.errors(sessionId, 1)).toEqual([DIED])
  })

  it('is known to the next orchestrator, too', async () => {
    const sessionId = await killedWhileResolving(async () => {
      process.kill(workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
      // Once the executor gets other jobs, it has reported what it holds.
      await (await rig.start([[{ tool: 'look', input: { name: 'a' } }]])).result()
    })
    const asked = requests(sessionId).map(([call]) => call)
    expect(asked).toEqual(['model:1:1', 'model:1:2'])
    // If a new orchestrator takes longer to start than the server waits for a heartbeat, another attempt has used the answer.
    const errors = (await rig.errors(sessionId, 1)) as { class: string }[]
    if (!errors.some((one) => one.class === 'HeartbeatTimeout')) expect(errors).toEqual([DIED])
  })
})
