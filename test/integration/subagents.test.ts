// Agents that call agents: each call is answered by a session of its own.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { agentTool, DeclarationError, defineAgent } from 'pawl'
import { scripted } from 'pawl/testing'
import pg from 'pg'
import { z } from 'zod'
import { codeOf } from '../support/codes.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { ask, passOn, resultsIn, saidIn, treeStage } from '../support/tree.ts'
import { until } from '../support/until.ts'

let here: Deployment
let database: pg.Client
const tree = treeStage()

const stub = defineAgent({ name: 'cycle', instructions: 'x', model: scripted(() => 'never') })
const cycled: string[] = []
const cycle = defineAgent({
  name: 'cycle',
  instructions: 'x',
  model: scripted((request) => {
    const results = resultsIn(request.messages)
    if (results.length > 0) return `${results[0]}`
    cycled.push(request.sessionId)
    return [{ type: 'tool_use', id: 'u', name: 'cycle', input: { message: 'deeper' } }]
  }),
  tools: [agentTool(stub)],
})

const inner = defineAgent({
  name: 'inner',
  instructions: 'x',
  model: scripted(
    ({ messages }) =>
      `asked ${messages.map(({ content }) => (typeof content === 'string' ? content : (content[0] as { text: string }).text)).join()}`,
  ),
  context: z.object({ tenant: z.string() }),
})
const outer = defineAgent({
  name: 'outer',
  instructions: 'x',
  context: z.object({ tenant: z.string() }),
  model: scripted(({ messages }) =>
    resultsIn(messages).length > 0
      ? resultsIn(messages).join(' | ')
      : [
          { type: 'tool_use', id: 'a', name: 'inner', input: { message: 'plain' } },
          { type: 'tool_use', id: 'b', name: 'mapped', input: { city: 'Rome', days: 2 } },
        ],
  ),
  tools: [
    agentTool(inner),
    agentTool(inner, {
      name: 'mapped',
      input: z.object({ city: z.string(), days: z.number() }),
      context: ({ city }) => ({ tenant: city }),
    }),
  ],
})

const typed = defineAgent({
  name: 'typed',
  instructions: 'x',
  model: scripted(() => [{ type: 'tool_use', id: 'o', name: 'submit_output', input: { total: 3 } }]),
  output: z.object({ total: z.number() }),
})
const caller = defineAgent({
  name: 'caller',
  instructions: 'x',
  model: scripted(({ messages }) => resultsIn(messages)[0] ?? [{ type: 'tool_use', id: 'a', name: 'typed', input: { message: 'sum' } }]),
  tools: [agentTool(typed)],
})

beforeAll(async () => {
  here = await deploy()
  database = new pg.Client(here.stack.databaseUrl)
  await database.connect()
  await here.startWorker({ agents: [...tree.agents, cycle, inner, outer, typed, caller] })
})
afterAll(async () => {
  await database?.end()
  await here?.stop()
})

const TIMEOUT = { timeout: 30_000 }

it('a call of an agent is answered by a session of its own, whose text the caller’s model receives', async () => {
  const { id, session, asked, sessionsOf } = tree.play(here.pawl, { boss: passOn(ask('helper', 'find out')) }, { tags: ['blue'] })
  const run = await session.send('go')
  expect((await run.result(TIMEOUT)).text).toBe('got: helper says: find out')
  const [child = ''] = sessionsOf('helper')
  expect(child).toMatch(new RegExp(`^${id}/[0-9a-f]{12}$`))
  expect(asked.map(({ agent }) => agent)).toEqual(['boss', 'helper', 'boss'])
  const events = await eventsOf(session)
  expect(ofType(events, 'answer_requested')).toMatchObject([
    { callId: 't_1_1_0', tool: 'helper', child: { session: child, agent: 'helper' } },
  ])
  expect(ofType(events, 'answer_received')).toMatchObject([{ by: 'agent:helper' }])
  expect(ofType(events, 'tool_completed')).toMatchObject([{ value: 'helper says: find out' }])
  const key = ofType(events, 'tool_issued')[0]?.key
  const childs = await eventsOf(here.pawl.session(child))
  expect(ofType(childs, 'session_started')).toMatchObject([
    { agent: 'helper', tags: ['blue'], caller: { sessionId: id, key, depth: 1, taskQueue: here.taskQueue } },
  ])
  expect(ofType(childs, 'message_received')).toMatchObject([{ messageId: `${key}#0`, content: 'find out', by: 'agent:boss' }])
  await until('the child has recorded its report', async () => ofType(await eventsOf(here.pawl.session(child)), 'caller_told').length === 1)
  // Also while the child rests, long before anything else happens in it.
  const stored = `select from pawl.events where session_id = $1 and type = 'caller_told'`
  await until('its report is stored', async () => (await database.query(stored, [child])).rowCount === 1)
})

