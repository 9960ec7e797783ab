// Agents that work in the background: the call completes at once, and the answer arrives as a message.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { workflowIdOf } from '../../src/session/protocol/protocol.ts'
import { gate, until } from '../support/until.ts'
import { deploy, type Deployment } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { calls } from 'pawl/testing'
import { ask, passOn, resultsIn, saidIn, startImpatient, treeStage } from '../support/tree.ts'

let here: Deployment
const tree = treeStage({ call: { background: true } as never })
const TIMEOUT = { timeout: 30_000 }

beforeAll(async () => {
  here = await deploy({ history: { events: 60, bytes: 4_000_000 } })
  await here.startWorker({ agents: tree.agents })
})
afterAll(() => here?.stop())

/** A boss who asks the helper in the first run, and says what it hears. */
const boss: Parameters<typeof tree.play>[1]['boss'] = (request) =>
  resultsIn(request.messages).length === 0 ? passOn(ask('helper', 'find out'))(request) : `heard: ${saidIn(request)}`

it('the call completes while the agent works, and the answer arrives as a message that opens a run', async () => {
  const open = gate()
  const { id, session, sessionsOf, count } = tree.play(here.pawl, {
    boss,
    helper: async () => {
      await open.pass()
      return 'it is blue'
    },
  })
  const run = await session.send('go')
  expect((await run.result(TIMEOUT)).text).toBe('heard: go')
  const [helper = ''] = await until('the helper is asked', () => sessionsOf('helper').length === 1 && sessionsOf('helper'))
  expect((await session.status()).waitsFor).toMatchObject([{ for: 'agent', session: helper, callId: 't_1_1_0' }, { for: 'message' }])
  const [done] = ofType(await eventsOf(session), 'tool_completed')
  expect(done?.value).toEqual({ session: helper, status: 'started' })
  open.open()
  const message = await until('the answer has arrived', async () => ofType(await eventsOf(session), 'message_received')[1])
  expect(message).toMatchObject({ by: 'agent:helper', answers: { session: helper, callId: 't_1_1_0' } })
  expect((await session.run(message.messageId).result(TIMEOUT)).text).toMatch(/^heard: .*in session .*has answered:\n\nit is blue$/)
  expect(count('helper')).toBe(1)
  expect((await session.status()).waitsFor).toEqual([{ for: 'message' }])
  expect(helper.startsWith(`${id}/`)).toBe(true)
})

it('a session that has closed, or has continued as new, receives the answer', async () => {
  const open = gate()
  const { session, sessionsOf } = tree.play(here.pawl, {
    boss,
    helper: async () => {
      await open.pass()
      return 'late'
    },
  })
  await (await session.send('go')).result(TIMEOUT)
  for (let n = 0; n < 8; n++) await (await session.send(`more ${n}`)).result(TIMEOUT)
  expect(ofType(await eventsOf(session), 'tool_completed')).toHaveLength(1)
  let executions = 0
  for await (const _ of here.temporal.workflow.list({ query: `WorkflowId = '${workflowIdOf(session.id)}'` })) executions += 1
  expect(executions).toBeGreaterThan(1)
  await session.close()
  await here.workflowEnded(session.id)
  open.open()
  const message = await until('the answer has arrived', async () => {
    const messages = ofType(await eventsOf(session), 'message_received')
    return messages.length === 10 && messages[9]
  })
  expect((await session.run(message.messageId).result(TIMEOUT)).text).toMatch(/late$/)
  expect(sessionsOf('helper')).toHaveLength(1)
})

it('an agent that fails in the background is reported as a message', async () => {
  const { session } = tree.play(here.pawl, {
    boss,
    helper: () => {
      throw Object.assign(new Error('it is broken'), { name: 'TypeError' })
    },
  })
  await (await session.send('go')).result(TIMEOUT)
  const message = await until('it is told', async () => ofType(await eventsOf(session), 'message_received')[1])
  expect(message.content).toMatch(/^The agent "helper" failed .*broken.*It worked in the background, in session/)
})

