// Requests that an execution had accepted and not carried out when an operator terminated it, although any worker can replay it: the next
// execution carries each of them out once.
import { defineAgent, defineTool, type Agent } from 'pawl'
import { scripted } from 'pawl/testing'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { approvalStage, digestOf, once, pendingOf } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { inOrder, saidIn, stage, use } from '../support/scenes.ts'
import { type Gate, gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 60_000 }
const LIMIT = { timeout: 120_000 }

const helped = approvalStage()
const player = stage()
/** What holds the check of an answer, or of a result that a person states. */
let check: Gate
const checked = z.string().refine(async () => {
  await check.pass()
  return true
})
const about = { description: 'Does something.', input: z.object({ what: z.string() }), effect: 'external' } as const
const slow = defineAgent({
  name: 'slow',
  instructions: 'x',
  model: scripted((request) => inOrder([use(saidIn(request)[0] ?? '', 'it')])(request)),
  tools: [
    defineTool({ ...about, name: 'form', execute: 'client', output: checked }),
    defineTool({
      ...about,
      name: 'book',
      output: checked,
      execute: () => {
        throw new Error('the connection was lost')
      },
    }),
  ],
})

let here: Deployment
beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [helped.agent, player.agent, slow as Agent] })
})
afterAll(() => here?.stop())

const workflowOf = (id: string) => here.temporal.workflow.getHandle(`pawl:${id}`)

/** Terminates the session's workflow once it has accepted the request, which waits. `release` ends the wait. */
async function terminated(id: string, request: Promise<unknown>, wait: { reached?: Promise<void>; release(): void }): Promise<void> {
  const outcome = request.then(
    () => expect.fail('it was carried out'),
    (error: unknown) => error,
  )
  await wait.reached
  await until('the request is accepted', async () => {
    const { events } = await workflowOf(id).fetchHistory()
    return events?.some(({ workflowExecutionUpdateAcceptedEventAttributes: accepted }) => accepted)
  })
  await workflowOf(id).terminate()
  expect(await outcome).toMatchObject({ code: 'session_unavailable', message: expect.stringContaining('It may still do so.') })
  wait.release()
}

it('an approval with other arguments is carried out by the next execution', LIMIT, async () => {
  const resolving = gate()
  let resolved = 0
  const played = helped.play(here.pawl, {
    model: once(['pay', 'rent']),
    approval: async () => {
      if (resolved++ === 1) await resolving.pass()
      return true
    },
  })
  const sent = await played.session.send('one')
  const approval = { digest: await digestOf(sent, 't_1_1_0'), input: { what: 'food' }, by: 'anna' }
  await terminated(played.id, played.session.approve('t_1_1_0', approval), { ...resolving, release: resolving.open })
  await played.session.resume()
  await sent.result(TIMEOUT)
  expect(played.entered()).toEqual(['pay food'])
  expect(ofType(await eventsOf(played.session), 'approval_decided')).toMatchObject([{ approved: true, by: 'anna' }])
})

it('a client’s answer is recorded by the next execution', LIMIT, async () => {
  check = gate()
  const session = here.pawl.session(`a-${randomUUID()}`, { agent: 'slow' })
  const sent = await session.send('form')
  const [{ callId } = expect.fail('nothing waits')] = await pendingOf(sent)
  await terminated(session.id, session.answer(callId, 'yes', { by: 'anna' }), { ...check, release: check.open })
  await session.resume()
  await sent.result(TIMEOUT)
  expect(ofType(await eventsOf(session), 'answer_received')).toMatchObject([{ callId, by: 'anna' }])
})

it('a person’s word on an unknown outcome is recorded by the next execution', LIMIT, async () => {
  check = gate()
  const session = here.pawl.session(`a-${randomUUID()}`, { agent: 'slow' })
  const sent = await session.send('book')
  const [{ callId } = expect.fail('nothing waits')] = await pendingOf(sent)
  const word = { happened: true, result: 'B-1' } as const
  await terminated(session.id, session.resolve(callId, word, { by: 'anna' }), { ...check, release: check.open })
  await session.resume()
  await sent.result(TIMEOUT)
  expect(ofType(await eventsOf(session), 'tool_resolved')).toMatchObject([{ callId, happened: true, decidedBy: 'anna' }])
})

it.each(['rollback', 'regenerate'] as const)('a %s is carried out by the next execution, before later messages', LIMIT, async (how) => {
  const body = gate()
  let asked = 0
  const played = player.play(here.pawl, {
    model: (request) => (saidIn(request).at(-1) === 'two' && asked++ === 0 ? [use('wire', 'rent')] : 'hello'),
    wire: () => body.pass(),
  })
  await (await played.session.send('one')).result(TIMEOUT)
  const two = await played.session.send('two')
  await body.reached
  // Either waits for the end of the run, which waits for the call.
  const request = how === 'rollback' ? played.session.rollback({ run: 2 }) : played.session.regenerate()
  await terminated(played.id, request, { release: body.open })
  await (await played.session.send('three')).result(TIMEOUT)
  const events = await eventsOf(played.session)
  const back = ofType(events, 'rolled_back').filter(({ keepsRun }) => !keepsRun)
  expect(back.map(({ again }) => again?.messages.map(({ messageId }) => messageId))).toEqual([
    how === 'rollback' ? undefined : [two.messageId],
  ])
  expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked'))).toEqual(
    how === 'rollback' ? ['one', 'three'] : ['one', 'two', 'three'],
  )
  expect(ofType(events, 'request_passed_on')).toMatchObject([{ name: how }])
})
