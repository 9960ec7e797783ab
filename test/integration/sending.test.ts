// Sending messages: durable, accepted once, seen by the model in order, and answered through the handle of their run.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { InvalidMessageError, MessageRejectedError, ResultTimeoutError } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { inOrder, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
  await here.startWorker({ agents: [player.agent] })
})
afterAll(() => here?.stop())

describe('a message', () => {
  it('a message is durable when send returns, even with no worker running, and is answered once one starts', async () => {
    const elsewhere = await deploy()
    try {
      const { session, id } = player.play(elsewhere.pawl, { model: inOrder('hello to you') })
      const run = await session.send('hello')
      const { status } = await elsewhere.temporal.workflow.getHandle(`pawl:${id}`).describe()
      expect(status.name).toBe('RUNNING')
      await expect(session.state()).rejects.toMatchObject({ code: 'session_unavailable' })
      await elsewhere.startWorker({ agents: [player.agent] })
      const result = await run.result({ timeout: 20_000 })
      expect(result).toMatchObject({ run: 1, text: 'hello to you', stopReason: 'end_turn' })
    } finally {
      await elsewhere.stop()
    }
  })

  it('a message is accepted once, however often its id is sent, and all its handles refer to one run', async () => {
    const { session, requests } = player.play(here.pawl, {})
    const messageId = randomUUID()
    const runs = await Promise.all([1, 2, 3].map(() => session.send('once', { messageId })))
    const results = await Promise.all(runs.map((run) => run.result({ timeout: 20_000 })))
    expect(results.map(({ run }) => run)).toEqual([1, 1, 1])
    await (await session.send('once', { messageId })).result({ timeout: 20_000 })
    expect(ofType(await eventsOf(session), 'message_received')).toHaveLength(1)
    expect(requests).toHaveLength(1)
  })

  it('a message with a context other than its session’s is answered with the recorded one, and the client logs that once', async () => {
    const warnings: unknown[][] = []
    const logger = { ...SILENT, warn: (...line: unknown[]) => void warnings.push(line) }
    const pawl = await here.connect({ logger })
    const { id } = player.play(pawl, {})
    const opened = (context: object) => pawl.session(id, { agent: 'player', context: context as never })
    const say = async (context: object) => (await opened(context).send('hello')).result({ timeout: 20_000 })
    await say({ tenantId: 'acme', plan: 'pro' })
    await until('it is stored', async () => (await pawl.sessions.get(id)).flushedSeq > 0)
    await say({ plan: 'pro', tenantId: 'acme' })
    expect(warnings).toEqual([])
    await say({ tenantId: 'globex' })
    await until('a warning is logged', () => warnings.length > 0)
    await say({ tenantId: 'globex' })
    expect(warnings).toEqual([[{ session: id }, expect.stringContaining('keeps the context that it was started with')]])
    expect((await opened({}).state()).context).toEqual({ tenantId: 'acme', plan: 'pro' })
  })

  it('a message is still recognized as a duplicate after its session was closed and resumed', async () => {
    const { session } = player.play(here.pawl, {})
    const first = await session.send('before', { messageId: 'the-same' })
    await first.result({ timeout: 20_000 })
    await session.close()
    await until('the session is closed', async () => (await session.state()).status === 'closed')
    await (await session.send('before', { messageId: 'the-same' })).result({ timeout: 20_000 })
    await (await session.send('after')).result({ timeout: 20_000 })
    const events = await eventsOf(session)
    expect(ofType(events, 'message_received').map(({ messageId }) => messageId === 'the-same')).toEqual([true, false])
    expect(ofType(events, 'run_started')).toHaveLength(2)
  })

  it('a message passes its metadata to the run that it opens', async () => {
    let seen: unknown
    const { session } = player.play(here.pawl, {
      model: inOrder([use('look', 'at it')], 'seen'),
      look: (_input, ctx) => {
        seen = ctx.metadata
      },
    })
    await (await session.send('look', { metadata: { channel: 'mail' } })).result({ timeout: 20_000 })
    expect(seen).toEqual({ channel: 'mail' })
  })
})

