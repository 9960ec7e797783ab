// Interrupts of work in several places at once: parallel calls, and calls on workers other than the workflow's.
import { defineAgent } from 'pawl'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { inOrder, resultsIn, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 20_000 }

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
  await here.startWorker({ agents: [player.agent] })
})
afterAll(() => here?.stop())

describe.concurrent('an interrupt', () => {
  it('an interrupt of a closed session is refused because the session is closed, not because there is none', async () => {
    const { session, id } = player.play(here.pawl, { model: () => 'hello' })
    await (await session.send('hi')).result(TIMEOUT)
    await session.close()
    await here.workflowEnded(id)
    await until('the end is stored', async () => (await here.pawl.sessions.get(id)).status === 'closed')
    await expect(session.interrupt()).rejects.toMatchObject({ code: 'not_open', message: expect.stringContaining('is closed') })
  })

  it('an interrupt stops every running call, starts none after them, and gives each a result for the model', async () => {
    const stopped: string[] = []
    let running = 0
    const { session, requests, count } = player.play(here.pawl, {
      model: (request) =>
        saidIn(request).length > 1
          ? 'go on'
          : inOrder([use('look', 'a'), use('look', 'b'), use('look', 'c'), use('put', 'd'), use('wire', 'e')])(request),
      look: ({ what }, { signal }) =>
        new Promise((_, reject) => {
          running += 1
          signal.addEventListener('abort', () => {
            stopped.push(what)
            reject(new Error('stopped'))
          })
        }),
    })
    const run = await session.send('one')
    await until('all reads run', () => running === 3)
    await session.interrupt()
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    expect(stopped.toSorted()).toEqual(['a', 'b', 'c'])
    await (await session.send('two')).result(TIMEOUT)
    expect([count('put'), count('wire')]).toEqual([0, 0])
    expect(resultsIn(requests.at(-1)!).map(({ id, isError }) => [id, isError])).toEqual(
      [0, 1, 2, 3, 4].map((index) => [`t_1_1_${index}`, true]),
    )
  })

  it('an interrupt that stops one call leaves a finished call of the same turn as it is', async () => {
    const { session, requests } = player.play(here.pawl, {
      model: (request) => (saidIn(request).length > 1 ? 'go on' : inOrder([use('look', 'soon'), use('look', 'late')])(request)),
      look: ({ what }, { signal }) =>
        what === 'soon' ? 'seen' : new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped')))),
    })
    const run = await session.send('one')
    await until('one read has ended', async () => ofType(await eventsOf(session), 'tool_completed').length === 1)
    await session.interrupt()
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    await (await session.send('two')).result(TIMEOUT)
    expect(resultsIn(requests.at(-1)!)).toMatchObject([
      { id: 't_1_1_0', content: 'seen', isError: false },
      { id: 't_1_1_1', isError: true },
    ])
  })

  it('the state says that a run is being stopped until its calls have ended, and not of the run that follows', async () => {
    const [deaf, next] = [gate(), gate()]
    const { session } = player.play(here.pawl, {
      model: async (request, { signal }) => {
        if (saidIn(request).length > 1) await next.pass(signal)
        return saidIn(request).length > 1 ? 'done' : [use('look', 'it')]
      },
      // It does not react to its abort signal.
      look: () => deaf.pass(),
    })
    const first = await session.send('one')
    await deaf.reached
    expect((await session.state()).current).not.toHaveProperty('stopping')
    await session.interrupt()
    await session.send('two')
    expect((await session.state()).current).toMatchObject({ run: 1, stopping: true })
    deaf.open()
    expect(await first.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    await next.reached
    const { current } = await session.state()
    expect(current).toMatchObject({ run: 2 })
    expect(current).not.toHaveProperty('stopping')
    next.open()
  })

  it('an interrupt just as the run ends interrupts it or comes too late, and does not affect the next run', async () => {
    const door = gate()
    const { session } = player.play(here.pawl, {
      model: async (request) => {
        if (saidIn(request).length === 1) await door.pass()
        return 'done'
      },
    })
    const first = await session.send('one')
    await door.reached
    door.open()
    await session.interrupt()
    expect(['interrupted', 'completed']).toContain((await first.settled(TIMEOUT)).status)
    expect(await (await session.send('two')).result(TIMEOUT)).toMatchObject({ run: 2, text: 'done' })
  })

  it('an interrupt stops a model call on a worker other than the one that has the workflow', async () => {
    const taskQueue = `${here.taskQueue}-two`
    const door = gate()
    const { session } = player.play(here.pawl, { model: (_request, ctx) => door.pass(ctx.signal).then(() => 'late') }, { taskQueue })
    const stranger = defineAgent({ name: 'stranger', instructions: '', model: scripted(() => 'hello'), tools: [] })
    await here.startWorker({ agents: [stranger], taskQueue })
    const run = await session.send('one')
    await until('the first worker has the workflow', async () => (await session.state()).status === 'running')
    await here.startWorker({ agents: [player.agent], taskQueue })
    await door.reached
    await session.interrupt({ reason: 'enough' })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted', reason: 'enough' })
  })
})