it('the agents of a turn are asked although all questions together, with their context, exceed the limit of one activity', async () => {
  const asks = Array.from({ length: 20 }, (_, n) => ask('helper', `${n} ${'x'.repeat(20_000)}`))
  const context = { note: 'y'.repeat(95_000) } as never
  const { session, sessionsOf } = tree.play(here.pawl, { boss: passOn(...asks), helper: () => 'ok' }, { context })
  const run = await session.send('go')
  expect((await run.result(TIMEOUT)).text).toBe(`got: ${Array(20).fill('ok').join(' | ')}`)
  expect(sessionsOf('helper')).toHaveLength(20)
})

it('the calls of one turn run in parallel, at most 20 at a time, and each has a session of its own', async () => {
  let open = 0
  let most = 0
  const { session, sessionsOf } = tree.play(here.pawl, {
    boss: passOn(...Array.from({ length: 25 }, (_, n) => ask('helper', `part ${n}`))),
    helper: async () => {
      open += 1
      most = Math.max(most, open)
      await new Promise((resolve) => setTimeout(resolve, 300))
      open -= 1
      return 'done'
    },
  })
  const run = await session.send('go')
  expect((await run.result({ timeout: 60_000 })).text).toBe(`got: ${Array(25).fill('done').join(' | ')}`)
  expect(sessionsOf('helper')).toHaveLength(25)
  expect(most).toBeGreaterThan(1)
  expect(most).toBeLessThanOrEqual(20)
})

it('an approval deep in a tree is decided in its own session, and everyone above continues', async () => {
  const { session, sessionsOf, paid, count } = tree.play(here.pawl, {
    boss: passOn(ask('helper', 'pay it')),
    helper: passOn(ask('clerk', 'pay it')),
    clerk: passOn({ tool: 'pay', input: { what: 'rent' } }),
  })
  const run = await session.send('go')
  const clerk = await until('the clerk waits', async () => {
    const [id] = sessionsOf('clerk')
    const state = id && (await here.pawl.session(id).state())
    return state && state.status === 'waiting' && id
  })
  const digest = (await here.pawl.session(clerk).state()).current?.calls[0]?.digest ?? ''
  await here.pawl.session(clerk).approve('t_1_1_0', { digest, by: 'ann' })
  expect((await run.result(TIMEOUT)).text).toBe('got: got: got: paid')
  expect(paid).toEqual([clerk])
  expect([count('boss'), count('helper'), count('clerk')]).toEqual([2, 2, 2])
})

it('an equal call in the same run gets the answer that is there, and a later run asks anew', async () => {
  let answers = 0
  const { session, sessionsOf } = tree.play(here.pawl, {
    boss: ({ messages }) => {
      const seen = resultsIn(messages)
      const isAsked = saidIn({ messages } as never) === 'again' ? seen.length < 3 : seen.length < 2
      return isAsked ? [{ type: 'tool_use', id: `u${seen.length}`, name: 'helper', input: { message: 'same' } }] : `seen ${seen.join(', ')}`
    },
    helper: () => `answer ${++answers}`,
  })
  const run = await session.send('go')
  expect((await run.result(TIMEOUT)).text).toBe('seen answer 1, [idempotent replay of t_1_1_0]\nanswer 1')
  expect(sessionsOf('helper')).toHaveLength(1)
  expect((await (await session.send('again')).result(TIMEOUT)).text).toMatch(/answer 2$/)
  expect(sessionsOf('helper')).toHaveLength(2)
})

