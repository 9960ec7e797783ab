// Plans: the workflow answers the model's calls, every version is kept, finished steps make checkpoints, and going back restores the plan.
import { tmpdir } from 'node:os'
import { defineAgent, defineTool, ModelError, type ToolUseBlock } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { z } from 'zod'
import { workflowIdOf } from '../../src/session/protocol/protocol.ts'
import { runPawl } from './cli/processes.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { foldedState } from '../support/folded.ts'
import { answersIn, inOrder, resultsIn, type Scene, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

const planner = stage({ name: 'planner', plan: { guidance: true }, checkpoint: { everyTurns: 1_000 } })
const watcher = stage({ name: 'watcher', plan: true, checkpoint: { on: [{ type: 'plan_changed' }] } })
const restarter = stage({
  name: 'restarter',
  plan: true,
  retry: { maxRetries: 0 },
  recovery: { automatic: ['restart_run'], baseDelay: 10 },
})
const unplanned = stage({ name: 'unplanned' })

let here: Deployment

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [planner, watcher, restarter, unplanned].map(({ agent }) => agent) })
})
afterAll(() => here?.stop())

const call = (name: string, input: object): ToolUseBlock => ({ type: 'tool_use', id: `toolu_${name}`, name, input: input as never })
const STEPS = [
  { id: 'book', title: 'Book the flight', postconditions: 'There is a booking code.' },
  { id: 'pay', title: 'Pay' },
]
const setUp = call('plan_setup', { objective: 'To Rome', steps: STEPS })
/** Booking has postconditions, so it needs evidence to be done. */
const update = (id: string, status: string, evidence = id === 'book' && status === 'done' ? 'Code X7' : undefined) =>
  call('plan_update_step', { id, status, ...(evidence && { evidence }) })

async function run(session: SessionHandle, text = 'go'): Promise<string> {
  return (await (await session.send(text)).result({ timeout: 30_000 })).text
}

/** A session of the planner whose run has ended. */
async function played(scene: Scene, by = planner) {
  const one = by.play(here.pawl, scene)
  const text = await run(one.session)
  return { ...one, text, events: await eventsOf(one.session) }
}

const statuses = async (session: SessionHandle) => (await session.plan())?.steps.map(({ id, status }) => `${id} ${status}`)