it('an interrupt stops the agents of the run in progress, and leaves those of completed runs at work', async () => {
  const open = gate()
  const { session, sessionsOf } = tree.play(here.pawl, {
    boss: async (request) => {
      const said = saidIn(request)
      if (/^(first|second)$/.test(said) && resultsIn(request.messages).length < (said === 'first' ? 1 : 2))
        return passOn(ask('helper', said))({ ...request, messages: [] })
      if (said === 'second') await open.pass()
      return `heard: ${said}`
    },
    helper: async (request) => {
      await open.pass()
      return `${saidIn(request)} is done`
    },
  })
  await (await session.send('first')).result(TIMEOUT)
  const second = await session.send('second')
  await until('both are asked', () => sessionsOf('helper').length === 2)
  const [kept = '', stopped = ''] = sessionsOf('helper')
  await session.interrupt({ by: 'ann' })
  expect((await second.settled(TIMEOUT)).status).toBe('interrupted')
  await until('it has stopped', async () => ofType(await eventsOf(here.pawl.session(stopped)), 'run_interrupted').length === 1)
  open.open()
  const messages = await until('the other has answered', async () => {
    const all = ofType(await eventsOf(session), 'message_received')
    return all.length === 3 && all
  })
  expect(messages[2]).toMatchObject({ answers: { session: kept } })
})

it('a regeneration finds the agent that is at work, and its answer arrives once', async () => {
  const open = gate()
  const { session, count } = tree.play(here.pawl, {
    boss,
    helper: async () => {
      await open.pass()
      return 'once'
    },
  })
  await (await session.send('go')).result(TIMEOUT)
  await until('the helper is asked', () => count('helper') === 1)
  await (await session.regenerate({ by: 'ann' })).result(TIMEOUT)
  open.open()
  await until('the answer has arrived', async () => ofType(await eventsOf(session), 'message_received').some(({ answers }) => answers))
  await until('it is at rest', async () => (await session.state()).status === 'idle')
  expect(ofType(await eventsOf(session), 'message_received').filter(({ answers }) => answers)).toHaveLength(1)
  expect(count('helper')).toBe(1)
})

it('an equal call after a failure asks the agent again, and its answer arrives', async () => {
  const told = gate()
  const { session, sessionsOf, count } = tree.play(here.pawl, {
    boss: async (request) => {
      const results = resultsIn(request.messages).length
      if (results === 1) await told.pass()
      if (results === 0 || results === 2) return passOn(ask('helper', 'find out'))({ ...request, messages: [] })
      // A call in between, so that the same run sees the report.
      return results === 1 ? calls('pay', { what: 'small' }) : `heard: ${saidIn(request)}`
    },
    helper: () => {
      if (count('helper') === 1) throw Object.assign(new Error('it is broken'), { name: 'TypeError' })
      return 'it works now'
    },
  })
  const run = await session.send('go')
  await until('it is told', async () => ofType(await eventsOf(session), 'message_received').length === 2)
  told.open()
  await run.result(TIMEOUT)
  const message = await until('the answer has arrived', async () => ofType(await eventsOf(session), 'message_received')[2])
  expect(message).toMatchObject({ answers: { session: sessionsOf('helper')[0], callId: 't_1_3_0' } })
  expect((await session.run(message.messageId).result(TIMEOUT)).text).toMatch(/it works now$/)
  expect((await session.status()).waitsFor).toEqual([{ for: 'message' }])
})

it('a regeneration of an interrupted run asks the agent again that the interrupt has stopped', async () => {
  const open = gate()
  let isFirst = true
  const { session, sessionsOf, count } = tree.play(here.pawl, {
    boss: async (request) => {
      const answer = await boss(request)
      if (typeof answer !== 'string' || !isFirst) return answer
      isFirst = false
      await open.pass()
      return answer
    },
    helper: async () => {
      if (count('helper') === 1) await open.pass()
      return `answer ${count('helper')}`
    },
  })
  const run = await session.send('go')
  const [helper = ''] = await until('the helper is asked', () => sessionsOf('helper').length === 1 && sessionsOf('helper'))
  await session.interrupt({ by: 'ann' })
  expect((await run.settled(TIMEOUT)).status).toBe('interrupted')
  await until('it has stopped', async () => ofType(await eventsOf(here.pawl.session(helper)), 'caller_told').length === 1)
  const again = await session.regenerate({ by: 'ann' })
  open.open()
  await again.result(TIMEOUT)
  const message = await until('the answer has arrived', async () => ofType(await eventsOf(session), 'message_received')[1])
  expect(message.content).toMatch(/answer 2$/)
  expect(sessionsOf('helper')).toEqual([helper])
})

