// Interrupting runs and closing sessions: at any moment, with a defined outcome for the work in progress.
import { ModelError } from 'pawl'
import { RunInterruptedError } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, inOrder, resultsIn, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
  await here.startWorker({ agents: [player.agent] })
})
afterAll(() => here?.stop())

/** Follows the script, and answers `go on` once a second message was sent. */
const untilSecondMessage =
  (script: ReturnType<typeof inOrder>): ReturnType<typeof inOrder> =>
  (request) =>
    saidIn(request).length > 1 ? 'go on' : script(request)

describe.concurrent('an interrupt', () => {
  it('an interrupt stops a model call; the run is interrupted, and the next message is answered', async () => {
    const door = gate()
    const { session } = player.play(here.pawl, {
      model: (request, ctx) => (saidIn(request).length > 1 ? 'go on' : door.pass(ctx.signal).then(() => 'late')),
    })
    const run = await session.send('one')
    await door.reached
    await session.interrupt({ reason: 'changed my mind', by: 'me' })
    const interrupted = await run.result({ timeout: 20_000 }).catch((error: unknown) => error)
    expect(interrupted).toBeInstanceOf(RunInterruptedError)
    expect(interrupted).toMatchObject({ code: 'run_interrupted', run: 1, reason: 'changed my mind' })
    expect(ofType(await eventsOf(session), 'run_interrupted')).toMatchObject([{ run: 1, reason: 'changed my mind', by: 'me' }])
    expect(await (await session.send('two')).result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'go on' })
  })

  it('an interrupt stops a read; the next run sees that the call was not answered', async () => {
    const door = gate()
    const { session, requests } = player.play(here.pawl, {
      model: untilSecondMessage(inOrder([use('look', 'a'), use('put', 'b')])),
      look: (_input, ctx) => door.pass(ctx.signal),
    })
    const run = await session.send('one')
    await door.reached
    await session.interrupt()
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted', run: 1 })
    await (await session.send('two')).result({ timeout: 20_000 })
    expect(resultsIn(requests.at(-1)!).map(({ id, isError }) => [id, isError])).toEqual([
      ['t_1_1_0', true],
      ['t_1_1_1', true],
    ])
  })

  for (const [says, happened] of [
    ['happened', true],
    ['did not happen', false],
  ] as const) {
    it(`an interrupt stops an external call, asks verify, and records that it ${says}`, async () => {
      const door = gate()
      const { session, requests, entries } = player.play(here.pawl, {
        model: untilSecondMessage(inOrder([use('pay', 'the bill')])),
        pay: (_input, ctx) => door.pass(ctx.signal),
        verify: () => (happened ? { happened, result: 'paid after all' } : { happened }),
      })
      const run = await session.send('one')
      await door.reached
      await session.interrupt()
      expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted' })
      expect(entries.map(({ tool }) => tool)).toEqual(['pay', 'verify'])
      expect(ofType(await eventsOf(session), 'tool_resolved')).toMatchObject([{ happened }])
      await (await session.send('two')).result({ timeout: 20_000 })
      expect(resultsIn(requests.at(-1)!)).toMatchObject([happened ? { content: 'paid after all', isError: false } : { isError: true }])
      expect(entries.filter(({ tool }) => tool === 'pay')).toHaveLength(1)
    })
  }

  it('an interrupt ends a run that waits for its next attempt, and every failed attempt is recorded', async () => {
    const { session, requests } = player.play(here.pawl, {
      model(request) {
        if (saidIn(request).length > 1) return 'go on'
        throw new ModelError('overloaded', 'come back later', { retryable: true, retryAfter: 600_000 })
      },
    })
    const run = await session.send('one')
    await until('the model was asked', () => requests.length === 1)
    await session.interrupt()
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted' })
    expect(ofType(await eventsOf(session), 'model_attempt_failed')).toMatchObject([{ error: { attempt: 1, code: 'overloaded' } }])
    expect(await (await session.send('two')).result({ timeout: 20_000 })).toMatchObject({ text: 'go on' })
  })

  it('an interrupt ends a tool call that waits for its next attempt, and every failed attempt is recorded', async () => {
    const { ToolError } = await import('pawl')
    const { session, entries } = player.play(here.pawl, {
      model: untilSecondMessage(inOrder([use('put', 'it')])),
      put() {
        throw new ToolError('busy', { retryAfter: 600_000 })
      },
    })
    const run = await session.send('one')
    await until('the tool was entered', () => entries.length === 1)
    await session.interrupt()
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted' })
    const events = await eventsOf(session)
    expect(ofType(events, 'tool_attempt_failed')).toMatchObject([{ error: { attempt: 1, message: 'busy' } }])
    expect(ofType(events, 'tool_failed')).toMatchObject([
      { code: 'interrupted', message: expect.stringContaining('may have taken effect') },
    ])
  })

  it('an interrupt right after send stops the run that the message opens, even before it has begun', async () => {
    const elsewhere = await deploy()
    try {
      const { session, requests } = player.play(elsewhere.pawl, { model: (request) => saidIn(request).join(', ') })
      const first = await session.send('one')
      await session.interrupt({ reason: 'too soon' })
      const second = await session.send('two')
      await elsewhere.startWorker({ agents: [player.agent] })
      expect(await first.settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted', run: 1, reason: 'too soon' })
      expect(await second.result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'one, two' })
      expect(requests).toHaveLength(1)
    } finally {
      await elsewhere.stop()
    }
  })

  it('an interrupt of an idle session changes nothing', async () => {
    const { session } = player.play(here.pawl, {})
    await (await session.send('one')).result({ timeout: 20_000 })
    await session.interrupt()
    await (await session.send('two')).result({ timeout: 20_000 })
    expect(ofType(await eventsOf(session), 'run_interrupted')).toEqual([])
  })

  it('an interrupt stops nothing that was sent after it, even if both arrived before any worker', async () => {
    const queue = `${here.taskQueue}-late`
    const { session, id } = player.play(here.pawl, {}, { taskQueue: queue })
    await here.temporal.workflow.start('pawlSession', { workflowId: `pawl:${id}`, taskQueue: queue, args: [{ agent: 'player' }] })
    await session.interrupt()
    const run = await session.send('one')
    await here.startWorker({ agents: [player.agent], taskQueue: queue })
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'completed', run: 1 })
  })

  it('an interrupt leaves messages that no turn has taken to the next run', async () => {
    const door = gate()
    const { session } = player.play(here.pawl, {
      model: (request, ctx) => (saidIn(request).length > 1 ? 'go on' : door.pass(ctx.signal).then(() => 'late')),
    })
    const first = await session.send('one')
    await door.reached
    const second = await session.send('two')
    await session.interrupt()
    expect(await first.settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted', run: 1 })
    expect(await second.result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'go on' })
  })
})

