// Checkpoints, rollbacks and forks of a session, and resuming after its workflow has ended.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ModelRequest } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { foldedState } from '../support/folded.ts'
import { inOrder, resultsIn, saidIn, type Scene, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let player: Stage
/** Its agent makes a checkpoint when something was shipped. */
let shipper: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
  shipper = stage({
    name: 'shipper',
    limits: { maxTotalTokens: 1_000_000 },
    checkpoint: { on: [{ type: 'milestone_reached', milestone: 'shipped' }] },
  })
  await here.startWorker({ agents: [player.agent, shipper.agent] })
})
afterAll(() => here?.stop())

const TIMEOUT = { timeout: 20_000 }

async function say(session: SessionHandle, text: string, messageId = text): Promise<string> {
  const run = await session.send(text, { messageId })
  return (await run.result(TIMEOUT)).text
}

/** The model echoes the newest message. */
const echo: NonNullable<Scene['model']> = (request) => `you said: ${saidIn(request).at(-1)}`

describe('checkpoints', () => {
  it('checkpoints are made after every turn, and are events', async () => {
    const { session } = player.play(here.pawl, { model: inOrder([use('put', 'a')], [use('look', 'b')], 'done') })
    await say(session, 'go')
    await until('the last checkpoint is made', async () => ofType(await eventsOf(session), 'checkpoint_made').length === 3)
    const made = ofType(await eventsOf(session), 'checkpoint_made')
    expect(made.map(({ version, turn, reasons, lastMessageId }) => ({ version, turn, reasons, lastMessageId }))).toEqual([
      { version: 1, turn: 1, reasons: ['turn'], lastMessageId: 'r_1_1' },
      { version: 2, turn: 2, reasons: ['turn'], lastMessageId: 'r_1_2' },
      { version: 3, turn: undefined, reasons: ['turn'], lastMessageId: 'm_1_3' },
    ])
  })

  it('checkpoints are made at any time on request, and say who asked and why', async () => {
    const { session } = player.play(here.pawl, { model: echo })
    await say(session, 'one')
    expect(await session.checkpoint('before the audit', { by: 'ann' })).toEqual({ version: 2, made: true })
    expect(ofType(await eventsOf(session), 'checkpoint_made').at(-1)).toMatchObject({
      version: 2,
      reasons: ['before the audit'],
      by: 'ann',
    })
    await expect(session.checkpoint('')).rejects.toMatchObject({ code: 'invalid_reason' })
  })
})