describe('a message that arrives during a run', () => {
  it('a message that arrives during a run reaches the model at the next turn, and its handle refers to that run', async () => {
    const door = gate()
    const { session, requests } = player.play(here.pawl, {
      model: inOrder([use('look', 'slowly')], (request) => `heard ${saidIn(request).join(', ')}`),
      look: (_input, ctx) => door.pass(ctx.signal),
    })
    const first = await session.send('one')
    await door.reached
    const others = [await session.send('two'), await session.send('three')]
    door.open()
    const results = await Promise.all([first, ...others].map((run) => run.result({ timeout: 20_000 })))
    expect(results.map(({ run, text }) => [run, text])).toEqual(Array(3).fill([1, 'heard one, two, three']))
    expect(saidIn(requests[0]!)).toEqual(['one'])
    expect(requests).toHaveLength(2)
  })

  it('a message that arrives during a run opens the next run if the final answer came first', async () => {
    const door = gate()
    const { session } = player.play(here.pawl, {
      async model(request, ctx) {
        if (saidIn(request).length === 1) await door.pass(ctx.signal)
        return `answer to ${saidIn(request).at(-1)}`
      },
    })
    const first = await session.send('one')
    await door.reached
    const second = await session.send('two')
    door.open()
    expect(await first.result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'answer to one' })
    expect(await second.result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'answer to two' })
  })
})

