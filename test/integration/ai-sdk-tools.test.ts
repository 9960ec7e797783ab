// Sessions whose agents have tools of AI SDK 6 and 7: approvals, generators, client tools and denials, and the guide to them.
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import * as ai6 from 'ai'
import { type Agent, defineAgent, type JsonObject } from 'pawl'
import type { RunHandle, SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { fromAiSdk } from 'pawl/tools'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import * as ai7 from '../ai-sdk-7/ai.ts'
import { orderTools } from '../guides/ai-sdk-tools.ts'
import { digestOf, pendingOf } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, resultsIn } from '../support/scenes.ts'

const TIMEOUT = { timeout: 30_000 }
const fromRoot = (path: string) => new URL(`../../${path}`, import.meta.url)

/** Every body that was entered: the session, the tool, its input and its options. */
const entered: { session: string; tool: string; input: unknown }[] = []
const inputSchema = z.object({ what: z.string() })

/** The same tools in both generations, which say what they are called with. */
function toolsOf(sdk: typeof ai6) {
  const enter = (tool: string, input: unknown, { toolCallId }: { toolCallId: string }) => {
    entered.push({ session: toolCallId.split(':')[0] ?? '', tool, input })
    return input
  }
  return {
    look: sdk.tool({ description: 'Looks.', inputSchema, execute: async (input, options) => enter('look', input, options) }),
    count: sdk.tool({
      description: 'Counts.',
      inputSchema,
      async *execute(input, options) {
        enter('count', input, options)
        yield { done: 1 }
        yield { done: 2, what: input.what }
      },
    }),
    pay: sdk.tool({
      description: 'Pays.',
      inputSchema,
      needsApproval: ({ what }) => what !== 'little',
      execute: async (input, options) => enter('pay', input, options),
      toModelOutput: ({ input, output }) => ({
        type: 'content',
        value: [{ type: 'text', text: `paid ${input.what}, ${JSON.stringify(output)}` }],
      }),
    }),
    checked: sdk.tool({
      description: 'Writes.',
      inputSchema: sdk.jsonSchema<{ n: number }>({ type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }),
      execute: async (input, options) => enter('checked', input, options),
    }),
    ask: sdk.tool({
      description: 'Asks.',
      inputSchema,
      outputSchema: z.object({ answer: z.string() }),
      toModelOutput: ({ input, output }) => ({ type: 'text', value: `${input.what}? ${(output as { answer: string }).answer}` }),
    }),
    ruled: sdk.tool({ description: 'Is ruled.', inputSchema, execute: async (input, options) => enter('ruled', input, options) }),
  }
}

function agentOf(name: string, sdk: typeof ai6): Agent {
  return defineAgent({
    name,
    instructions: '',
    tools: fromAiSdk(toolsOf(sdk), {
      effects: { look: 'read', count: 'idempotent', pay: 'external', checked: 'external', ask: 'read', ruled: 'external' },
      toolApproval: {
        ruled: ({ what }) =>
          what === 'never' ? { type: 'denied', reason: 'it is closed' } : { type: 'user-approval', reason: 'it is late' },
      },
    }),
    // The message says what to call with what.
    model: scripted((request) => {
      if (answersIn(request) > 0) return JSON.stringify(resultsIn(request))
      const [text] = request.messages.map(({ content }) => content)
      const [tool, input] = JSON.parse(String(text)) as [string, JsonObject]
      return [{ type: 'tool_use', id: 'toolu_0', name: tool, input }]
    }),
  }) as Agent
}

let here: Deployment
const refunds = new Map<string, { id: string; cents: number }>()
const shop = {
  find: async (orderId: string) => ({ orderId, cents: 20_000 }),
  async refund(_orderId: string, cents: number, key: string) {
    const refund = { id: `r-${refunds.size + 1}`, cents }
    refunds.set(key, refund)
    return refund
  },
  refundByKey: async (key: string) => refunds.get(key),
}

beforeAll(async () => {
  here = await deploy()
  const guide = defineAgent({
    name: 'guide',
    instructions: '',
    tools: orderTools,
    model: scripted((request) => {
      const steps = [
        { type: 'tool_use' as const, id: 'a', name: 'find_order', input: { orderId: 'A7' } },
        { type: 'tool_use' as const, id: 'b', name: 'refund_order', input: { orderId: 'A7', cents: 20_000 } },
      ]
      const step = steps[answersIn(request)]
      return step ? [step] : JSON.stringify(resultsIn(request))
    }),
  }) as Agent
  await here.startWorker({ agents: [agentOf('six', ai6), agentOf('seven', ai7 as unknown as typeof ai6), guide], services: { shop } })
})
afterAll(() => here?.stop())

