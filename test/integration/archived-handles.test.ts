// Handles of messages that were archived, pruned or erased: each settles, with what its run did or with a code that says why that is gone.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { ModelError } from 'pawl'
import type { RunHandle, SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { ownSchema, type OwnSchema } from '../support/rows.ts'
import { saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { until } from '../support/until.ts'

const TIMEOUT = { timeout: 20_000 }

let here: Deployment
let player: Stage
let patient: Stage
let schema: OwnSchema

beforeAll(async () => {
  schema = await ownSchema(inject('stack').databaseUrl, 'handles')
  here = await deploy({ schema: schema.name })
  const retry = { maxRetries: 0 }
  player = stage({ retry, checkpoint: { everyTurns: 1 } })
  // Longer than anything that a test does in the meantime.
  patient = stage({ name: 'patient', retry, recovery: { baseDelay: '1h', maxDelay: '1h' } })
  await here.startWorker({ agents: [player.agent, patient.agent] })
})
afterAll(async () => {
  await here?.stop()
  await schema?.close()
})

const refuse = (): never => {
  throw new ModelError('no_such_thing', 'it cannot be answered', { retryable: false })
}

const overloaded = (): never => {
  throw new ModelError('overloaded_error', 'the provider is overloaded', { retryable: true })
}

/** A session that has answered `zero` and `one`. */
async function answered(): Promise<{ session: SessionHandle; one: RunHandle }> {
  const { session } = player.play(here.pawl, { model: (request) => `heard ${saidIn(request).at(-1)}` })
  await (await session.send('zero', { messageId: 'm0' })).result(TIMEOUT)
  const one = await session.send('one', { messageId: 'm1' })
  await one.result(TIMEOUT)
  return { session, one }
}

/** What both handles of the message, the earlier one and a new one, say; the events that they show end, too. */
async function settled(session: SessionHandle, earlier: RunHandle): Promise<unknown> {
  const said = await Promise.all([earlier, session.run(earlier.messageId)].map((handle) => handle.settled(TIMEOUT)))
  expect(said[0]).toEqual(said[1])
  for (const stream of [session.run(earlier.messageId).events(), session.run(earlier.messageId).stream()]) {
    for await (const _ of stream);
  }
  return said[1]
}

async function closed(session: SessionHandle): Promise<void> {
  await session.close()
  await here.workflowEnded(session.id)
}

describe('the handle of a message', () => {
  it('the handle of a message says how the run ended, even after a rollback has archived it', async () => {
    const { session, one } = await answered()
    await session.rollback({ message: 'm1', by: 'ann' })
    expect(await settled(session, one)).toMatchObject({ status: 'completed', run: 2, text: 'heard one' })
    await (await session.send('two')).result(TIMEOUT)
    expect(await settled(session, one)).toMatchObject({ status: 'completed', text: 'heard one' })
    expect(await session.run('m0').result(TIMEOUT)).toMatchObject({ text: 'heard zero' })
  })

  it('the handle of a message that was sent says how the run ended if it is first asked after a rollback', async () => {
    const { session } = await answered()
    const sent = await session.send('two', { messageId: 'm2' })
    await session.run('m2').result(TIMEOUT)
    await session.rollback({ message: 'm2', by: 'ann' })
    await until('the store has the rollback', async () =>
      (await here.pawl.session(session.id).messages()).every(({ messageId }) => messageId !== 'm2'),
    )
    expect(await sent.settled(TIMEOUT)).toMatchObject({ status: 'completed', text: 'heard two' })
    const again = await session.send('two, again', { messageId: 'm2' })
    expect(await again.settled(TIMEOUT)).toMatchObject({ status: 'completed', text: 'heard two, again' })
  })

  it('the handle of a message says that the run failed, after it was abandoned and rolled back', async () => {
    const { session } = player.play(here.pawl, { model: (request) => (saidIn(request).at(-1) === 'fail' ? refuse() : 'fine') })
    await (await session.send('zero')).result(TIMEOUT)
    const run = await session.send('fail', { messageId: 'f' })
    await run.settled(TIMEOUT)
    await session.recover({ strategy: 'abandon', by: 'ann' })
    await (await session.send('one')).result(TIMEOUT)
    await session.rollback({ message: 'f', by: 'ann' })
    expect(await settled(session, run)).toMatchObject({ status: 'failed', code: 'no_such_thing' })
  })

  it('the handle of a message says that the run failed, after it was abandoned before the next attempt', async () => {
    const { session } = patient.play(here.pawl, { model: () => overloaded() })
    const run = await session.send('go', { messageId: 'm1' })
    const waits = Promise.all([run.settled(TIMEOUT), run.result(TIMEOUT).catch((error: unknown) => error)])
    await until('it waits for the next attempt', async () => (await session.state()).error?.nextAttemptAt !== undefined)
    await session.recover({ strategy: 'abandon', by: 'ann' })
    expect(await waits).toMatchObject([
      { status: 'failed', run: 1, code: 'overloaded_error' },
      { name: 'RunFailedError', run: 1 },
    ])
    expect(await settled(session, run)).toMatchObject({ status: 'failed', run: 1, code: 'overloaded_error' })
  })

  it('the handle of a message reports an interrupted run in a fork that began in the middle of that run', async () => {
    let calls = 0
    const { session } = player.play(here.pawl, { model: () => (++calls === 1 ? [use('look', 'it')] : 'done') })
    const run = await session.send('go', { messageId: 'm1' })
    await run.result(TIMEOUT)
    const [, middle] = await session.checkpoints()
    expect(middle).toMatchObject({ run: 1, turn: 1 })
    const fork = await session.fork({ checkpoint: middle!.version })
    expect(await settled(fork, fork.run('m1'))).toMatchObject({ status: 'interrupted', run: 1, reason: 'forked' })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'completed', run: 1 })
  })

  it('the handle of a message that is sent again after it was refused says how the run ended', async () => {
    const { session, id } = player.play(here.pawl, { model: (request) => `heard ${saidIn(request).at(-1)}` })
    await (await session.send('zero')).result(TIMEOUT)
    const elsewhere = here.pawl.session(id, { agent: 'somebody' })
    const refused = await elsewhere.send('one', { messageId: 'm1' })
    expect(await refused.settled(TIMEOUT)).toMatchObject({ status: 'rejected', code: 'agent_mismatch' })
    const again = await session.send('one', { messageId: 'm1' })
    expect(await again.settled(TIMEOUT)).toMatchObject({ status: 'completed', text: 'heard one' })
    expect(await session.run('m1').settled(TIMEOUT)).toMatchObject({ status: 'completed', text: 'heard one' })
    const twice = [await elsewhere.send('two', { messageId: 'm2' }), await elsewhere.send('two', { messageId: 'm2' })]
    for (const handle of twice) expect(await handle.settled(TIMEOUT)).toMatchObject({ status: 'rejected', code: 'agent_mismatch' })
    const third = await elsewhere.send('two', { messageId: 'm2' })
    await (await session.send('three')).result(TIMEOUT)
    expect(await third.settled(TIMEOUT)).toMatchObject({ status: 'rejected', code: 'agent_mismatch' })
  })

  it('the handle of a message says `pruned` once the session was pruned, whether the message was archived before or not', async () => {
    const { session, one } = await answered()
    await session.rollback({ message: 'm1', by: 'ann' })
    await closed(session)
    await schema.age([session.id], 100)
    expect(await here.pawl.prune({ olderThan: '90d', by: 'ann' })).toMatchObject({ sessions: 1 })
    for (const handle of [one, session.run('m0')]) {
      expect(await settled(session, handle)).toMatchObject({
        status: 'rejected',
        code: 'pruned',
        reason: expect.stringContaining('archive'),
      })
    }
    await expect(session.run('m0').result(TIMEOUT)).rejects.toMatchObject({ name: 'MessageRejectedError', code: 'pruned' })
    // A message that opens the session again is answered, also with the id of an old one.
    expect(await (await session.send('two')).result(TIMEOUT)).toMatchObject({ text: 'heard two' })
    expect(await session.run('m0').settled(TIMEOUT)).toMatchObject({ status: 'rejected', code: 'pruned' })
    expect(await (await session.send('three', { messageId: 'm0' })).result(TIMEOUT)).toMatchObject({ text: 'heard three' })
  })

  it('the handle of a message says `erased` once the session was erased', async () => {
    const { session, one } = await answered()
    await closed(session)
    await here.pawl.erase(session.id, { by: 'dpo' })
    expect(await settled(session, one)).toMatchObject({ status: 'rejected', code: 'erased' })
    expect(await settled(session, session.run(randomUUID()))).toMatchObject({ status: 'rejected', code: 'erased' })
  })

  // A handle looks again every 30 s: too long for every run of the tests.
  it.runIf(size(false, true))(
    'the handle of a message that was already waiting says `erased` when the session is erased',
    async () => {
      const { session } = await answered()
      await closed(session)
      const waits = session.run(randomUUID()).settled({ timeout: 60_000 })
      expect(await Promise.race([waits, sleep(2_000, 'waits')])).toBe('waits')
      await here.pawl.erase(session.id, { by: 'dpo' })
      expect(await waits).toMatchObject({ status: 'rejected', code: 'erased' })
    },
    90_000,
  )
})
