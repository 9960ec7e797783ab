// Calls with an effect that run as part of the model call that requests them: whatever dies, the model is not asked again, and the effect
// happens once.
import { randomUUID } from 'node:crypto'
import type { RunHandle, SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { untilFound } from '../support/until.ts'
import type { HeldMark, MarkFilter } from './support/ledger.ts'
import { type Plan, finalAnswer, planText } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

let rig: Rig
let workers: Supervised

beforeAll(async () => {
  // Executors that replace dead ones inherit it, too.
  process.env.PAWL_QUICK_CALLS = 'always'
  rig = await startRig()
  workers = await rig.supervise({ processes: 2 })
})

afterAll(async () => {
  delete process.env.PAWL_QUICK_CALLS
  await rig.close()
})

// The test before may have killed processes.
beforeEach(() => workers.serving())

/** The session learns about its agent in the first turn. */
const plan = (tool: string): Plan => [[{ tool: 'look', input: { name: 'a' } }], [{ tool, input: { name: 'b' } }]]

/** A run that is held at the first mark that fits `at`. */
async function heldAt(tool: string, at: MarkFilter): Promise<{ mark: HeldMark; run: RunHandle; session: SessionHandle }> {
  const mark = rig.ledger.holdNext(at)
  const session = rig.pawl.session(`ride-${randomUUID()}`, { agent: 'planned' })
  // Calls do not ride in a session that the store has not confirmed to be new, so it is asked first.
  const run = await session.send(planText(plan(tool)))
  const held = await mark
  expect(await rig.pendingActivities(run.sessionId)).toEqual(['callModel'])
  return { mark: held, run, session }
}

const kill = (pid: number): void => void process.kill(pid, 'SIGKILL')
const orchestrator = (): number => workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator')

/** Kills the orchestrator, and waits until another one serves. */
async function replaced(): Promise<void> {
  const from = workers.events.length
  kill(orchestrator())
  await untilFound(() => workers.events.slice(from).some(({ event }) => event === 'orchestrator_ready'))
}

/** What the call did, in order. */
const stages = ({ sessionId: session }: RunHandle, what: string, { ledger } = rig): string[] =>
  ledger.marks({ session, what }).map(({ stage, attempt }) => `${stage} ${attempt}`)

/** The run has its answer, for which the model was asked three times. */
async function answered(run: RunHandle, tool: string): Promise<void> {
  expect((await run.result()).text).toBe(finalAnswer(plan(tool)))
  expect(rig.ledger.marks({ session: run.sessionId, stage: 'model' })).toHaveLength(3)
}

const failures = async (run: RunHandle, count: number) =>
  (await rig.errors(run.sessionId, count)).map(({ context, attempt, class: name }) => `${context} ${attempt} ${name}`)

it.each(['put', 'charge', 'post'])('a quick call of %s has no activity of its own, and is entered once', async (what) => {
  const { mark, run } = await heldAt(what, { stage: 'entered', what })
  mark.release()
  await answered(run, what)
  expect(stages(run, what)).toEqual(['entered 1', 'applied 1', 'left 1'])
  expect(await failures(run, 0)).toEqual([])
})

it('if the executor dies after the effect of a riding call, verify finds it, and the answer of the model is kept', async () => {
  const { mark, run } = await heldAt('charge', { stage: 'left', what: 'charge' })
  kill(mark.pid)
  await answered(run, 'charge')
  expect(stages(run, 'charge')).toEqual(['entered 1', 'applied 1', 'left 1', 'verify 1'])
  expect(await failures(run, 1)).toEqual(['tool:charge 1 WorkerDied'])
})

it('if the executor dies before the effect of a riding call, the call is made again as attempt 2', async () => {
  const { mark, run } = await heldAt('charge', { stage: 'entered', what: 'charge' })
  kill(mark.pid)
  await answered(run, 'charge')
  expect(stages(run, 'charge').filter((stage) => !stage.startsWith('verify'))).toEqual(['entered 1', 'entered 2', 'applied 2', 'left 2'])
})

it('a riding idempotent call whose executor dies is made again with the same key', async () => {
  const { mark, run } = await heldAt('put', { stage: 'applied', what: 'put' })
  kill(mark.pid)
  await answered(run, 'put')
  expect(stages(run, 'put')).toEqual(['entered 1', 'applied 1', 'entered 2', 'applied 2', 'left 2'])
  expect(new Set(rig.ledger.marks({ session: run.sessionId, what: 'put' }).map(({ key }) => key)).size).toBe(1)
  expect(await failures(run, 1)).toEqual(['tool:put 1 WorkerDied'])
})

it('a riding call is not affected by the death of the orchestrator', async () => {
  const { mark, run } = await heldAt('post', { stage: 'entered', what: 'post' })
  await replaced()
  mark.release()
  await answered(run, 'post')
  expect(stages(run, 'post')).toEqual(['entered 1', 'applied 1', 'left 1'])
  expect(await failures(run, 0)).toEqual([])
})

it('if the orchestrator dies and then the executor of a riding call, verify finds the effect', async () => {
  const { mark, run } = await heldAt('charge', { stage: 'left', what: 'charge' })
  await replaced()
  kill(mark.pid)
  await answered(run, 'charge')
  expect(stages(run, 'charge')).toEqual(['entered 1', 'applied 1', 'left 1', 'verify 1'])
})

it('if the orchestrator and the executor of a riding call die together, verify finds the effect', async () => {
  const { mark, run } = await heldAt('charge', { stage: 'left', what: 'charge' })
  kill(orchestrator())
  kill(mark.pid)
  await answered(run, 'charge')
  expect(stages(run, 'charge')).toEqual(['entered 1', 'applied 1', 'left 1', 'verify 1'])
  expect(await failures(run, 1)).toMatchObject([expect.stringMatching(/^tool:charge 1 /)])
})

it('a pause during the model call holds up the call that the model requests', async () => {
  const { mark, run, session } = await heldAt('post', { stage: 'model' })
  const second = rig.ledger.holdNext({ stage: 'model', session: run.sessionId })
  mark.release()
  const { release } = await second
  await session.pause()
  release()
  await untilFound(async () => (await rig.pendingActivities(run.sessionId)).length === 0)
  expect(stages(run, 'post')).toEqual([])
  await session.unpause()
  await answered(run, 'post')
  expect(stages(run, 'post')).toEqual(['entered 1', 'applied 1', 'left 1'])
})

it('an interrupt during a riding call keeps the answer of the model, and the outcome of the call is recorded', async () => {
  const { mark, run, session } = await heldAt('charge', { stage: 'entered', what: 'charge' })
  await session.interrupt()
  mark.release()
  expect(await run.settled()).toMatchObject({ status: 'interrupted' })
  expect(rig.ledger.marks({ session: run.sessionId, stage: 'model' })).toHaveLength(2)
  expect(stages(run, 'charge').filter((stage) => !stage.startsWith('verify'))).toEqual(['entered 1', 'applied 1', 'left 1'])
  const charge = await untilFound(async () => (await session.toolCalls()).find(({ tool }) => tool === 'charge'))
  expect(charge).toMatchObject({ status: 'completed', attempt: 1 })
})

it.each(['entered', 'left'] as const)(
  'a session whose workflow is terminated while a riding call has %s does not make it again',
  async (stage) => {
    const { mark, run, session } = await heldAt('charge', { stage, what: 'charge' })
    await rig.terminate(run.sessionId)
    await session.resume()
    mark.release()
    await answered(run, 'charge')
    expect(rig.ledger.marks({ session: run.sessionId, what: 'charge', stage: 'applied' })).toHaveLength(1)
  },
)

it.each(['entered', 'left'] as const)(
  'a session whose workflow is reset while a riding call has %s does not make it again',
  async (stage) => {
    const { mark, run } = await heldAt('charge', { stage, what: 'charge' })
    await rig.reset(run.sessionId)
    mark.release()
    await answered(run, 'charge')
    expect(rig.ledger.marks({ session: run.sessionId, what: 'charge', stage: 'entered' })).toHaveLength(1)
  },
)

it('if a whole worker dies during riding calls, another one continues with the answers of the model', async () => {
  const alone = await startRig()
  try {
    const { process: supervisor, ended } = await alone.serve('supervise')
    const calls = []
    for (const what of ['put', 'charge']) {
      const mark = alone.ledger.holdNext({ stage: 'left', what })
      const session = alone.pawl.session(`ride-${randomUUID()}`, { agent: 'planned' })
      calls.push({ what, run: await session.send(planText(plan(what))), mark: await mark })
    }
    for (const { run } of calls) expect(await alone.pendingActivities(run.sessionId)).toEqual(['callModel'])
    supervisor.kill('SIGKILL')
    await ended
    await alone.supervise({ processes: 1 })
    for (const { what, run } of calls) {
      expect((await run.result()).text).toBe(finalAnswer(plan(what)))
      const after = what === 'put' ? ['entered 2', 'applied 2', 'left 2'] : ['verify 1']
      expect(stages(run, what, alone)).toEqual(['entered 1', 'applied 1', 'left 1', ...after])
      expect(alone.ledger.marks({ session: run.sessionId, stage: 'model' })).toHaveLength(3)
      expect(await alone.errors(run.sessionId, 1)).toMatchObject([{ context: `tool:${what}`, attempt: 1, class: 'HeartbeatTimeout' }])
    }
  } finally {
    await alone.close()
  }
})