describe.concurrent('close', () => {
  it('close ends the workflow once everything is stored; the next send resumes the session with its whole past', async () => {
    const { session, id, requests, count } = player.play(here.pawl, {
      model: inOrder([use('put', 'it', 1)], 'done', [use('put', 'it', 1)], 'again'),
    })
    await (await session.send('one', { metadata: { n: 1 } })).result({ timeout: 20_000 })
    await session.close({ by: 'me' })
    await here.workflowEnded(id)
    expect(await session.state()).toMatchObject({ status: 'closed', run: 1 })
    expect(ofType(await eventsOf(session), 'session_closed')).toMatchObject([{ reason: 'requested', by: 'me' }])

    expect(await (await session.send('two')).result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'again' })
    expect(requests.at(-1)!.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'user',
      'assistant',
      'user',
      'assistant',
      'user',
    ])
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two'])
    expect(count('put')).toBe(2)
    const events = await eventsOf(session)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
    expect(ofType(events, 'session_resumed')).toHaveLength(1)
  })

  it('close during a run waits for the end of the run, and for messages that were sent before', async () => {
    const door = gate()
    const { session } = player.play(here.pawl, {
      async model(request, ctx) {
        if (answersIn(request) === 0) await door.pass(ctx.signal)
        return `answer to ${saidIn(request).at(-1)}`
      },
    })
    const first = await session.send('one')
    await door.reached
    const second = await session.send('two')
    await session.close()
    expect((await session.state()).status).toBe('running')
    door.open()
    expect(await first.result({ timeout: 20_000 })).toMatchObject({ text: 'answer to one' })
    expect(await second.result({ timeout: 20_000 })).toMatchObject({ text: 'answer to two' })
    await until('the session is closed', async () => (await session.state()).status === 'closed')
  })

  it('a session that receives no messages closes by itself', async () => {
    const { session, id } = player.play(here.pawl, {}, { idleTimeout: '300ms' })
    await (await session.send('one')).result({ timeout: 20_000 })
    await here.workflowEnded(id)
    expect(ofType(await eventsOf(session), 'session_closed')).toMatchObject([{ reason: 'idle' }])
    await (await session.send('two')).result({ timeout: 20_000 })
  })

  it('close also takes a session out of error', async () => {
    const { session } = player.play(here.pawl, {
      model(request) {
        if (saidIn(request).length > 1) return 'better'
        throw new ModelError('bad', 'no', { retryable: false })
      },
    })
    const run = await session.send('one')
    await run.settled({ timeout: 20_000 })
    await session.close()
    await until('the session is closed', async () => (await session.state()).status === 'closed')
    expect(await (await session.send('two')).result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'better' })
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', code: 'bad' })
  })

  it('close leaves the whole session readable after Temporal has forgotten it', async () => {
    const { session, id } = player.play(here.pawl, {})
    await (await session.send('one')).result({ timeout: 20_000 })
    await session.close()
    // Its workflow completes once everything is stored.
    await here.workflowEnded(id)
    const handle = here.temporal.workflow.getHandle(`pawl:${id}`)
    // As after the retention period.
    const { namespace } = here.stack
    await here.temporal.workflowService.deleteWorkflowExecution({ namespace, workflowExecution: { workflowId: `pawl:${id}` } })
    await until('the workflow is forgotten', () =>
      handle.describe().then(
        () => false,
        () => true,
      ),
    )
    const later = (await here.connect()).session(id)
    expect(await later.state()).toMatchObject({ status: 'closed', run: 1 })
    expect((await eventsOf(later)).at(-1)?.type).toBe('session_closed')
    expect(await later.messages()).toHaveLength(2)
    const forgotten = (await here.connect({ postgres: false })).session(id)
    await expect(forgotten.messages()).rejects.toMatchObject({ code: 'session_not_found' })
    await expect(eventsOf(forgotten)).rejects.toMatchObject({ code: 'session_not_found' })
  })

  it('close ends an iteration that follows the events, unless the session was resumed since', async () => {
    const { session } = player.play(here.pawl, {})
    await (await session.send('one')).result({ timeout: 20_000 })
    const follow = async (): Promise<string[]> => {
      const types: string[] = []
      for await (const event of session.events({ follow: true, signal: AbortSignal.timeout(20_000) })) types.push(event.type)
      return types
    }
    const following = follow()
    await session.close()
    expect((await following).at(-1)).toBe('session_closed')
    await (await session.send('two')).result({ timeout: 20_000 })
    await session.close()
    await until('the session is closed', async () => (await session.state()).status === 'closed')
    const all = await follow()
    expect(all.filter((type) => type === 'session_closed')).toHaveLength(2)
    expect(all.at(-1)).toBe('session_closed')
  })

  it('close of a session that is already closed changes nothing, and its past stays readable', async () => {
    const { session } = player.play(here.pawl, {})
    await (await session.send('one')).result({ timeout: 20_000 })
    await session.close()
    await until('the session is closed', async () => (await session.state()).status === 'closed')
    await here.workflowEnded(session.id)
    await session.close()
    expect((await session.messages()).map(({ role }) => role)).toEqual(['user', 'assistant'])
    const events = await eventsOf(session)
    expect([ofType(events, 'run_completed').length, ofType(events, 'session_closed').length]).toEqual([1, 1])
  })
})
