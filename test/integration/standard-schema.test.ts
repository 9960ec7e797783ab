// A session whose agent has schemas from three libraries: tools, context and results behave alike, whichever library checks them.
import { randomUUID } from 'node:crypto'
import { toStandardJsonSchema } from '@valibot/to-json-schema'
import { type } from 'arktype'
import { type Agent, defineAgent, defineTool, type JsonObject } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import * as v from 'valibot'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, resultsIn } from '../support/scenes.ts'

const entered: { sessionId: string; tool: string; input: unknown }[] = []
const body = (tool: string) => (input: unknown, ctx: { sessionId: string }) => {
  entered.push({ sessionId: ctx.sessionId, tool, input })
  return { found: input }
}

const byValibot = defineTool({
  name: 'by_valibot',
  description: 'Looks.',
  effect: 'read',
  input: toStandardJsonSchema(v.object({ day: v.pipe(v.string(), v.isoDate()), limit: v.optional(v.number(), 10) })),
  output: v.object({ found: v.unknown() }),
  execute: body('by_valibot'),
})
const byArktype = defineTool({
  name: 'by_arktype',
  description: 'Looks.',
  effect: 'read',
  input: type({ count: 'string.integer.parse', limit: 'number = 10' }),
  output: type({ found: 'unknown' }),
  execute: body('by_arktype'),
})

const asked = new Map<string, { name: string; inputs: JsonObject[] }>()
const agent = defineAgent({
  name: 'polyglot',
  instructions: '',
  context: type({ tenant: 'string > 2' }),
  tools: [byValibot, byArktype],
  model: scripted((request) => {
    const { name, inputs } = asked.get(request.sessionId) ?? expect.fail('no such session')
    const input = inputs[answersIn(request)]
    return input ? [{ type: 'tool_use', id: 'toolu_0', name, input }] : JSON.stringify(resultsIn(request))
  }),
})

let here: Deployment
beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [agent as Agent] })
})
afterAll(() => here?.stop())

describe.concurrent.each([
  ['by_valibot', { day: 'tomorrow' }, { day: '2026-11-23' }, { day: '2026-11-23', limit: 10 }, 'at day'],
  ['by_arktype', { count: 'many' }, { count: '3' }, { count: 3, limit: 10 }, 'at count'],
] as const)('a tool checked %s', (name, wrong, right, read, where) => {
  it('a tool reports the issues of wrong arguments to the model, and executes the corrected call', async () => {
    const id = `polyglot-${randomUUID()}`
    asked.set(id, { name, inputs: [wrong, right] })
    const session = here.pawl.session<typeof agent>(id, { agent: 'polyglot', context: { tenant: 'acme' } })
    const { text, run } = await (await session.send('Look.')).result({ timeout: 30_000 })
    expect(run).toBe(1)
    const last = JSON.parse(text) as { content: string; isError: boolean }[]
    expect(last).toMatchObject([{ isError: false, content: JSON.stringify({ found: read }) }])
    expect(entered.filter(({ sessionId }) => sessionId === id)).toEqual([{ sessionId: id, tool: name, input: read }])
    const failed = ofType(await eventsOf(session as SessionHandle), 'tool_failed')
    expect(failed).toMatchObject([{ code: 'invalid_arguments', message: expect.stringContaining(where) }])
  })
})

it('a context that the schema rejects fails the run with the issue, before any model call', async () => {
  const id = `polyglot-${randomUUID()}`
  const session = here.pawl.session<typeof agent>(id, { agent: 'polyglot', context: { tenant: 'x' } })
  const settled = await (await session.send('Look.')).settled({ timeout: 30_000 })
  expect(settled).toMatchObject({ status: 'failed', code: 'invalid_context', reason: expect.stringContaining('at tenant') })
})