it('a client cannot answer a call that a session answers', async () => {
  const { session, sessionsOf } = tree.play(here.pawl, {
    boss: passOn(ask('helper', 'wait')),
    helper: passOn({ tool: 'pay', input: { what: 'rent' } }),
  })
  const run = await session.send('go')
  await until('the helper is asked', () => sessionsOf('helper').length === 1)
  expect(await codeOf(session.answer('t_1_1_0', 'mine'))).toBe('answered_by_agent')
  await session.interrupt({ by: 'ann' })
  await run.settled(TIMEOUT)
})

it('an agent that gives up becomes an error result, and an equal call asks the same session again', async () => {
  let fails = true
  const { session, sessionsOf } = tree.play(here.pawl, {
    boss: ({ messages }) => {
      const results = resultsIn(messages)
      if (results.length === 1) fails = false
      return results.length < 2
        ? [{ type: 'tool_use', id: `u${results.length}`, name: 'helper', input: { message: 'try' } }]
        : results.join(' | ')
    },
    helper: () => {
      if (fails) throw Object.assign(new Error('it is broken'), { name: 'TypeError' })
      return 'works now'
    },
  })
  const run = await session.send('go')
  const { text } = await run.result(TIMEOUT)
  expect(text).toMatch(/^The agent "helper" failed .*broken.* \| works now$/)
  const [child = ''] = sessionsOf('helper')
  expect(sessionsOf('helper')).toHaveLength(1)
  const messages = ofType(await eventsOf(here.pawl.session(child)), 'message_received')
  expect(messages.map(({ messageId }) => messageId.split('#')[1])).toEqual(['0', '1'])
})

it('a cycle of agents ends with an error result at the fifth level', async () => {
  const run = await here.pawl.session(undefined, { agent: 'cycle' }).send('go')
  expect((await run.result({ timeout: 60_000 })).text).toMatch(/levels deep at most/)
  expect(cycled).toHaveLength(6)
})

it('the context of the session that answers is the caller’s, unless the tool maps it; arguments of another shape arrive as JSON', async () => {
  const session = here.pawl.session(undefined, { agent: 'outer', context: { tenant: 'acme' } })
  const run = await session.send('go')
  expect((await run.result(TIMEOUT)).text).toBe('asked plain | asked {"city":"Rome","days":2}')
  const children = ofType(await eventsOf(session), 'answer_requested').map(({ child }) => child?.session ?? '')
  const contexts = await Promise.all(children.map(async (id) => (await here.pawl.session(id).state()).context))
  expect(contexts).toEqual([{ tenant: 'acme' }, { tenant: 'Rome' }])
})

it('an agent with an output returns it as the call’s value', async () => {
  const session = here.pawl.session(undefined, { agent: 'caller' })
  const run = await session.send('go')
  expect((await run.result(TIMEOUT)).text).toBe('{"total":3}')
  expect(ofType(await eventsOf(session), 'tool_completed')).toMatchObject([{ value: { total: 3 } }])
})

it('options that cannot work are refused when the tool is declared', () => {
  const agent = defineAgent({ name: 'a.b', instructions: 'x', model: scripted(() => 'x') })
  expect(agentTool(agent).name).toBe('a_b')
  for (const [given, options] of [
    [{ name: 'no agent' }, undefined],
    [agent, { name: 'not a name!' }],
    [agent, { budget: { maxUsd: -1 } }],
    [agent, { nonsense: true }],
    [agent, { input: z.string() }],
  ] as const) {
    expect(() => agentTool(given as never, options as never)).toThrow(DeclarationError)
  }
})
