// Requests that meet: rollbacks at the same time, and an interrupt between two runs.
import { defineHook } from 'pawl'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { type Played, saidIn, type Stage, stage } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 30_000 }

let here: Deployment
let player: Stage
let hooked: Stage
/** By session: what the hook at the end of a turn waits for. */
const ends = new Map<string, (signal: AbortSignal) => Promise<void>>()

beforeAll(async () => {
  here = await deploy()
  player = stage({ plan: true })
  const end = defineHook({
    on: 'turnEnd',
    name: 'end',
    timeout: '10m',
    run: (_input, { sessionId, signal }) => ends.get(sessionId)?.(signal),
  })
  hooked = stage({ name: 'hooked', hooks: [end] })
  await here.startWorker({ agents: [player.agent, hooked.agent] })
})
afterAll(() => here?.stop())

const historyOf = async (id: string) => (await here.temporal.workflow.getHandle(`pawl:${id}`).fetchHistory()).events ?? []

async function say({ session }: Pick<Played, 'session'>, text: string): Promise<string> {
  return (await (await session.send(text, { messageId: text })).result(TIMEOUT)).text
}

it.each([
  [1, 3],
  [3, 1],
])('of two rollbacks at the same time, the second refers to what the first has left: runs %i and %i', async (first, second) => {
  const played = player.play(here.pawl, { model: () => 'hello' })
  for (const text of ['one', 'two', 'three']) await say(played, text)
  const both = await Promise.allSettled([played.session.rollback({ run: first }), played.session.rollback({ run: second })])
  const targets = ofType(await eventsOf(played.session), 'rolled_back').map(({ target }) => target)
  // Whichever arrives first: nothing is left of run 3 once the session was rolled back to run 1.
  expect(targets.at(-1)).toEqual({ run: 1 })
  expect(both.filter(({ status }) => status === 'fulfilled')).toHaveLength(targets.length)
  await say(played, 'four')
  expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked'))).toEqual(['four'])
  await rowsMatchEvents(here.stack, played.id)
})

it('an interrupt stops a message that waits for the hooks of the run before it', async () => {
  const looks = gate()
  const hook = gate()
  const played: Played = hooked.play(here.pawl, {
    look: (_input, { signal }) => looks.pass(signal),
    model: (request) =>
      saidIn(request).length === 1 ? [{ type: 'tool_use', id: 'toolu_look', name: 'look', input: { what: 'it' } }] : 'hello',
  })
  ends.set(played.id, (signal) => hook.pass(signal))
  await played.session.send('one')
  await looks.reached
  await played.session.interrupt()
  await hook.reached
  const two = await played.session.send('two')
  await played.session.interrupt({ reason: 'not that' })
  await until(
    'both have arrived',
    async () => (await historyOf(played.id)).filter((event) => event.workflowExecutionSignaledEventAttributes).length === 4,
  )
  hook.open()
  expect(await two.settled(TIMEOUT)).toMatchObject({ status: 'interrupted', reason: 'not that' })
})