describe('a checkpoint that is asked for within a turn', () => {
  /** Ships unless the transcript says that it has, then looks on. */
  const ships: Scene = {
    model: (request) => {
      if (resultsIn(request).some(({ content }) => content === 'shipped')) return 'done'
      return [use('put', 'ship'), use('wire', 'money')]
    },
    put(_input, ctx) {
      ctx.milestone('shipped')
      return 'shipped'
    },
  }

  it('a rollback to a checkpoint requested within a turn keeps that turn, and nothing in it happens again', async () => {
    const { session, count } = shipper.play(here.pawl, ships, { agent: 'shipper' })
    await say(session, 'go')
    const events = await eventsOf(session)
    const [made, ...others] = ofType(events, 'checkpoint_made')
    expect([made?.reasons, others]).toEqual([['event:milestone_reached'], []])
    // It was made in the task of the turn's last result.
    const last = ofType(events, 'tool_completed').at(-1)
    expect(last).toMatchObject({ tool: 'wire', seq: (made?.seq ?? 0) - 1, at: made?.at })
    const before = await session.messagesUpTo({ checkpoint: 1 })
    expect(before.map(({ messageId }) => messageId)).toEqual(['go', 'm_1_1', 'r_1_1'])
    expect(await session.budgets({ at: 1 })).toMatchObject([{ scope: 'run', unit: 'tokens', limit: 1_000_000, reserved: 0 }])
    expect(await session.budgets()).toEqual([])
    await session.rollback({ checkpoint: 1 })
    expect(await session.latestCheckpoint()).toMatchObject({ version: 1, archivedSeq: null, lastMessageId: 'r_1_1' })
    expect(await session.messages()).toEqual(before)
    expect(await say(session, 'and now?')).toBe('done')
    expect([count('put'), count('wire')]).toEqual([1, 1])
  })

  it('a checkpoint that a person requests within a turn is made when the turn closes, with that of the policy', async () => {
    const door = gate()
    const scene: Scene = { ...ships, wire: async (_input, ctx) => door.pass(ctx.signal).then(() => 'paid') }
    const { session } = shipper.play(here.pawl, scene, { agent: 'shipper' })
    const run = await session.send('go')
    await door.reached
    expect(await session.checkpoint('before the audit', { by: 'ann' })).toEqual({ version: 1, made: false })
    expect(ofType(await eventsOf(session), 'checkpoint_made')).toEqual([])
    expect((await foldedState(session)).checkpointDue).toEqual({ reasons: ['event:milestone_reached', 'before the audit'], by: 'ann' })
    door.open()
    await run.result(TIMEOUT)
    const [made] = await until('it is stored', async () => {
      const rows = await session.checkpoints()
      return rows.length > 0 && rows
    })
    expect(made).toMatchObject({
      version: 1,
      turn: 1,
      reasons: ['event:milestone_reached', 'before the audit'],
      by: 'ann',
      lastMessageId: 'r_1_1',
    })
  })

  it('a checkpoint requested within a turn is made where an interrupt leaves the session, and is a target there', async () => {
    const door = gate()
    const scene: Scene = { ...ships, wire: async (_input, ctx) => door.pass(ctx.signal) }
    const { session } = shipper.play(here.pawl, scene, { agent: 'shipper' })
    const run = await session.send('go')
    await door.reached
    await session.checkpoint('before the interrupt', { by: 'ann' })
    await session.interrupt({ by: 'ann' })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    const before = await session.messages()
    const { version, lastMessageId } = (await until('it is stored', () => session.latestCheckpoint())) ?? expect.fail('no checkpoint')
    expect(before.at(-1)?.messageId).toBe(lastMessageId)
    await say(session, 'and now?')
    await session.rollback({ checkpoint: version })
    expect(await session.messages()).toEqual(before)
    expect(await session.latestCheckpoint()).toMatchObject({ version })
  })
})

describe('a rollback', () => {
  it('a rollback to a checkpoint shows the model only what was said by then, and reports the effects that stay', async () => {
    const scene: Scene = { model: echo }
    const { session, requests } = player.play(here.pawl, scene)
    await say(session, 'one')
    await say(session, 'two')
    scene.model = inOrder('', '', [use('wire', 'money')], 'wired')
    await say(session, 'three')
    const moved = await session.rollback({ checkpoint: 1, by: 'bob', reason: 'too far' })
    expect(moved).toMatchObject({ moreEffects: 0, effects: [{ callId: 't_3_1_0', tool: 'wire', status: 'completed' }] })
    scene.model = echo
    expect(await say(session, 'four')).toBe('you said: four')
    expect(saidIn(requests.at(-1) as ModelRequest)).toEqual(['one', 'four'])
    expect((await session.state()).run).toBe(4)
  })

  it('a rollback to a point before a message archives the message, which stays readable', async () => {
    const { session, requests } = player.play(here.pawl, { model: echo })
    await say(session, 'one', 'm-1')
    await say(session, 'two', 'm-2')
    await session.rollback({ message: 'm-2' })
    await say(session, 'three')
    expect(saidIn(requests.at(-1) as ModelRequest)).toEqual(['one', 'three'])
    await until('the archive has it', async () => (await session.archivedMessages()).length > 0)
    expect((await session.archivedMessages()).map(({ messageId }) => messageId)).toEqual(['m-2', 'm_2_1'])
    expect((await session.messages()).map(({ messageId }) => messageId)).toEqual(['m-1', 'm_1_1', 'three', 'm_3_1'])
  })

  it('a rollback first interrupts a run in progress, and the next message is answered after it', async () => {
    const held = gate()
    const scene: Scene = { model: echo }
    const { session, requests } = player.play(here.pawl, scene)
    await say(session, 'one')
    scene.model = async (_request, { signal }) => {
      await held.pass(signal)
      return 'late'
    }
    const run = await session.send('hang')
    await until('the model is asked', () => requests.length === 2)
    const moved = session.rollback({ run: 1 })
    await expect(run.result(TIMEOUT)).rejects.toMatchObject({ code: 'run_interrupted' })
    await moved
    held.open()
    scene.model = echo
    expect(await say(session, 'again')).toBe('you said: again')
    expect(saidIn(requests.at(-1) as ModelRequest)).toEqual(['again'])
  })

  it('a session whose rollback removes the messages that the next run was to take goes on: it closes on request', async () => {
    const slow = gate()
    const { session, id } = player.play(here.pawl, {
      model: (request) => (saidIn(request).at(-1) === 'two' ? slow.pass().then(() => 'x') : 'x'),
    })
    await say(session, 'one')
    await session.send('two', { messageId: 'two' })
    await slow.reached
    await session.send('three', { messageId: 'three' })
    await until('the third message waits', async () => ofType(await eventsOf(session), 'message_received').length === 3)
    const rolledBack = session.rollback({ run: 2 })
    slow.open()
    await rolledBack
    expect((await session.state()).queued).toBe(0)
    await session.close()
    await here.workflowEnded(id)
  })

  it('a rollback to a target that does not exist is refused, and nothing changes', async () => {
    const { session } = player.play(here.pawl, { model: echo })
    await say(session, 'one', 'm-1')
    await say(session, 'two', 'm-2')
    const before = (await eventsOf(session)).length
    await expect(session.rollback({ checkpoint: 99 })).rejects.toMatchObject({ code: 'checkpoint_not_found' })
    await expect(session.rollback({ message: 'never said' })).rejects.toMatchObject({ code: 'message_not_found' })
    await expect(session.rollback({ run: 7 })).rejects.toMatchObject({ code: 'run_not_found' })
    await expect(session.rollback({} as never)).rejects.toMatchObject({ code: 'invalid_target' })
    await expect(here.pawl.session('nobody-has-heard-of-it').rollback({ checkpoint: 1 })).rejects.toMatchObject({
      code: 'session_not_found',
    })
    expect(await eventsOf(session)).toHaveLength(before)
    await session.rollback({ message: 'm-2' })
    await expect(session.rollback({ checkpoint: 2 })).rejects.toMatchObject({ code: 'target_archived' })
  })
})

