// Memory: the workflow answers the model's calls, text never appears twice, every version is kept, and a rollback restores it.
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

const memory = [
  { block: 'customer', maxChars: 200 },
  { block: 'notes', maxChars: 30 },
]
const keeper = stage({ name: 'keeper', memory, checkpoint: { on: [{ type: 'memory_changed' }] } })
const restarter = stage({
  name: 'restarter',
  memory,
  retry: { maxRetries: 0 },
  recovery: { automatic: ['restart_run'], baseDelay: 10 },
})
const forgetful = stage({ name: 'forgetful' })

let here: Deployment

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [keeper, restarter, forgetful].map(({ agent }) => agent) })
})
afterAll(() => here?.stop())

const call = (name: string, input: object): ToolUseBlock => ({ type: 'tool_use', id: `toolu_${name}`, name, input: input as never })
const append = (content: string, block = 'customer') => call('memory_append', { block, content })
const replace = (content: string, old?: string) => call('memory_replace', { block: 'customer', content, ...(old && { old }) })

const HALF = 'The customer lives in Bonn'
const WHOLE = `${HALF} and likes tea.`

async function run(session: SessionHandle, text = 'go'): Promise<string> {
  return (await (await session.send(text)).result({ timeout: 30_000 })).text
}

/** A session of the keeper whose run has ended. */
async function played(scene: Scene, by = keeper) {
  const one = by.play(here.pawl, scene)
  await run(one.session)
  return { ...one, events: await eventsOf(one.session) }
}

/** The text of the block `customer`. */
const textOf = async (session: SessionHandle) => (await session.memory()).find(({ block }) => block === 'customer')?.content

