// Queries that a worker answers while a workflow task is scheduled or lost: they show the session, and never change it.
import type { RunHandle, SessionHandle } from 'pawl/client'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { QUERIES } from '../../src/session/protocol/protocol.ts'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { loseTask } from '../support/lost-task.ts'
import { use, type Scene, type Stage, stage } from '../support/scenes.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { gate, until } from '../support/until.ts'

/** Longer than a workflow task, and than what a busy machine needs to start a worker. */
const PATIENCE_MS = 30_000
/** How long a query waits for a worker. Those that the test itself takes from the queue are lost. */
const QUERY_MS = 8_000

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
})
afterAll(() => here?.stop())
// A worker of a failed test would take the tasks that the next test means to lose.
afterEach(async () => {
  for (const worker of serving) await worker.stop()
})

const serving = new Set<RunningWorker>()

async function serve(): Promise<RunningWorker> {
  const worker = await here.startWorker({ agents: [player.agent] })
  const own: RunningWorker = {
    ...worker,
    async stop() {
      serving.delete(own)
      await worker.stop()
    },
  }
  serving.add(own)
  return own
}

/** Asks for the session's state, several times at once, and waits until the server has the queries. */
async function queriesOf({ id }: SessionHandle, count: number): Promise<Promise<unknown>[]> {
  const { temporal } = here
  const asked = Array.from({ length: count }, () =>
    temporal
      .withDeadline(Date.now() + QUERY_MS, () => temporal.workflow.getHandle(`pawl:${id}`).query(QUERIES.state))
      .catch((error: unknown) => error),
  )
  await new Promise((resolve) => setTimeout(resolve, 300))
  return asked
}

/** What arrives while the lost task is still the session's own. */
const ARRIVALS: Record<string, (session: SessionHandle) => Promise<RunHandle | undefined>> = {
  'another message': (session) => session.send('m2'),
  'an update': async (session) => void (await session.pause({ by: 'ann' }).then(() => session.unpause({ by: 'ann' }))),
  nothing: () => Promise.resolve(undefined),
}

const echo: Scene = { model: ({ messages }) => `heard ${JSON.stringify(messages.at(-1)?.content)}` }

/** A session that has answered once, is queried while no worker is there, and then gets another message. */
async function askedWhileAway(): Promise<{ session: SessionHandle; asked: Promise<unknown>[]; run: RunHandle }> {
  const { session } = player.play(here.pawl, echo)
  const worker = await serve()
  await (await session.send('m0')).result({ timeout: PATIENCE_MS })
  await worker.stop()
  const asked = await queriesOf(session, 12)
  return { session, asked, run: await session.send('m1') }
}

/** The session continues in other workers, and the store has what the history says. */
async function expectSound(session: SessionHandle): Promise<void> {
  for (const text of ['after', 'after that']) {
    const worker = await serve()
    expect(await (await session.send(text)).result({ timeout: PATIENCE_MS })).toMatchObject({ text: expect.stringContaining(`"${text}"`) })
    if (text === 'after that') await rowsMatchEvents(here.stack, session.id)
    await worker.stop()
  }
}

describe('a query that is answered while a workflow task is in progress elsewhere', () => {
  it.each(Object.keys(ARRIVALS))(
    'after a query during a workflow task, every worker can replay the session, even if %s arrives then',
    async (arrival) => {
      const { session, asked, run } = await askedWhileAway()
      await loseTask(here, session)
      const second = await serve()
      // The queries are answered, or refused, as soon as the worker polls: before the server gives the lost task up.
      await Promise.race(asked)
      const other = await ARRIVALS[arrival]!(session)
      for (const each of [run, other])
        if (each) expect(await each.result({ timeout: PATIENCE_MS })).toMatchObject({ text: expect.stringContaining('heard') })
      await second.stop()
      await expectSound(session)
    },
  )

  it('after a query during a workflow task, every worker can replay the session, even if no worker began the task', async () => {
    const { session, asked, run } = await askedWhileAway()
    const second = await serve()
    await Promise.race(asked)
    expect(await run.result({ timeout: PATIENCE_MS })).toMatchObject({ text: expect.stringContaining('m1') })
    await second.stop()
    await expectSound(session)
  })

  it('a query during a workflow task shows the state once the task is given up, without a failure for the client', async () => {
    const open = gate()
    const { session } = player.play(here.pawl, {
      model: ({ messages }) => (messages.length > 1 ? 'done' : [use('look', 'it')]),
      look: () => open.pass(),
    })
    const first = await serve()
    await session.send('m0')
    await open.reached
    open.open()
    await until('the run ends', async () => (await session.state()).status === 'idle')
    await first.stop()
    const asked = Array.from({ length: 4 }, () => session.state())
    await new Promise((resolve) => setTimeout(resolve, 300))
    const run = await session.send('m1')
    await loseTask(here, session)
    const second = await serve()
    for (const state of await Promise.all(asked)) expect(state.seq).toBeGreaterThan(0)
    await run.result({ timeout: PATIENCE_MS })
    await second.stop()
  })
})