/** Types of the activities that the session's workflow has scheduled. */
async function activitiesOf(sessionId: string): Promise<string[]> {
  const { events } = await here.temporal.workflow.getHandle(workflowIdOf(sessionId)).fetchHistory()
  return (events ?? []).flatMap((event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? [])
}

describe.concurrent('a plan', () => {
  it('a plan is kept by the workflow, changes in the order of the calls, and gets a version for each change', async () => {
    const { session, id, events, requests, text } = await played({
      model: inOrder(
        [setUp, use('look', 'flights'), update('book', 'in_progress'), use('put', 'the booking'), update('book', 'done', 'Code X7')],
        (request) => String(resultsIn(request).at(-1)?.content),
      ),
    })
    expect(text).toBe('The change is recorded.\n1 of 2 steps of the plan are done.\nNext: pay (Pay)')
    expect(await session.plan()).toEqual({
      version: 3,
      objective: 'To Rome',
      steps: [
        { ...STEPS[0], status: 'done', evidence: 'Code X7' },
        { ...STEPS[1], status: 'pending' },
      ],
    })
    const order = events.flatMap((event) =>
      event.type === 'plan_changed' || event.type === 'tool_completed' ? [`${event.type} ${event.callId}`] : [],
    )
    expect(order).toEqual([
      'plan_changed t_1_1_0',
      'tool_completed t_1_1_0',
      'tool_completed t_1_1_1',
      'plan_changed t_1_1_2',
      'tool_completed t_1_1_2',
      'tool_completed t_1_1_3',
      'plan_changed t_1_1_4',
      'tool_completed t_1_1_4',
    ])
    expect(await session.plans()).toMatchObject([
      { version: 1, run: 1, turn: 1, change: { do: 'setup' }, steps: [{ status: 'pending' }, { status: 'pending' }] },
      { version: 2, change: { do: 'update_step', id: 'book', status: 'in_progress' } },
      { version: 3, change: { status: 'done', evidence: 'Code X7' }, objective: 'To Rome' },
    ])
    const [request] = requests
    expect(request?.tools.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['look', 'plan_setup', 'plan_add_step', 'plan_update_step']),
    )
    expect(request?.system).toMatch(/^Play\.\n\nWork by a plan\./)
    // Only the two calls with a body were activities.
    expect((await activitiesOf(id)).filter((type) => type === 'executeTool')).toHaveLength(2)
  })

  it('a plan refuses invalid changes with an error result that says what to do', async () => {
    const refused = [
      update('book', 'done'),
      call('plan_setup', { objective: 'o', steps: [STEPS[0], STEPS[0]] }),
      setUp,
      update('fly', 'done'),
      update('book', 'done'),
      update('book', 'pending'),
      call('plan_add_step', { id: 'pay', title: 'Pay again' }),
      setUp,
    ]
    const { session, events, requests } = await played({ model: inOrder(refused, 'done') })
    expect(ofType(events, 'tool_failed').map(({ callId, code, attempt }) => [callId, code, attempt])).toEqual([
      ['t_1_1_0', 'no_plan', 0],
      ['t_1_1_1', 'duplicate_step', 0],
      ['t_1_1_3', 'unknown_step', 0],
      ['t_1_1_5', 'step_done', 0],
      ['t_1_1_6', 'duplicate_step', 0],
      ['t_1_1_7', 'plan_unfinished', 0],
    ])
    const told = resultsIn(requests[1] ?? expect.fail('the model was not called again'))
    expect(told.map(({ isError }) => isError)).toEqual([true, true, false, true, false, true, true, true])
    expect(told[0]?.content).toBe('There is no plan yet: call plan_setup first.')
    expect(await session.plan()).toMatchObject({ version: 2 })
  })

  it('a plan is not offered to a model whose agent has none', async () => {
    const { requests, events, session } = await played({ model: inOrder([setUp], 'done') }, unplanned)
    expect(requests[0]?.tools.map(({ name }) => name)).not.toContain('plan_setup')
    expect(requests[0]?.system).toBe('Play.')
    expect(ofType(events, 'tool_failed')).toMatchObject([{ code: 'unknown_tool' }])
    expect([await session.plan(), await session.plans()]).toEqual([null, []])
  })

  it('a plan is changed only after the effect before the change has completed', async () => {
    const opened = gate()
    const { session } = planner.play(here.pawl, {
      model: inOrder([setUp, use('put', 'the booking'), update('book', 'done')], 'done'),
      put: () => opened.pass(),
    })
    const started = await session.send('go')
    await opened.reached
    expect(await statuses(session)).toEqual(['book pending', 'pay pending'])
    opened.open()
    await started.result({ timeout: 30_000 })
    expect(await statuses(session)).toEqual(['book done', 'pay pending'])
  })
})

describe.concurrent('a step that becomes done', () => {
  it('a step that becomes done makes a checkpoint when its turn ends, in the same workflow task', async () => {
    const { events, session } = await played({
      model: inOrder(
        [setUp],
        [update('book', 'in_progress')],
        [update('book', 'done'), use('look', 'more')],
        [update('pay', 'done')],
        'done',
      ),
    })
    const made = ofType(events, 'checkpoint_made')
    expect(made.map(({ turn, reasons }) => [turn, reasons])).toEqual([
      [3, ['step_done']],
      [4, ['step_done']],
    ])
    const before = (seq: number) => events.find((event) => event.seq === seq - 1)
    expect(before(made[0]?.seq ?? 0)).toMatchObject({ type: 'tool_completed', tool: 'look' })
    // Time does not advance within a workflow task.
    const [, , , paid] = ofType(events, 'plan_changed')
    expect(made[1]?.at).toBe(paid?.at)
    expect(made[1]?.seq).toBe((paid?.seq ?? 0) + 2)
    await until('the checkpoints are stored', async () => (await session.checkpoints()).length === 2)
    expect((await session.checkpoints()).map(({ reasons }) => reasons)).toEqual([['step_done'], ['step_done']])
  })

  it('a policy can make checkpoints after every change of a plan, such as a completed step', async () => {
    const { events } = await played({ model: inOrder([setUp], [update('book', 'blocked')], [update('book', 'done')], 'done') }, watcher)
    expect(ofType(events, 'checkpoint_made').map(({ turn, reasons }) => [turn, reasons])).toEqual([
      [1, ['event:plan_changed']],
      [2, ['event:plan_changed']],
      [3, ['step_done', 'event:plan_changed']],
    ])
  })
})