it('a rollback to before the call stops the agent, whose answer does not arrive', async () => {
  const open = gate()
  const { session, sessionsOf } = tree.play(here.pawl, {
    boss,
    helper: async () => {
      await open.pass()
      return 'too late'
    },
  })
  await (await session.send('go')).result(TIMEOUT)
  const [helper = ''] = await until('the helper is asked', () => sessionsOf('helper').length === 1 && sessionsOf('helper'))
  await session.rollback({ run: 1, by: 'ann' })
  await until('it has stopped', async () => ofType(await eventsOf(here.pawl.session(helper)), 'run_interrupted').length === 1)
  open.open()
  await until('it has reported', async () => ofType(await eventsOf(here.pawl.session(helper)), 'caller_told').length === 1)
  expect(ofType(await eventsOf(session), 'message_received')).toHaveLength(1)
  expect((await session.status()).waitsFor).toEqual([{ for: 'message' }])
})

it('a session is told that an agent was erased while it worked in the background, and waits for it no longer', async () => {
  const id = `erases-${randomUUID()}`
  const open = gate()
  const { session, sessionsOf } = tree.play(
    here.pawl,
    {
      boss,
      helper: async () => {
        await open.pass()
        return 'too late'
      },
    },
    { id },
  )
  await startImpatient(here, id)
  await session.run('m').result(TIMEOUT)
  const [helper = ''] = await until('the helper is asked', () => sessionsOf('helper').length === 1 && sessionsOf('helper'))
  await here.pawl.erase(helper, { by: 'ann', force: true })
  open.open()
  const told = await until('the session is told', async () => ofType(await eventsOf(session), 'message_received')[1])
  expect(told).toMatchObject({ by: 'agent:helper', answers: { session: helper, callId: 't_1_1_0' } })
  expect(told.content).toMatch(/^The agent "helper" failed \(session_erased\)\. Its session was erased before it answered\./)
  await session.run(told.messageId).result(TIMEOUT)
  expect((await session.status()).waitsFor).toEqual([{ for: 'message' }])
  expect((await here.pawl.sessions.get(helper))?.erasedAt).toBeInstanceOf(Date)
})