describe('a fork', () => {
  it('a fork continues from a checkpoint on its own, and the session continues from where it was', async () => {
    const { session, requests, id } = player.play(here.pawl, { model: echo })
    await say(session, 'one')
    await say(session, 'two')
    const laid = player.play(here.pawl, { model: echo })
    const copy = await session.fork({ checkpoint: 1, id: laid.id, by: 'ann' })
    expect(await say(copy, 'other')).toBe('you said: other')
    expect(saidIn(laid.requests.at(-1) as ModelRequest)).toEqual(['one', 'other'])
    await say(session, 'three')
    expect(saidIn(requests.at(-1) as ModelRequest)).toEqual(['one', 'two', 'three'])
    expect(await copy.state()).toMatchObject({ forkedFrom: { sessionId: id }, run: 2, turns: 1 })
    expect((await session.state()).forkedFrom).toBeUndefined()
    await until('the fork is stored', async () => (await copy.messages()).length === 4)
    expect((await copy.messages()).map(({ messageId }) => messageId)).toEqual(['one', 'm_1_1', 'other', 'm_2_1'])
  })

  it.each([['open'], ['closed']])(
    'a fork with the id of a session that is %s is refused, and the run in progress continues',
    async (how) => {
      const other = player.play(here.pawl, { model: echo })
      await say(other.session, 'taken')
      if (how === 'closed') {
        await other.session.close()
        await until('it is closed', async () => (await other.session.state()).status === 'closed')
      }
      const door = gate()
      const { session } = player.play(here.pawl, {
        model: async (_, ctx) => {
          await door.pass(ctx.signal)
          return 'done'
        },
      })
      const run = await session.send('hold')
      await door.reached
      await expect(session.fork({ id: other.id })).rejects.toMatchObject({ code: 'session_exists' })
      door.open()
      expect(await run.result(TIMEOUT)).toMatchObject({ text: 'done' })
      expect(ofType(await eventsOf(session), 'run_interrupted')).toEqual([])
    },
  )

  it('a fork of a closed session, and of an archived past, starts like any other', async () => {
    const { session } = player.play(here.pawl, { model: echo })
    await say(session, 'one')
    await say(session, 'two')
    await session.rollback({ checkpoint: 1 })
    await session.close()
    await until('it is closed', async () => (await session.state()).status === 'closed')
    const laid = player.play(here.pawl, { model: echo })
    const copy = await session.fork({ checkpoint: 2, id: laid.id })
    await say(copy, 'three')
    expect(saidIn(laid.requests.at(-1) as ModelRequest)).toEqual(['one', 'two', 'three'])
    await expect(session.fork({ checkpoint: 1, id: laid.id })).rejects.toMatchObject({ code: 'session_exists' })
    await expect(session.fork({ checkpoint: 9 })).rejects.toMatchObject({ code: 'checkpoint_not_found' })
    expect((await session.state()).status).toBe('closed')
  })
})

