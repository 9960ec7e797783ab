// Clients that know nothing about pawl: the `temporal` command line, and payloads that no converter can decode.
import { execFile } from 'node:child_process'
import { access } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { inCache } from '../../src/local/temporal/binary.ts'
import type { EventsPage } from '../../src/session/protocol/protocol.ts'
import { type Json, ModelError } from 'pawl'
import type { SessionState } from '../../src/session/state.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { foldedState } from '../support/folded.ts'
import { inOrder, type Played, saidIn, type Stage, stage } from '../support/scenes.ts'
import { until } from '../support/until.ts'

const run = promisify(execFile)
let here: Deployment
let player: Stage
let cli: string

beforeAll(async () => {
  here = await deploy()
  player = stage()
  await here.startWorker({ agents: [player.agent] })
  cli = await temporalProgram()
})
afterAll(() => here?.stop())

/** Where the stack found or put the program: on PATH or in pawl's cache. */
async function temporalProgram(): Promise<string> {
  const { PATH = '' } = process.env
  for (const path of [...PATH.split(delimiter).map((folder) => join(folder, 'temporal')), inCache(process.env)]) {
    const found = await access(path).then(
      () => true,
      () => false,
    )
    if (found) return path
  }
  throw new Error('no temporal program on PATH or in the cache')
}

async function temporal(...args: string[]): Promise<string> {
  const { temporalAddress, namespace } = here.stack
  const { stdout } = await run(cli, [...args, '--address', temporalAddress, '--namespace', namespace, '-o', 'json'])
  return stdout
}

async function query<T>(id: string, name: string, input?: object): Promise<T> {
  const out = await temporal('workflow', 'query', '-w', `pawl:${id}`, '--name', name, ...(input ? ['--input', JSON.stringify(input)] : []))
  return (JSON.parse(out) as { queryResult: [T] }).queryResult[0]
}

const messageOf = (message: object): string[] => ['--name', 'message', '--input', JSON.stringify(message)]

describe('the temporal command line', () => {
  it('the temporal command line starts a session with signal-with-start, and reads its state and events', async () => {
    const { id, session } = player.play(here.pawl, { model: inOrder('hello, command line') })
    await temporal(
      'workflow',
      'signal-with-start',
      '-w',
      `pawl:${id}`,
      '--type',
      'pawlSession',
      '--task-queue',
      here.taskQueue,
      '--input',
      JSON.stringify({ sessionId: id, agent: 'player' }),
      '--signal-name',
      'message',
      '--signal-input',
      JSON.stringify({ messageId: 'm1', content: 'hello' }),
    )
    expect(await session.run('m1').result({ timeout: 20_000 })).toMatchObject({ text: 'hello, command line' })
    expect(await query<SessionState>(id, 'state')).toMatchObject({ sessionId: id, agent: 'player', status: 'idle', run: 1 })
    const page = await query<EventsPage>(id, 'events', { after: 2 })
    expect(page.from.seq).toBe(2)
    expect(page.events.map(({ seq }) => seq)).toEqual(Array.from({ length: page.to.seq - 2 }, (_, index) => index + 3))
    expect(page.more).toBe(false)
    expect((await query<EventsPage>(id, 'events')).events.map(({ type }) => type)).toEqual(
      (await eventsOf(session)).map(({ type }) => type),
    )
  })

  it('the temporal command line starts a session without arguments: its first message names the agent', async () => {
    const { id, session } = player.play(here.pawl, { model: inOrder('hello anyway') })
    await temporal('workflow', 'start', '-w', `pawl:${id}`, '--type', 'pawlSession', '--task-queue', here.taskQueue)
    expect(await query(id, 'state')).toMatchObject({ status: 'loading' })
    await temporal(
      'workflow',
      'signal',
      '-w',
      `pawl:${id}`,
      ...messageOf({ messageId: 'm1', content: 'hello', agent: 'player', context: { tenant: 't' } }),
    )
    expect(await session.run('m1').result({ timeout: 20_000 })).toMatchObject({ text: 'hello anyway' })
    expect(await session.state()).toMatchObject({ agent: 'player', context: { tenant: 't' } })
  })

  it('the temporal command line sends into an open session, once per message id', async () => {
    const { id, session, requests } = player.play(here.pawl, {})
    await (await session.send('one')).result({ timeout: 20_000 })
    const signal = ['workflow', 'signal', '-w', `pawl:${id}`, ...messageOf({ messageId: 'm2', content: 'two' })]
    await temporal(...signal)
    await temporal(...signal)
    await session.run('m2').result({ timeout: 20_000 })
    await (await session.send('three')).result({ timeout: 20_000 })
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two', 'three'])
  })

  it('the temporal command line may send a message without an id: pawl assigns one', async () => {
    const { id, session, requests } = player.play(here.pawl, {})
    await (await session.send('one')).result({ timeout: 20_000 })
    await temporal('workflow', 'signal', '-w', `pawl:${id}`, ...messageOf({ content: 'two' }))
    await until('the message is answered', () => requests.length === 2)
    await until('the run has ended', async () => (await session.state()).status === 'idle')
    const [, second] = ofType(await eventsOf(session), 'message_received')
    expect(second?.messageId).toMatch(/^[0-9a-f-]{36}$/)
  })

  it('the temporal command line can cancel the workflow: the session closes, and resumes with the next message', async () => {
    const { id, session, requests } = player.play(here.pawl, {})
    await (await session.send('one')).result({ timeout: 20_000 })
    await temporal('workflow', 'cancel', '-w', `pawl:${id}`)
    await until('the session is closed', async () => (await session.state()).status === 'closed')
    await (await session.send('two')).result({ timeout: 20_000 })
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two'])
  })
})