describe.concurrent('going back', () => {
  const twoSteps: Scene = {
    model: inOrder(
      [setUp],
      [update('book', 'done', 'Code X7')],
      [update('pay', 'done')],
      'done',
      [call('plan_add_step', { id: 'go', title: 'Go' })],
      'done',
    ),
  }

  it('going back to a checkpoint restores its plan, and later versions are kept', async () => {
    const { session, events } = await played(twoSteps)
    const [booked] = ofType(events, 'checkpoint_made')
    const at = booked?.version ?? 0
    const then = await session.plan({ at })
    expect(then?.steps.map(({ status }) => status)).toEqual(['done', 'pending'])
    await session.rollback({ checkpoint: at })
    expect(await statuses(session)).toEqual(['book done', 'pay pending'])
    expect(await session.plan()).toEqual(then)
    await expect(session.plan({ at: 99 })).rejects.toMatchObject({ code: 'checkpoint_not_found' })
    expect((await session.plans()).map(({ version, archivedSeq }) => [version, archivedSeq !== undefined])).toEqual([
      [1, false],
      [2, false],
      [3, true],
    ])
    // The model continues from there. The number of the archived version is not reused.
    await run(session, 'go on')
    expect(await session.plan()).toMatchObject({
      version: 4,
      steps: [
        { id: 'book', status: 'done' },
        { id: 'pay', status: 'done' },
      ],
    })
  })

  it('going back to a point before the plan leaves no plan', async () => {
    const { session } = await played(twoSteps)
    await session.rollback({ run: 1 })
    expect(await session.plan()).toBeNull()
    expect((await foldedState(session)).plan).toMatchObject({ current: null, version: 3 })
  })

  it('going back to repeat the newest run restores the plan from before it', async () => {
    const { session } = await played(twoSteps)
    await run(session, 'another')
    expect(await statuses(session)).toEqual(['book done', 'pay done', 'go pending'])
    const again = await session.regenerate()
    await again.result({ timeout: 30_000 })
    const added = (await session.plans()).filter(({ change }) => change.do === 'add_step')
    expect(added.map(({ version, archivedSeq }) => [version, archivedSeq !== undefined])).toEqual([
      [4, true],
      [5, false],
    ])
  })

  it('going back by forking starts the fork with the plan of that checkpoint, and does not affect the source session', async () => {
    const { session, events } = await played(twoSteps)
    const [booked] = ofType(events, 'checkpoint_made')
    await until('the checkpoint is stored', async () => (await session.checkpoints()).length === 2)
    const fork = await session.fork({ checkpoint: booked?.version ?? 0 })
    expect(await fork.plan()).toEqual(await session.plan({ at: booked?.version ?? 0 }))
    await fork.resume()
    expect(await statuses(fork)).toEqual(['book done', 'pay pending'])
    expect(await statuses(session)).toEqual(['book done', 'pay done'])
    expect((await fork.plans()).map(({ version }) => version)).toEqual([1, 2])
  })
})