describe('a session whose workflow has ended', () => {
  const terminate = async (id: string): Promise<void> => {
    await here.temporal.workflow.getHandle(`pawl:${id}`).terminate('a test')
  }

  it('a session whose workflow ended in mid-turn continues its run with the next send, and repeats no effect', async () => {
    const held = gate()
    const { session, requests, id, count } = player.play(here.pawl, {
      model: inOrder([use('put', 'a'), use('look', 'b')], [use('put', 'a')], 'all done'),
      look: (_input, ctx) => held.pass(ctx.signal).then(() => 'seen'),
    })
    const run = await session.send('go', { messageId: 'go' })
    await until('the second call is running', () => count('look') === 1)
    await until('the first is stored', async () => (await session.toolCalls()).some(({ status }) => status === 'completed'))
    await terminate(id)
    held.open()
    await session.send('and on', { messageId: 'on' })
    expect((await run.result(TIMEOUT)).text).toBe('all done')
    expect(count('put')).toBe(1)
    expect(ofType(await eventsOf(session), 'tool_completed').filter(({ replayOf }) => replayOf === 't_1_1_0')).toHaveLength(2)
    expect(ofType(await eventsOf(session), 'rolled_back')).toMatchObject([{ keepsRun: true }])
    expect(saidIn(requests.at(-1) as ModelRequest)).toEqual(['go', 'and on'])
    await until('the archive has it', async () => (await session.archivedMessages()).length > 0)
    expect((await session.archivedMessages()).map(({ messageId }) => messageId)).toEqual(['m_1_1'])
  })

  it('a session whose workflow ended before anything was stored loses nothing when it resumes', async () => {
    const elsewhere = await deploy()
    try {
      const { session, requests, id } = player.play(elsewhere.pawl, { model: echo })
      const storeless = await elsewhere.startWorker({ agents: [player.agent], postgres: 'postgres://nobody@127.0.0.1:1/nothing' })
      await (await session.send('one', { messageId: 'm-1', isNew: true })).result(TIMEOUT)
      await expect(elsewhere.pawl.sessions.get(id)).rejects.toMatchObject({ code: 'session_not_found' })
      await elsewhere.temporal.workflow.getHandle(`pawl:${id}`).terminate('a test')
      await storeless.stop()
      await elsewhere.startWorker({ agents: [player.agent] })
      await (await session.send('two', { messageId: 'm-2' })).result(TIMEOUT)
      expect(saidIn(requests.at(-1) as ModelRequest)).toEqual(['one', 'two'])
      expect((await eventsOf(session)).filter(({ type }) => type === 'session_started' || type === 'session_resumed')).toHaveLength(2)
    } finally {
      await elsewhere.stop()
    }
  })

  it('a session whose workflow has ended is reopened by resume, without a message', async () => {
    const { session, id } = player.play(here.pawl, { model: echo })
    await say(session, 'one')
    await until('all is stored', async () => (await session.messages()).length === 2)
    await terminate(id)
    const state = await session.resume()
    expect(state).toMatchObject({ status: 'idle', run: 1 })
    const unknown = here.pawl.session('unheard-of')
    await expect(unknown.resume()).rejects.toMatchObject({ code: 'session_not_found' })
    // Its workflow has ended without a session.
    for (const read of [() => unknown.state(), () => eventsOf(unknown), () => unknown.messages(), () => unknown.fork()])
      await expect(read()).rejects.toMatchObject({ code: 'session_not_found' })
  })

  it('a session whose workflow has ended is unavailable, and send rejects, if no worker accepts the request', {
    timeout: 90_000,
  }, async () => {
    const session = here.pawl.session('served-by-nobody', { agent: player.agent.name, taskQueue: 'served-by-nobody' })
    await session.send('one')
    const asked = [
      session.checkpoint('now'),
      session.fork(),
      session.recover({ strategy: 'abandon' }),
      session.approve('t_1_1_0', { digest: 'of-it' }),
    ]
    for (const outcome of await Promise.allSettled(asked)) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'session_unavailable' } })
    }
  })
})
