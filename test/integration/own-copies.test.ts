// User code that changes what it is given: a Model, its hooks, tools, slices and sections see what they would see if nothing had been changed.
import { randomUUID } from 'node:crypto'
import { type Agent, defineAgent, defineHook, defineSlice, defineTool, type ModelRequest } from 'pawl'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf } from '../support/events.ts'

const TIMEOUT = { timeout: 20_000 }

let here: Deployment
beforeAll(async () => {
  here = await deploy()
})
afterAll(() => here?.stop())

/** Overwrites everything that can be reached from the value and is data. */
function spoil(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return
  const object = value as Record<string, unknown>
  for (const [name, part] of Object.entries(object)) {
    if (typeof part === 'object') spoil(part)
    else if (typeof part === 'string') object[name] = 'spoiled'
    else if (typeof part === 'number') object[name] = -1
  }
  if (Array.isArray(value)) value.push('spoiled')
  else object.spoiled = true
}

/** What each piece of user code was given, in order. */
type Seen = [what: string, given: string][]

/** An agent with user code of every kind. `spoils`: all of it changes its arguments after it has looked at them. */
function agentThat(name: string, seen: Seen, spoils: boolean): Agent {
  const look = (what: string, ...given: unknown[]): void => {
    seen.push([what, JSON.stringify(given)])
    if (spoils) for (const one of given) spoil(one)
  }
  const data = (ctx: { context: unknown; metadata: unknown; tags: unknown }) => [ctx.context, ctx.metadata, ctx.tags]
  const input = z.object({ to: z.any(), cents: z.number() })
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input,
    effect: 'external',
    approval(given, ctx) {
      look('approval', given, ...data(ctx))
      return false
    },
    idempotency(given) {
      const key = JSON.stringify(given)
      look('idempotency', given)
      return key
    },
    execute(given, ctx) {
      look('execute', given, ...data(ctx))
      const result = { paid: 1, card: { number: '4242' } }
      ctx.emit('paid', result)
      ctx.progress(result)
      return result
    },
    effectId(result) {
      look('effectId', result)
      return 'e-1'
    },
    toModel(result, ctx, given) {
      look('toModel', result, given, ...data(ctx))
      return `paid ${typeof result}`
    },
  })
  const hook = (on: 'agentStart' | 'turnStart' | 'preToolUse' | 'postToolUse' | 'turnEnd' | 'agentStop') =>
    defineHook({ on, name: on, run: (given, ctx) => look(on, given, ...data(ctx)) })
  const paid = defineSlice({
    name: 'paid',
    version: 1,
    schema: z.object({ calls: z.array(z.any()) }),
    initial: { calls: [] },
    on: {
      tool_completed(value, event) {
        const calls = [...value.calls, structuredClone(event.value)]
        look('reducer', event.value)
        return { calls }
      },
    },
  })
  return defineAgent({
    name,
    context: z.object({ tenant: z.object({ id: z.string() }) }),
    instructions(view, ctx) {
      look('instructions', view.state.turns, view.slices, ...data(ctx))
      if (spoils) spoil(view)
      return 'Pay.'
    },
    sections: [
      (view, ctx) => {
        look('section', view.plan, view.memory, ...data(ctx))
        if (spoils) spoil(view)
        return 'a section'
      },
    ],
    slices: [paid],
    hooks: [hook('agentStart'), hook('turnStart'), hook('preToolUse'), hook('postToolUse'), hook('turnEnd'), hook('agentStop')],
    model: (ctx) => {
      look('model', ...data(ctx))
      return scripted((request: ModelRequest) => {
        const { messages, system, tools } = request
        const said = messages.length
        look('request', messages, system, tools)
        if (spoils) spoil(request)
        return said === 1
          ? [{ type: 'tool_use', id: 'toolu_1', name: 'pay', input: { to: { name: 'ann', list: [1] }, cents: 100 } }]
          : `heard ${said}`
      })
    },
    tools: [pay],
  })
}

/** Two messages in a session of the agent. */
async function converse(agent: Agent) {
  const session = here.pawl.session(randomUUID(), { agent: agent.name, context: { tenant: { id: 't' } }, tags: ['a'] })
  await (await session.send('pay ann', { metadata: { page: { url: '/' } } })).result(TIMEOUT)
  await (await session.send('thanks', { metadata: { page: { url: '/2' } } })).result(TIMEOUT)
  const events = (await eventsOf(session)).map((event) => JSON.stringify({ ...event, at: 0 }))
  return events.join('\n').replaceAll(session.id, 'S').replaceAll(agent.name, 'A')
}

it('user code that changes its arguments changes neither the session nor what other user code sees', async () => {
  const undisturbed: Seen = []
  const disturbed: Seen = []
  const agents = [agentThat('plain', undisturbed, false), agentThat('spoiler', disturbed, true)] as const
  await here.startWorker({ agents: [...agents] })
  const wanted = await converse(agents[0])
  const found = await converse(agents[1])
  const asSeen = (seen: Seen) => seen.map(([what, given]) => `${what} ${given.replaceAll(/plain|spoiler/g, 'A')}`)
  expect(asSeen(disturbed)).toEqual(asSeen(undisturbed))
  const withoutIds = (text: string) =>
    text.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}|"(?:digest|promptDigest|epoch)":"[^"]*"|"startedAt":\d+/g, 'x')
  expect(withoutIds(found)).toBe(withoutIds(wanted))
  expect(new Set(undisturbed.map(([what]) => what)).size).toBe(16)
})