describe.concurrent('a run that fails', () => {
  const broken = (): never => {
    throw new ModelError('broken', 'broken', { retryable: false })
  }

  it('a run that fails keeps its plan, and abandoning the run restores the plan from before it', async () => {
    const { session } = planner.play(here.pawl, {
      model: (request) => {
        const answers = [[setUp], 'planned', [update('book', 'done')]] as const
        const answer = answers[answersIn(request)]
        if (answer) return typeof answer === 'string' ? answer : [...answer]
        return broken()
      },
    })
    await run(session)
    const settled = await (await session.send('and now')).settled({ timeout: 30_000 })
    expect(settled).toMatchObject({ status: 'failed', code: 'broken' })
    expect(await statuses(session)).toEqual(['book done', 'pay pending'])
    await session.recover({ strategy: 'abandon', by: 'ann' })
    expect(await statuses(session)).toEqual(['book pending', 'pay pending'])
    const [started] = ofType(await eventsOf(session), 'recovery_started')
    expect(started).toMatchObject({ strategy: 'abandon', by: 'ann', restored: { plan: { version: 1 } } })
  })

  it('a run that fails is restarted by its policy with the plan from before it, and sets up its plan again', async () => {
    let calls = 0
    const { session, events } = await played(
      {
        model: (request) => {
          calls += 1
          if (answersIn(request) === 0) return [setUp]
          if (calls === 2) return broken()
          return 'done'
        },
      },
      restarter,
    )
    expect(ofType(events, 'recovery_started')).toMatchObject([{ strategy: 'restart_run', automatic: true, restored: { plan: null } }])
    expect(ofType(events, 'plan_changed').map(({ version, run: number }) => [version, number])).toEqual([
      [1, 1],
      [2, 2],
    ])
    expect(await session.plan()).toMatchObject({ version: 2 })
  })

  it('a run that fails goes back to its last effect, with the plan of that turn', async () => {
    const { session } = planner.play(here.pawl, {
      model: (request) => {
        const answers = [[setUp, use('put', 'the booking'), update('book', 'done')], [update('pay', 'in_progress')]]
        const answer = answers[answersIn(request)]
        if (answer) return answer
        return broken()
      },
    })
    expect(await (await session.send('go')).settled({ timeout: 30_000 })).toMatchObject({ status: 'failed' })
    expect(await statuses(session)).toEqual(['book done', 'pay in_progress'])
    await session.recover({ strategy: 'restart_from_last_effect' })
    const [started] = ofType(await eventsOf(session), 'recovery_started')
    expect(started?.restored?.plan?.steps.map(({ status }) => status)).toEqual(['done', 'pending'])
  })
})

describe.concurrent('a session whose workflow has ended', () => {
  it('a session has its plan when it resumes, even if its workflow ended during a turn that had changed the plan', async () => {
    const held = gate()
    const { session, id, requests } = planner.play(here.pawl, {
      model: inOrder([setUp, update('book', 'in_progress'), use('look', 'flights')], 'done'),
      look: () => held.pass(),
    })
    await session.send('go')
    await held.reached
    await until('the turn is stored', async () =>
      (await session.toolCalls()).some(({ callId, status }) => callId === 't_1_1_2' && status === 'running'),
    )
    await here.temporal.workflow.getHandle(workflowIdOf(id)).terminate('gone')
    expect((await (await session.send('are you there')).result({ timeout: 30_000 })).text).toBe('done')
    held.open()
    expect(await statuses(session)).toEqual(['book in_progress', 'pay pending'])
    // The model sees its changes, and that the lookup was cut off.
    const results = resultsIn(requests.at(-1) ?? expect.fail('no request'))
    expect(results.map(({ isError }) => isError)).toEqual([false, false, true])
  })
})

describe('pawl plan', () => {
  it('pawl plan shows the plan, and all its versions', async () => {
    const { session, id } = await played({ model: inOrder([setUp], [update('book', 'done', 'Code X7')], 'done') })
    await until('it is stored', async () => (await session.checkpoints()).length === 1)
    const { temporalAddress, namespace, databaseUrl } = inject('stack')
    const env = { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace, DATABASE_URL: databaseUrl }
    const shown = async (...args: string[]) => (await runPawl(['plan', id, ...args], { cwd: tmpdir(), env })).stdout
    const text = await shown()
    expect(text).toMatch(/^To Rome\nversion 2, made in turn 1\.2 at .*: 1 of 2 steps done, 1 pending\n/)
    expect(text).toMatch(/book +done +Book the flight +Code X7/)
    const versions = (await shown('--versions', '--json'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown)
    expect(versions).toEqual(await session.plans())
    expect(await shown('--at', '1')).toMatch(/^To Rome\nversion 2: 1 of 2 steps done, 1 pending\n/)
    expect(await shown('--versions')).toMatch(/set up with 2 steps: To Rome\n.*book is done: Code X7/s)
  })
})

it('an agent cannot have a tool with the name of a plan tool', () => {
  const tool = defineTool({ name: 'plan_setup', description: 'Mine.', input: z.object({}), effect: 'read', execute: () => 'mine' })
  expect(() => defineAgent({ name: 'mine', instructions: '', model: scripted(() => ''), tools: [tool] })).toThrow(
    expect.objectContaining({
      code: 'reserved_tool',
      message: 'Agent "mine" has a tool named "plan_setup", a name that pawl reserves. Rename it.',
    }),
  )
  expect(() => defineAgent({ name: 'mine', instructions: '', model: scripted(() => ''), plan: { guidance: 7 as never } })).toThrow(
    expect.objectContaining({ code: 'invalid_agent' }),
  )
})