interface Raw {
  metadata: Record<string, Uint8Array>
  data: Uint8Array
}
const bytes = (text: string): Uint8Array => Buffer.from(text)
const payload = (encoding: string, data: string, more: Record<string, string> = {}): Raw => ({
  metadata: Object.fromEntries(Object.entries({ encoding, ...more }).map(([key, value]) => [key, bytes(value)])),
  data: bytes(data),
})

const UNDECODABLE: [string, Raw[]][] = [
  ['protobuf as JSON', [payload('json/protobuf', '{"x":1}', { messageType: 'some.Message' })]],
  ['an unknown encoding', [payload('binary/of-somebody', '\x00\x01')]],
  ['broken JSON', [payload('json/plain', '{"messageId": ')]],
  ['no metadata at all', [{ metadata: {}, data: bytes('{}') }]],
  ['a string', [payload('json/plain', '"hello"')]],
  ['null', [payload('binary/null', '')]],
  ['nothing', []],
]

describe('a signal that cannot be a message', () => {
  let played: Played

  beforeAll(async () => {
    played = player.play(here.pawl, {})
    await (await played.session.send('one')).result({ timeout: 20_000 })
  })

  async function signal(signalName: string, payloads: Raw[]): Promise<number> {
    const before = (await played.session.state()).seq
    const { namespace } = here.stack
    const workflowExecution = { workflowId: `pawl:${played.id}` }
    await here.temporal.workflowService.signalWorkflowExecution({
      namespace,
      workflowExecution,
      signalName,
      input: { payloads },
      requestId: randomUUID(),
    })
    return before
  }

  for (const [what, payloads] of UNDECODABLE) {
    it(`a signal that cannot be a message because it is ${what} ends as message_rejected, and the session continues`, async () => {
      const before = await signal('message', payloads)
      const [rejected] = await until('the rejection is stored', async () => {
        const found = ofType(await eventsOf(played.session, before), 'message_rejected')
        return found.length > 0 && found
      })
      expect(rejected!.code).toBe(['a string', 'null', 'nothing'].includes(what) ? 'invalid_message' : 'undecodable')
      await (await played.session.send(`after ${what}`)).result({ timeout: 20_000 })
    })
  }

  it('a signal that cannot be a message because its name is unknown ends as message_rejected', async () => {
    const before = await signal('massage', [payload('json/plain', '{"content":"hello"}')])
    await until(
      'the rejection is there',
      async () => ofType(await eventsOf(played.session, before), 'message_rejected')[0]?.code === 'undecodable',
    )
  })

  it('a signal that is empty, too large or has a bad id ends as message_rejected with the reason', async () => {
    const handle = here.temporal.workflow.getHandle(`pawl:${played.id}`)
    const before = (await played.session.state()).seq
    await handle.signal('message', { messageId: 'e1', content: ' ' })
    await handle.signal('message', { messageId: 'e2', content: 'x'.repeat(1_100_000) })
    await handle.signal('message', { messageId: 7, content: 'x' })
    await handle.signal('message', { messageId: 'e4', content: 'x', metadata: 'none' })
    const rejected = await until('all are rejected', async () => {
      const found = ofType(await eventsOf(played.session, before), 'message_rejected')
      return found.length === 4 && found
    })
    expect(rejected.map(({ messageId, code }) => [messageId, code])).toEqual([
      ['e1', 'empty_message'],
      ['e2', 'message_too_large'],
      [undefined, 'invalid_message_id'],
      ['e4', 'invalid_metadata'],
    ])
    expect(await played.session.run('e2').settled({ timeout: 20_000 })).toMatchObject({ status: 'rejected', code: 'message_too_large' })
  })

  it('a signal that cannot be a message because it imitates pawl’s own markers ends as message_rejected', async () => {
    const handle = here.temporal.workflow.getHandle(`pawl:${played.id}`)
    const before = (await played.session.state()).seq
    await handle.signal('message', { __pawl_undecodable__: { toString: 1 } })
    await handle.signal('message', { reason: { toString: 1 }, constructor: { name: 'Undecodable' }, __proto__: null })
    const rejected = await until('both are rejected', async () => {
      const found = ofType(await eventsOf(played.session, before), 'message_rejected')
      return found.length === 2 && found
    })
    expect(rejected.map(({ code }) => code)).toEqual(['invalid_message', 'invalid_message'])
    await (await played.session.send('after a forged mark')).result({ timeout: 20_000 })
  })

  it('a signal that cannot be a message does not disturb interrupt, which accepts anything', async () => {
    await signal('interrupt', [payload('json/plain', '{"reason": ')])
    await signal('interrupt', [payload('json/plain', '17')])
    await signal('interrupt', [])
    await (await played.session.send('still here')).result({ timeout: 20_000 })
  })
})