describe.concurrent.each(['six', 'seven'])('a session with tools of AI SDK %s', (agent) => {
  async function call(tool: string, input: JsonObject): Promise<{ session: SessionHandle; run: RunHandle; bodies(): unknown[] }> {
    const id = `sdk-${randomUUID()}`
    const session = here.pawl.session(id, { agent }) as SessionHandle
    const run = await session.send(JSON.stringify([tool, input]))
    return { session, run, bodies: () => entered.filter((one) => one.session === id).map((one) => [one.tool, one.input]) }
  }
  const shown = async (run: RunHandle) => JSON.parse((await run.result(TIMEOUT)).text) as unknown

  it(`a session with tools of AI SDK ${agent} gives the model their results`, async () => {
    const { run, bodies } = await call('look', { what: 'A7' })
    expect(await shown(run)).toEqual([{ id: 't_1_1_0', content: '{"what":"A7"}', isError: false }])
    expect(bodies()).toEqual([['look', { what: 'A7' }]])
  })

  it(`a session with tools of AI SDK ${agent} records what a generator yields as progress, and its last value as the result`, async () => {
    const { session, run } = await call('count', { what: 'A7' })
    expect(await shown(run)).toMatchObject([{ content: '{"done":2,"what":"A7"}' }])
    const events = await eventsOf(session)
    expect(ofType(events, 'tool_progress').at(-1)).toMatchObject({ callId: 't_1_1_0', value: { done: 2, what: 'A7' } })
  })

  it(`a session with tools of AI SDK ${agent} waits for the approval that a tool needs`, async () => {
    const { session, run, bodies } = await call('pay', { what: 'much' })
    expect(await pendingOf(run)).toMatchObject([{ kind: 'approval', tool: 'pay', input: { what: 'much' } }])
    expect(bodies()).toEqual([])
    await session.approve('t_1_1_0', { digest: await digestOf(run, 't_1_1_0'), by: 'ann' })
    expect(await shown(run)).toMatchObject([{ content: [{ type: 'text', text: 'paid much, {"what":"much"}' }] }])
    expect(bodies()).toEqual([['pay', { what: 'much' }]])
    const little = await call('pay', { what: 'little' })
    expect(await shown(little.run)).toMatchObject([{ isError: false }])
  })

  it(`a session with tools of AI SDK ${agent} asks a person, or denies the call, as toolApproval says`, async () => {
    const { session, run } = await call('ruled', { what: 'now' })
    expect(await pendingOf(run)).toMatchObject([{ kind: 'approval', reason: 'it is late' }])
    const digest = await digestOf(run, 't_1_1_0')
    const changed = session.approve('t_1_1_0', { digest, by: 'ann', input: { what: 'never' } })
    await expect(changed).rejects.toMatchObject({ code: 'denied_by_hook', message: expect.stringContaining('Reason: it is closed') })
    await session.deny('t_1_1_0', { digest, by: 'ann' })
    expect(await shown(run)).toMatchObject([{ isError: true }])
    const never = await call('ruled', { what: 'never' })
    expect(await shown(never.run)).toMatchObject([{ isError: true, content: expect.stringContaining('Reason: it is closed') }])
    expect(never.bodies()).toEqual([])
    const [row] = await never.session.toolCalls()
    expect(row).toMatchObject({ tool: 'ruled', status: 'denied' })
  })

  it(`a session with tools of AI SDK ${agent} does not enter an external one with wrong arguments`, async () => {
    const { run, bodies } = await call('checked', { n: 'many' })
    expect(await shown(run)).toMatchObject([{ isError: true, content: expect.stringContaining('at n') }])
    expect(bodies()).toEqual([])
  })

  it(`a session with tools of AI SDK ${agent} waits for a client's answer if a tool has no body`, async () => {
    const { session, run } = await call('ask', { what: 'Where' })
    expect(await pendingOf(run)).toMatchObject([{ kind: 'client', tool: 'ask', input: { what: 'Where' } }])
    await expect(session.answer('t_1_1_0', { answer: 7 })).rejects.toMatchObject({ code: 'invalid_answer' })
    await session.answer('t_1_1_0', { answer: 'Springfield' })
    expect(await shown(run)).toMatchObject([{ content: 'Where? Springfield', isError: false }])
  })
})

describe('the guide to tools of the AI SDK', () => {
  it('the guide to tools of the AI SDK shows its example exactly as it runs here', async () => {
    const source = await readFile(fromRoot('test/guides/ai-sdk-tools.ts'), 'utf8')
    const [, snippet = ''] = /\/\/ #region guide\n([\s\S]*)\/\/ #endregion/.exec(source) ?? []
    const printed = snippet.trimEnd().replace('../../src/tools/index.ts', 'pawl/tools')
    expect(await readFile(fromRoot('docs/ai-sdk-tools.md'), 'utf8')).toContain(`\`\`\`ts\n${printed}\n\`\`\``)
  })

  it('the guide to tools of the AI SDK refunds an order once it is approved', async () => {
    const session = here.pawl.session(undefined, { agent: 'guide' }) as SessionHandle
    const run = await session.send('Refund A7.')
    expect(await pendingOf(run)).toMatchObject([{ kind: 'approval', tool: 'refund_order' }])
    await session.approve('t_1_2_0', { digest: await digestOf(run, 't_1_2_0'), by: 'ann' })
    expect((await run.result(TIMEOUT)).text).toContain('Refunded 20000 cents of A7.')
    expect([...refunds.values()]).toEqual([{ id: 'r-1', cents: 20_000 }])
    const [refund] = ofType(await eventsOf(session), 'tool_completed').slice(-1)
    expect(refund).toMatchObject({ callId: 't_1_2_0', effectId: 'r-1' })
  })
})