it('a session whose workflow is reset while it asks an agent hears the answer, once', { timeout: 120_000 }, async () => {
  const open = gate()
  const asks = gate()
  const { id, session, count } = tree.play(here.pawl, {
    boss: async (request) => {
      if (resultsIn(request.messages).length === 0) void asks.pass()
      return boss(request)
    },
    helper: async () => {
      await open.pass()
      return 'found'
    },
  })
  const workflow = here.temporal.workflow.getHandle(workflowIdOf(id))
  const run = await session.send('go')
  await asks.reached
  // Signals that mean nothing make workflow tasks while the question is on its way.
  for (let n = 0; n < 150 && count('helper') === 0; n++) await workflow.signal('report', {})
  await run.result(TIMEOUT)
  const { events = [] } = await workflow.fetchHistory()
  const all = events ?? []
  const asked = all.findIndex((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'askChildren')
  const done = all.findIndex(
    ({ activityTaskCompletedEventAttributes: one }) => one && String(one.scheduledEventId) === String(all[asked]?.eventId),
  )
  const task = all.findIndex(({ workflowTaskStartedEventAttributes: one }, at) => one && at > asked && at < done)
  const finished = all.slice(task).find(({ workflowTaskCompletedEventAttributes: one }) => one)
  expect(task, 'no workflow task while the question was on its way').toBeGreaterThan(0)
  await here.temporal.workflowService.resetWorkflowExecution({
    namespace: here.stack.namespace,
    workflowExecution: { workflowId: workflowIdOf(id), runId: (await workflow.describe()).runId },
    reason: 'a test',
    workflowTaskFinishEventId: finished?.eventId ?? null,
    requestId: randomUUID(),
  })
  open.open()
  const message = await until('the answer has arrived', async () => ofType(await eventsOf(session), 'message_received')[1], 60_000)
  expect((await session.run(message.messageId).result(TIMEOUT)).text).toMatch(/found$/)
  await until('the question that was on its way has arrived, too', async () => {
    const since = (await workflow.fetchHistory()).events ?? []
    const ids = since.filter((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'askChildren')
    const ended = since.filter(({ activityTaskCompletedEventAttributes: one }) =>
      ids.some(({ eventId }) => String(eventId) === String(one?.scheduledEventId)),
    )
    return ended.length >= 1
  })
  expect((await (await session.send('still there?')).result(TIMEOUT)).text).toBe('heard: still there?')
  expect(ofType(await eventsOf(session), 'message_received').filter(({ answers }) => answers)).toHaveLength(1)
  expect(count('helper')).toBe(1)
})

it('a call is asked again in time, however long another one has been open', async () => {
  const id = `patient-${randomUUID()}`
  const open = gate()
  const { session, count } = tree.play(
    here.pawl,
    {
      boss: (request) =>
        /^(one|two)$/.test(saidIn(request)) && !/started/.test(JSON.stringify(request.messages.at(-1)))
          ? passOn(ask('helper', saidIn(request)))({ ...request, messages: [] })
          : 'ok',
      helper: async () => {
        await open.pass()
        return 'done'
      },
    },
    { id },
  )
  const workflow = here.temporal.workflow.getHandle(workflowIdOf(id))
  const askAgainMs = 1_700
  /** How long the session has waited each time before it asks again. */
  const waits = async () => {
    const { events } = await workflow.fetchHistory()
    const all = (events ?? []).flatMap(({ timerStartedEventAttributes: timer }) =>
      timer ? [Number(timer.startToFireTimeout?.seconds) * 1_000 + (timer.startToFireTimeout?.nanos ?? 0) / 1e6] : [],
    )
    return all.filter((ms) => ms % askAgainMs === 0)
  }
  await startImpatient(here, id, { askAgainMs, text: 'one' })
  await session.run('m').result(TIMEOUT)
  await until('it has asked again', async () => (await waits()).includes(2 * askAgainMs))
  await (await session.send('two')).result(TIMEOUT)
  await until('the second one is asked', () => count('helper') === 2)
  await until('it waits anew', async () => (await waits()).filter((ms) => ms === askAgainMs).length === 2)
  open.open()
})

it('what agents in the background may spend is reserved, and the limit of the root holds', async () => {
  const other = await deploy()
  const price = { maxTokens: 100, price: { input: 0, output: 100 } }
  const usage = { input_tokens: 0, output_tokens: 100, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
  const rich = treeStage({
    boss: { sessionLimits: { maxUsd: 0.1 } },
    call: { background: true, budget: { maxUsd: 0.05 } } as never,
    model: price,
  })
  await other.startWorker({ agents: rich.agents })
  const open = gate()
  const { session } = rich.play(other.pawl, {
    boss: async (request) => {
      const answer = await boss(request)
      return { content: typeof answer === 'string' ? [{ type: 'text', text: answer }] : (answer as never), usage }
    },
    helper: async () => {
      await open.pass()
      return { content: [{ type: 'text', text: 'done' }], usage }
    },
  })
  await (await session.send('go')).result(TIMEOUT)
  const leftOf = async () => (await session.budgets()).find(({ scope }) => scope === 'session')?.left
  expect(await leftOf()).toBeCloseTo(0.1 - 2 * 0.01 - 0.05)
  open.open()
  await until('the answer has been heard', async () => (await session.state()).run === 2 && (await session.state()).current === null)
  // Three answers of the boss and one of the helper.
  expect(await leftOf()).toBeCloseTo(0.1 - 4 * 0.01)
  await other.stop()
})