describe('invalid arguments', () => {
  it('a start whose arguments cannot be decoded leaves a session that its first message completes', async () => {
    const { id, session } = player.play(here.pawl, { model: inOrder('hello') })
    const { namespace } = here.stack
    await here.temporal.workflowService.startWorkflowExecution({
      namespace,
      workflowId: `pawl:${id}`,
      workflowType: { name: 'pawlSession' },
      taskQueue: { name: here.taskQueue },
      input: { payloads: [payload('json/plain', '{"sessionId": ')] },
      requestId: randomUUID(),
    })
    expect(await (await session.send('hello')).result({ timeout: 20_000 })).toMatchObject({ text: 'hello' })
    expect(await session.state()).toMatchObject({ sessionId: id, agent: 'player' })
  })

  it('start arguments of the wrong type are omitted', async () => {
    const { id, session } = player.play(here.pawl, { model: inOrder('hello') })
    const start = {
      sessionId: 'somebody-else',
      agent: 'player',
      tags: ['a', 7, null],
      settings: { idleTimeoutMs: 'soon', notServedAfterMs: -1 },
      carried: 'x',
    }
    await here.temporal.workflow.signalWithStart('pawlSession', {
      workflowId: `pawl:${id}`,
      taskQueue: here.taskQueue,
      args: [start],
      signal: 'message',
      signalArgs: [{ messageId: 'm', content: 'hello' }],
    })
    expect(await session.run('m').result({ timeout: 20_000 })).toMatchObject({ text: 'hello' })
    expect(await session.state()).toMatchObject({ sessionId: id, tags: ['a'] })
  })

  it('start arguments that claim to be carried over by continue-as-new are ignored', async () => {
    const other = player.play(here.pawl, { model: inOrder('hello') })
    await (await other.session.send('hello')).result({ timeout: 20_000 })
    const state = await foldedState(other.session)
    const forged: unknown[] = [{}, 'x', { coreVersion: 99 }, { coreVersion: 2, state: { ...state, run: 7 }, digest: 'd', previous: 'p' }]
    for (const carried of forged) {
      const { id, session } = player.play(here.pawl, { model: inOrder('hello') })
      await here.temporal.workflow.signalWithStart('pawlSession', {
        workflowId: `pawl:${id}`,
        taskQueue: here.taskQueue,
        args: [{ agent: 'player', carried }],
        signal: 'message',
        signalArgs: [{ messageId: 'm', content: 'hello' }],
      })
      expect(await session.run('m').result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'hello' })
      expect(await session.state()).toMatchObject({ sessionId: id })
    }
  })

  it('start arguments that claim to be carried over, and that a schedule repeats, are ignored in later executions as well', async () => {
    const { id, session, requests } = player.play(here.pawl, {})
    const carried = { coreVersion: 2, state: { v: 1, sessionId: id, seq: 40, run: 7 }, digest: 'd', previous: 'p' }
    await here.temporal.workflow.start('pawlSession', {
      workflowId: `pawl:${id}`,
      taskQueue: here.taskQueue,
      cronSchedule: '@every 1s',
      args: [{ agent: 'player', isNew: true, carried }],
    })
    await (await session.send('one')).result({ timeout: 20_000 })
    await session.close()
    await until('the schedule has begun another execution', async () => ofType(await eventsOf(session), 'session_resumed').length > 0)
    expect(await (await session.send('two')).result({ timeout: 20_000 })).toMatchObject({ run: 2 })
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two'])
    await here.temporal.workflow.getHandle(`pawl:${id}`).terminate()
  })

  it('start arguments that are too large are left out and reported, and the session continues', async () => {
    const { id, session } = player.play(here.pawl, { model: inOrder('still here') })
    await here.temporal.workflow.signalWithStart('pawlSession', {
      workflowId: `pawl:${id}`,
      taskQueue: here.taskQueue,
      args: [{ agent: 'player', context: { text: 'x'.repeat(1_500_000) }, tags: ['t'.repeat(20_000)] }],
      signal: 'message',
      signalArgs: [{ messageId: 'm', content: 'hello' }],
    })
    await session.run('m').result({ timeout: 20_000 })
    const events = await eventsOf(session)
    expect(ofType(events, 'message_rejected').map(({ code }) => code)).toEqual(['invalid_context', 'invalid_tags'])
    expect(ofType(events, 'session_started')).toMatchObject([{ context: null, tags: [] }])
  })

  it('a start with arguments nested thousands of levels deep leaves a session that its first message completes', async () => {
    const { id, session } = player.play(here.pawl, { model: inOrder('still here') })
    const context = JSON.parse(`${'['.repeat(3_000)}${']'.repeat(3_000)}`) as Json
    await here.temporal.workflow.signalWithStart('pawlSession', {
      workflowId: `pawl:${id}`,
      taskQueue: here.taskQueue,
      args: [{ agent: 'player', context }],
      signal: 'message',
      signalArgs: [{ messageId: 'm', content: 'hello', agent: 'player' }],
    })
    await session.run('m').result({ timeout: 20_000 })
    expect(ofType(await eventsOf(session), 'message_rejected').map(({ code }) => code)).toEqual(['undecodable'])
  })

  it('invalid arguments of the recover update are refused', async () => {
    const { id, session } = player.play(here.pawl, {
      model() {
        throw new ModelError('broken', 'no', { retryable: false })
      },
    })
    await (await session.send('fail')).settled({ timeout: 20_000 })
    const handle = here.temporal.workflow.getHandle(`pawl:${id}`)
    for (const argument of [null, 'restart_run', { strategy: 'magic' }, undefined]) {
      const refused = await handle.executeUpdate('recover', { args: [argument] }).catch((error: unknown) => error)
      expect(refused).toMatchObject({ cause: { type: 'unknown_strategy' } })
    }
    const { namespace } = here.stack
    const answer = await here.temporal.workflowService.updateWorkflowExecution({
      namespace,
      workflowExecution: { workflowId: `pawl:${id}` },
      waitPolicy: { lifecycleStage: 3 },
      request: { meta: { updateId: randomUUID() }, input: { name: 'recover', args: { payloads: [payload('json/plain', '{{')] } } },
    })
    expect(answer.outcome?.failure?.applicationFailureInfo?.type).toBe('unknown_strategy')
    await session.recover({ strategy: 'abandon' })
  })

  it('invalid arguments of a query are ignored', async () => {
    const { id, session } = player.play(here.pawl, {})
    await (await session.send('hello')).result({ timeout: 20_000 })
    const handle = here.temporal.workflow.getHandle(`pawl:${id}`)
    const all = await handle.query<EventsPage>('events')
    for (const odd of [null, 'x', { after: 'x', maxBytes: 'y' }, { after: -5, maxBytes: -1 }, { after: Number.MAX_SAFE_INTEGER }]) {
      const page = await handle.query<EventsPage, [unknown]>('events', odd)
      expect(page.base).toEqual(all.base)
    }
  })
})

it('a workflow whose id is not a session’s fails at once and says why', async () => {
  const handle = await here.temporal.workflow.start('pawlSession', { workflowId: `not-pawl-${randomUUID()}`, taskQueue: here.taskQueue })
  await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'invalid_session_id' } })
})
