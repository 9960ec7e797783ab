// Messages that replace the run in progress: `send(…, { interrupt: true })`.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { codeOf } from '../support/codes.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { inOrder, resultsIn, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 20_000 }
const STEER = { interrupt: true }

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
  await here.startWorker({ agents: [player.agent] })
})
afterAll(() => here?.stop())

/** A scene whose first run waits in its model call until it is stopped; later ones repeat what was said. */
function heldFirst() {
  const door = gate()
  const played = player.play(here.pawl, {
    model: (request, ctx) => (saidIn(request).length === 1 ? door.pass(ctx.signal).then(() => 'late') : saidIn(request).join(', ')),
  })
  return { ...played, door }
}

describe.concurrent('a message that interrupts', () => {
  it('a message that interrupts ends the run in progress and opens the next one', async () => {
    const { session, door } = heldFirst()
    const first = await session.send('one')
    await door.reached
    const second = await session.send('two', STEER)
    expect(await first.settled(TIMEOUT)).toEqual({ status: 'interrupted', run: 1, reason: 'replaced by a later message' })
    expect(await second.result(TIMEOUT)).toMatchObject({ run: 2, text: 'one, two' })
    const events = await eventsOf(session)
    expect(ofType(events, 'run_started')).toMatchObject([{ messageId: first.messageId }, { messageId: second.messageId }])
    expect(ofType(events, 'run_interrupted')).toHaveLength(1)
  })

  it('a message that interrupts is recorded with its sender, and so is the interrupt', async () => {
    const { session, door } = heldFirst()
    const first = await session.send('one')
    await door.reached
    await (await session.send('two', { ...STEER, by: 'ann' })).result(TIMEOUT)
    expect(await first.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    const events = await eventsOf(session)
    expect(ofType(events, 'message_received').map(({ by }) => by)).toEqual([undefined, 'ann'])
    expect(ofType(events, 'run_interrupted')).toMatchObject([{ by: 'ann' }])
    expect(await codeOf(session.send('three', { by: 'x'.repeat(2_000) }))).toBe('invalid_request')
  })

  it('a message that interrupts stops a tool, and the model receives a result for its call with the new message', async () => {
    const door = gate()
    const { session, requests } = player.play(here.pawl, {
      model: (request) => (saidIn(request).length > 1 ? 'instead' : inOrder([use('look', 'a')])(request)),
      look: (_input, ctx) => door.pass(ctx.signal),
    })
    const first = await session.send('one')
    await door.reached
    const second = await session.send('two', STEER)
    expect(await first.settled(TIMEOUT)).toMatchObject({ status: 'interrupted', run: 1 })
    expect(await second.result(TIMEOUT)).toMatchObject({ run: 2, text: 'instead' })
    expect(resultsIn(requests.at(-1)!)).toMatchObject([{ id: 't_1_1_0', isError: true }])
  })

  it('a message that interrupts reaches the model after the messages that were waiting, which open the run', async () => {
    const { session, door } = heldFirst()
    await session.send('one')
    await door.reached
    const waiting = await session.send('two')
    const steering = await session.send('three', STEER)
    expect(await steering.result(TIMEOUT)).toMatchObject({ run: 2, text: 'one, two, three' })
    expect(await waiting.result(TIMEOUT)).toMatchObject({ run: 2 })
    expect(ofType(await eventsOf(session), 'turn_started').at(-1)?.takes).toEqual([waiting.messageId, steering.messageId])
  })

  it('a message interrupts once: the same message sent again changes nothing', async () => {
    const doors = [gate(), gate()]
    const { session } = player.play(here.pawl, {
      model: (request, ctx) => doors[saidIn(request).length - 1]?.pass(ctx.signal).then(() => 'answered') ?? 'more',
    })
    const first = await session.send('one')
    await doors[0]?.reached
    const messageId = randomUUID()
    const second = await session.send('two', { messageId, ...STEER })
    expect(await first.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    await doors[1]?.reached
    await session.send('two', { messageId, ...STEER })
    // The workflow has both messages before it makes this checkpoint.
    await session.checkpoint('seen')
    doors[1]?.open()
    expect(await second.result(TIMEOUT)).toMatchObject({ run: 2, text: 'answered' })
    expect(ofType(await eventsOf(session), 'run_interrupted')).toHaveLength(1)
  })

  it('a message that interrupts is a message like any other if no run is in progress', async () => {
    const { session } = player.play(here.pawl, { model: (request) => saidIn(request).join(', ') })
    expect(await (await session.send('one', STEER)).result(TIMEOUT)).toMatchObject({ run: 1, text: 'one' })
    expect(await (await session.send('two', STEER)).result(TIMEOUT)).toMatchObject({ run: 2, text: 'one, two' })
    expect(ofType(await eventsOf(session), 'run_interrupted')).toEqual([])
  })

  it('a message that interrupts does not interrupt a run that has not begun; that run sees both messages', async () => {
    const taskQueue = `${here.taskQueue}-late`
    const { session } = player.play(here.pawl, { model: (request) => saidIn(request).join(', ') }, { taskQueue })
    const first = await session.send('one')
    const second = await session.send('two', STEER)
    await here.startWorker({ agents: [player.agent], taskQueue })
    expect(await second.result(TIMEOUT)).toMatchObject({ run: 1, text: 'one, two' })
    expect(await first.result(TIMEOUT)).toMatchObject({ run: 1 })
  })

  it('a message that interrupts leaves the run alone if it is rejected', async () => {
    const { id, session, door } = heldFirst()
    const first = await session.send('one')
    await door.reached
    const refused = await here.pawl.session(id, { agent: 'somebody-else' }).send('two', STEER)
    expect(await refused.settled(TIMEOUT)).toMatchObject({ status: 'rejected', code: 'agent_mismatch' })
    door.open()
    expect(await first.result(TIMEOUT)).toMatchObject({ run: 1, text: 'late' })
  })

  it('a message that interrupts may come from any client, and is rejected if `interrupt` is neither true nor false', async () => {
    const { id, session, door } = heldFirst()
    const first = await session.send('one')
    await door.reached
    const workflow = here.temporal.workflow.getHandle(`pawl:${id}`)
    await workflow.signal('message', { messageId: 'odd', content: 'two', interrupt: 'yes' })
    await until('it is refused', async () => ofType(await eventsOf(session), 'message_rejected').length === 1)
    expect(ofType(await eventsOf(session), 'message_rejected')).toMatchObject([{ messageId: 'odd', code: 'invalid_message' }])
    await workflow.signal('message', { content: 'two', interrupt: true })
    expect(await first.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    await expect(session.send('three', { interrupt: 'yes' as never })).rejects.toMatchObject({ code: 'invalid_option' })
  })
})