describe('the handle of a run', () => {
  it('the handle of a run stops waiting after its timeout, and the run continues', async () => {
    const door = gate()
    const { session } = player.play(here.pawl, {
      async model(_request, ctx) {
        await door.pass(ctx.signal)
        return 'late'
      },
    })
    const run = await session.send('take your time')
    await expect(run.result({ timeout: 100 })).rejects.toThrow(ResultTimeoutError)
    await expect(run.settled({ timeout: 100 })).rejects.toMatchObject({ code: 'result_timeout' })
    door.open()
    expect(await run.result({ timeout: 20_000 })).toMatchObject({ text: 'late' })
  })

  it('the handle of a run stops waiting when its signal aborts, and throws the reason', async () => {
    const door = gate()
    const { session } = player.play(here.pawl, { model: (_request, ctx) => door.pass(ctx.signal).then(() => 'late') })
    const run = await session.send('take your time')
    const reason = new Error('the request was closed')
    await expect(run.result({ signal: AbortSignal.timeout(100) })).rejects.toMatchObject({ name: 'TimeoutError' })
    await expect(run.result({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    door.open()
    await run.result({ timeout: 20_000 })
  })

  it('the handle of a run yields the events of its message and run, and ends with the run', async () => {
    const { session } = player.play(here.pawl, { model: inOrder('first', [use('look', 'again')], 'second') })
    await (await session.send('one')).result({ timeout: 20_000 })
    const run = await session.send('two')
    const events = []
    for await (const event of run.events()) events.push(event.type)
    expect(events).toEqual([
      'message_received',
      'run_started',
      'turn_started',
      'model_completed',
      'tool_issued',
      'tool_completed',
      'checkpoint_made',
      'turn_started',
      'model_completed',
      'run_completed',
    ])
  })

  it('another process can make the handle of a run from the message’s id alone', async () => {
    const { session, id } = player.play(here.pawl, { model: inOrder('for everybody') })
    await session.send('hello', { messageId: 'known' })
    const code = `
      import { Pawl } from 'pawl/client'
      const pawl = await Pawl.connect({ taskQueue: 'none' })
      const result = await pawl.session(process.argv[1]).run('known').result({ timeout: 20_000 })
      console.log(JSON.stringify(result))
      await pawl.close()`
    const { stack } = here
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code, id], {
      env: {
        ...process.env,
        TEMPORAL_ADDRESS: stack.temporalAddress,
        TEMPORAL_NAMESPACE: stack.namespace,
        DATABASE_URL: stack.databaseUrl,
      },
    })
    expect(JSON.parse(stdout)).toMatchObject({ run: 1, text: 'for everybody' })
  })

  it('the handle of a run adds up the usage of the run’s model calls', async () => {
    const usage = { input_tokens: 10, output_tokens: 5, cache_creation_input_tokens: 1, cache_read_input_tokens: 2 }
    const { session } = player.play(here.pawl, {
      model: inOrder({ content: [use('look', 'at it')], usage }, { content: [{ type: 'text', text: 'done' }], usage }),
    })
    const result = await (await session.send('count')).result({ timeout: 20_000 })
    expect(result.usage).toEqual({ input_tokens: 20, output_tokens: 10, cache_creation_input_tokens: 2, cache_read_input_tokens: 4 })
    expect(result.message).toEqual({ role: 'assistant', content: [{ type: 'text', text: 'done' }] })
  })
})

describe('an invalid message', () => {
  const bad: [string, unknown, string][] = [
    ['is empty', '', 'empty_message'],
    ['has only spaces', ' \n\t', 'empty_message'],
    ['has only empty text blocks', [{ type: 'text', text: '' }], 'empty_message'],
    ['is over the limit', 'x'.repeat(20_000_001), 'message_too_large'],
    ['has blocks that no user may send', [{ type: 'tool_result', tool_use_id: 'x', content: 'y' }], 'invalid_message'],
  ]

  for (const [how, content, code] of bad) {
    it(`an invalid message that ${how} is refused by the client, and nothing is recorded`, async () => {
      const { session, id } = player.play(here.pawl, {})
      const refused = await session.send(content as string).catch((error: unknown) => error)
      expect(refused).toBeInstanceOf(InvalidMessageError)
      expect(refused).toMatchObject({ code })
      await expect(here.temporal.workflow.getHandle(`pawl:${id}`).describe()).rejects.toThrow(/not found/i)
    })
  }

  it('an invalid message with a bad id or bad metadata is refused by the client', async () => {
    const { session } = player.play(here.pawl, {})
    await expect(session.send('x', { messageId: '' })).rejects.toMatchObject({ code: 'invalid_message_id' })
    await expect(session.send('x', { metadata: { big: 'x'.repeat(20_000) } })).rejects.toMatchObject({ code: 'invalid_metadata' })
  })

  it('an invalid message that names no agent is refused if there is no session yet', async () => {
    const refused = await here.pawl
      .session(`none-${randomUUID()}`)
      .send('hello')
      .catch((error: Error) => error)
    expect(refused).toMatchObject({ code: 'no_agent' })
    // That no workflow is open is what the message says.
    expect(refused).not.toHaveProperty('cause')
    expect(() => here.pawl.session('no spaces')).toThrow(InvalidMessageError)
  })

  it('an invalid message for an agent other than the session’s is rejected by the session', async () => {
    const { session, id } = player.play(here.pawl, {})
    await (await session.send('hello')).result({ timeout: 20_000 })
    const run = await here.pawl.session(id, { agent: 'somebody-else' }).send('hello')
    const rejected = await run.result({ timeout: 20_000 }).catch((error: unknown) => error)
    expect(rejected).toBeInstanceOf(MessageRejectedError)
    expect(rejected).toMatchObject({ code: 'agent_mismatch' })
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'rejected', code: 'agent_mismatch' })
  })
})

it('a session that never received a message is not found', async () => {
  const session = here.pawl.session(`none-${randomUUID()}`, { agent: 'player' })
  await expect(session.state()).rejects.toMatchObject({ code: 'session_not_found' })
  await expect(session.interrupt()).rejects.toMatchObject({ code: 'session_not_found' })
  await expect(session.close()).rejects.toMatchObject({ code: 'session_not_found' })
  await expect(session.messages()).rejects.toMatchObject({ code: 'session_not_found' })
  await expect(session.recover({ strategy: 'abandon' })).rejects.toMatchObject({ code: 'session_not_found' })
})