/** Types of the activities that the session's workflow has scheduled. */
async function activitiesOf(sessionId: string): Promise<string[]> {
  const { events } = await here.temporal.workflow.getHandle(workflowIdOf(sessionId)).fetchHistory()
  return (events ?? []).flatMap((event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? [])
}

describe.concurrent('a memory', () => {
  it('a memory is kept by the workflow, which tells the model the outcome of each append', async () => {
    const { session, id, events, requests } = await played({
      model: inOrder([append(HALF), use('put', 'the order'), append(WHOLE), append(WHOLE)], [replace('coffee', 'tea')], 'done'),
    })
    expect(await session.memory()).toEqual([
      { block: 'customer', content: `${HALF} and likes coffee.`, maxChars: 200 },
      { block: 'notes', content: '', maxChars: 30 },
    ])
    const told = ofType(events, 'tool_completed').flatMap(({ tool, value }) => (tool === 'memory_append' ? [value] : []))
    expect(told).toEqual([
      { status: 'success', block: 'customer', chars: HALF.length, maxChars: 200 },
      { status: 'resumed_partial', skippedBytes: HALF.length, block: 'customer', chars: WHOLE.length, maxChars: 200 },
      { status: 'already_present', block: 'customer', chars: WHOLE.length, maxChars: 200 },
    ])
    expect(await session.memoryVersions()).toMatchObject([
      { version: 1, run: 1, turn: 1, change: { do: 'append', block: 'customer', text: HALF } },
      { version: 2, change: { text: ' and likes tea.' }, blocks: [{ block: 'customer', content: WHOLE }] },
      { version: 3, turn: 2, change: { do: 'replace', old: 'tea', content: 'coffee' } },
    ])
    expect(requests[0]?.tools.map(({ name }) => name)).toEqual(expect.arrayContaining(['look', 'memory_append', 'memory_replace']))
    // Only the call with a body was an activity.
    expect((await activitiesOf(id)).filter((type) => type === 'executeTool')).toHaveLength(1)
  })

  it('a refused change of the memory is an error result that says what to do', async () => {
    const refused = [append('n'.repeat(31), 'notes'), append('text', 'other'), replace('x', 'nothing like it'), append('  ')]
    const { session, events, requests } = await played({ model: inOrder(refused, 'done') })
    expect(ofType(events, 'tool_failed').map(({ code, attempt }) => [code, attempt])).toEqual([
      ['memory_full', 0],
      ['unknown_block', 0],
      ['text_not_found', 0],
      ['invalid_arguments', 0],
    ])
    const told = resultsIn(requests[1] ?? expect.fail('the model was not called again'))
    expect(told.map(({ isError }) => isError)).toEqual([true, true, true, true])
    expect(told[0]?.content).toContain('the limit is 30')
    expect((await session.memory()).map(({ content }) => content)).toEqual(['', ''])
  })

  it('a memory is not offered to a model whose agent has none', async () => {
    const { requests, events, session } = await played({ model: inOrder([append(HALF)], 'done') }, forgetful)
    expect(requests[0]?.tools.map(({ name }) => name)).not.toContain('memory_append')
    expect(ofType(events, 'tool_failed')).toMatchObject([{ code: 'unknown_tool' }])
    expect([await session.memory(), await session.memoryVersions()]).toEqual([[], []])
  })

  it('a turn that changed the memory ends with a checkpoint, if the policy says so', async () => {
    const { events } = await played({ model: inOrder([append(HALF), use('look', 'more')], [use('look', 'again')], 'done') })
    expect(ofType(events, 'checkpoint_made').map(({ turn, reasons }) => [turn, reasons])).toEqual([[1, ['event:memory_changed']]])
  })
})

describe.concurrent('going back', () => {
  const twoRuns: Scene = { model: inOrder([append('one')], [append('two')], 'done', [append('three')], 'done') }

  it('going back to a checkpoint restores its memory, and later versions are kept', async () => {
    const { session, events } = await played(twoRuns)
    const [first] = ofType(events, 'checkpoint_made')
    const then = await session.memory({ at: first?.version ?? 0 })
    await session.rollback({ checkpoint: first?.version ?? 0 })
    expect(await textOf(session)).toBe('one')
    expect(await session.memory()).toEqual(then)
    expect((await session.memoryVersions()).map(({ version, archivedSeq }) => [version, archivedSeq !== undefined])).toEqual([
      [1, false],
      [2, true],
    ])
    // The model repeats what the transcript no longer shows: the version number is not reused.
    await run(session)
    expect(await textOf(session)).toBe('one\ntwo')
    expect((await session.memoryVersions()).at(-1)).toMatchObject({ version: 3 })
  })

  it('going back to a point before the first change leaves the memory empty', async () => {
    const { session } = await played(twoRuns)
    await session.rollback({ run: 1 })
    expect(await textOf(session)).toBe('')
    expect((await foldedState(session)).memory).toMatchObject({ current: null, version: 2 })
  })

  it('going back to repeat the newest run writes its text once', async () => {
    const { session } = await played(twoRuns)
    await run(session, 'another')
    const again = await session.regenerate()
    await again.result({ timeout: 30_000 })
    expect(await textOf(session)).toBe('one\ntwo\nthree')
  })

  it('going back by a fork restores the memory in the fork, and leaves the session’s own as it is', async () => {
    const { session, events } = await played(twoRuns)
    const [first] = ofType(events, 'checkpoint_made')
    await until('the checkpoints are stored', async () => (await session.checkpoints()).length === 2)
    const fork = await session.fork({ checkpoint: first?.version ?? 0 })
    await fork.resume()
    expect([await textOf(fork), await textOf(session)]).toEqual(['one', 'one\ntwo'])
  })
})

describe.concurrent('a run that fails', () => {
  const broken = (): never => {
    throw new ModelError('broken', 'broken', { retryable: false })
  }

  it('a run that fails keeps its memory, and abandoning it restores the memory from before it', async () => {
    const { session } = keeper.play(here.pawl, {
      model: (request) => {
        const answers = [[append('one')], 'noted', [append('two')]] as const
        const answer = answers[answersIn(request)]
        if (answer) return typeof answer === 'string' ? answer : [...answer]
        return broken()
      },
    })
    await run(session)
    expect(await (await session.send('and now')).settled({ timeout: 30_000 })).toMatchObject({ status: 'failed' })
    expect(await textOf(session)).toBe('one\ntwo')
    await session.recover({ strategy: 'abandon', by: 'ann' })
    expect(await textOf(session)).toBe('one')
    const [started] = ofType(await eventsOf(session), 'recovery_started')
    expect(started).toMatchObject({ strategy: 'abandon', restored: { memory: { version: 1 } } })
    // The agent has no plan, so there is none to restore.
    expect(started?.restored).not.toHaveProperty('plan')
  })

  it('a run that fails is restarted by its policy with the memory from before it, so its text is there once', async () => {
    let calls = 0
    const { session, events } = await played(
      {
        model: (request) => {
          calls += 1
          if (answersIn(request) === 0) return [append('one')]
          if (calls === 2) return broken()
          return 'done'
        },
      },
      restarter,
    )
    expect(ofType(events, 'recovery_started')).toMatchObject([{ strategy: 'restart_run', automatic: true, restored: { memory: null } }])
    expect(await textOf(session)).toBe('one')
  })

  it('a run that fails goes back to its last effect, with the memory of that turn', async () => {
    const { session } = keeper.play(here.pawl, {
      model: (request) => {
        const answers = [[append('one'), use('put', 'the order')], [append('two')]]
        return answers[answersIn(request)] ?? broken()
      },
    })
    expect(await (await session.send('go')).settled({ timeout: 30_000 })).toMatchObject({ status: 'failed' })
    await session.recover({ strategy: 'restart_from_last_effect' })
    const [started] = ofType(await eventsOf(session), 'recovery_started')
    expect(started?.restored?.memory?.blocks).toEqual([{ block: 'customer', content: 'one' }])
  })
})

it('a session whose workflow has ended has its memory when it resumes, even in the middle of a turn that had changed it', async () => {
  const held = gate()
  const { session, id, requests } = keeper.play(here.pawl, {
    model: inOrder([append(HALF), use('look', 'the order')], [append(WHOLE)], 'done'),
    look: () => held.pass(),
  })
  await session.send('go')
  await held.reached
  await until('the turn is stored', async () =>
    (await session.toolCalls()).some(({ callId, status }) => callId === 't_1_1_1' && status === 'running'),
  )
  await here.temporal.workflow.getHandle(workflowIdOf(id)).terminate('gone')
  expect((await (await session.send('are you there')).result({ timeout: 30_000 })).text).toBe('done')
  held.open()
  expect(await textOf(session)).toBe(WHOLE)
  // The model sees what it wrote, and that the lookup was cut off.
  const results = requests.map((request) => resultsIn(request).map(({ isError }) => isError))
  expect(results).toEqual([[], [false, true], [false]])
})

it('pawl memory shows the blocks, and all versions', async () => {
  const { session, id } = await played({ model: inOrder([append('Lives in Bonn.')], [append('Likes tea.')], 'done') })
  await until('it is stored', async () => (await session.checkpoints()).length === 2)
  const { temporalAddress, namespace, databaseUrl } = inject('stack')
  const env = { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace, DATABASE_URL: databaseUrl }
  const shown = async (...args: string[]) => (await runPawl(['memory', id, ...args], { cwd: tmpdir(), env })).stdout
  const lines = (text: string) =>
    text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown)
  const listed = async (...args: string[]) => (await runPawl(args, { cwd: tmpdir(), env })).stdout
  // It changes the session, and nothing outside.
  for (const list of [await listed('tools', id, '--wide'), await listed('run', id, '1')])
    expect(list).toMatch(/memory_append +session +completed/)
  expect(await shown()).toBe('customer (25 of 200 characters)\nLives in Bonn.\nLikes tea.\nnotes (0 of 30 characters)\n')
  expect(lines(await shown('--json'))).toEqual(await session.memory())
  expect(lines(await shown('--versions', '--json'))).toEqual(await session.memoryVersions())
  expect(await shown('--versions')).toMatch(/1\.1 .* customer +appended: Lives in Bonn\.\n.*1\.2 .* customer +appended: Likes tea\./)
})

it('an agent cannot have a tool with the name of a memory tool', () => {
  const tool = defineTool({ name: 'memory_append', description: 'Mine.', input: z.object({}), effect: 'read', execute: () => 'mine' })
  expect(() => defineAgent({ name: 'mine', instructions: '', model: scripted(() => ''), tools: [tool] })).toThrow(
    expect.objectContaining({ code: 'reserved_tool' }),
  )
})
