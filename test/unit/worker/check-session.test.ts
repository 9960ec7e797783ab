// What a preflight says about open sessions, given the agents and tools of the new build.
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { agentTool } from '../../../src/agent/agent-tool.ts'
import type { Agent } from '../../../src/agent/agent.ts'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import { defineTool } from '../../../src/agent/define-tool.ts'
import type { ToolOptions } from '../../../src/agent/tool.ts'
import { scripted } from '../../../src/testing/scripted.ts'
import { agentCallsIn } from '../../../src/worker/executor/check-agent-calls.ts'
import { checkSession } from '../../../src/worker/executor/check-session.ts'
import type { UnfinishedCall, ReplayedSession } from '../../../src/worker/protocol.ts'

const happened = (): { happened: false } => ({ happened: false })

/** The tool with which the calls below were resolved. */
const BEFORE: ToolOptions = {
  name: 'pay',
  description: 'Pays.',
  input: z.object({ cents: z.number() }),
  effect: 'idempotent',
  execute: () => 'paid',
}

const agent = (tool: Partial<ToolOptions> | undefined, context?: z.ZodType): Agent =>
  defineAgent({
    name: 'clerk',
    instructions: '',
    model: scripted(() => 'hello'),
    tools: tool ? [defineTool({ ...BEFORE, ...tool } as ToolOptions)] : [],
    ...(context && { context }),
  }) as Agent

const before = agent({}).tools.get('pay') ?? expect.fail('no tool')

function call(status: UnfinishedCall['status'], more: Partial<UnfinishedCall['resolution']> = {}): UnfinishedCall {
  const { effect, schemaDigest } = before
  return { callId: 't_1_1_0', status, input: { cents: 5 }, resolution: { tool: 'pay', effect, schemaDigest, verify: false, ...more } }
}

async function codesFor(now: Agent, session: Partial<ReplayedSession>): Promise<string[]> {
  const warnings = await checkSession(new Map([[now.name, now]]), { agent: 'clerk', context: null, calls: [], ...session })
  return warnings.map(({ code }) => code)
}

describe('calls of other agents', () => {
  const named = (name: string, tools: readonly unknown[] = [], more: object = {}): Agent =>
    defineAgent({ name, instructions: '', model: scripted(() => 'hello'), tools, ...more } as never) as Agent
  const mapOf = (...agents: Agent[]) => new Map(agents.map((one) => [one.name, one]))
  const tenant = z.object({ tenant: z.string() })

  it('calls of other agents are listed with whether the module has the agent', () => {
    const helper = named('helper')
    const boss = named('boss', [agentTool(helper), agentTool(named('far'), { taskQueue: 'elsewhere' })])
    expect(agentCallsIn(mapOf(boss, helper))).toEqual([
      { agent: 'boss', tool: 'helper', child: 'helper', isServed: true },
      { agent: 'boss', tool: 'far', child: 'far', isServed: false, taskQueue: 'elsewhere' },
    ])
  })

  it('calls of other agents that lead back to the agent are listed with the circle', () => {
    const boss = named('boss', [agentTool(named('helper'))])
    const helper = named('helper', [agentTool(named('clerk'))])
    const clerk = named('clerk', [agentTool(named('boss'))])
    const cycles = agentCallsIn(mapOf(boss, helper, clerk)).map(({ cycle }) => cycle)
    expect(cycles[0]).toEqual(['boss', 'helper', 'clerk', 'boss'])
    expect(agentCallsIn(mapOf(boss, helper)).map(({ cycle }) => cycle)).toEqual([undefined, undefined])
  })

  it('a session gets a warning if an agent that it calls with its context would refuse that', async () => {
    const strict = named('strict', [], { context: tenant })
    const plain = named('clerk', [agentTool(strict as never)])
    const mapping = named('clerk', [agentTool(strict as never, { context: () => ({ tenant: 'a' }) } as never)])
    const session = { agent: 'clerk', context: null, calls: [] }
    expect(await checkSession(mapOf(plain, strict), session)).toMatchObject([{ code: 'invalid_context', agent: 'clerk', tool: 'strict' }])
    expect(await checkSession(mapOf(plain, strict), { ...session, context: { tenant: 'a' } })).toEqual([])
    expect(await checkSession(mapOf(mapping, strict), session)).toEqual([])
  })

  it('a session whose call another agent answers gets no warning that a client must answer it', async () => {
    const helper = named('helper')
    const boss = named('clerk', [agentTool(helper, { name: 'pay', input: z.object({ cents: z.number() }) })])
    const { schemaDigest } = boss.tools.get('pay') ?? expect.fail('no tool')
    const client = { agent: { name: 'helper' } }
    const calls = [call('issued', { client, schemaDigest }), call('awaiting_answer', { client, schemaDigest })]
    expect(await checkSession(mapOf(boss, helper), { agent: 'clerk', context: null, calls })).toEqual([])
    expect(await checkSession(mapOf(named('clerk')), { agent: 'clerk', context: null, calls: calls.slice(1) })).toEqual([])
  })
})

describe('a session', () => {
  it('a session without open calls gets no warning, even if its tools changed', async () => {
    expect(await codesFor(agent(undefined), {})).toEqual([])
  })

  it('a session whose agent is not served gets a warning about that, and none about its calls', async () => {
    expect(await codesFor(agent({}), { agent: 'other', calls: [call('issued')] })).toEqual(['agent_not_served'])
  })

  it('a session gets a warning if its context no longer matches the schema, or cannot be checked', async () => {
    const context = z.object({ tenant: z.string() })
    expect(await codesFor(agent({}, context), { context: { tenant: 'a' } })).toEqual([])
    expect(await codesFor(agent({}, context), { context: null })).toEqual(['invalid_context'])
    const throwing = context.refine(() => {
      throw new Error('the check broke')
    })
    expect(await codesFor(agent({}, throwing), { context: { tenant: 'a' } })).toEqual(['invalid_context'])
  })

  it('a session also gets a warning about its context from asynchronous checks', async () => {
    const context = z.object({ tenant: z.string() }).refine(({ tenant }) => Promise.resolve(tenant === 'a'))
    expect(await codesFor(agent({}, context), { context: { tenant: 'a' } })).toEqual([])
    expect(await codesFor(agent({}, context), { context: { tenant: 'b' } })).toEqual(['invalid_context'])
  })

  it('a session gets a warning that names the agent, the tool and the call', async () => {
    const session = { agent: 'clerk', context: null, calls: [call('issued')] }
    const [warning] = await checkSession(new Map([['clerk', agent(undefined)]]), session)
    expect(warning).toEqual({
      code: 'tool_not_served',
      message: expect.stringContaining('two minutes'),
      agent: 'clerk',
      tool: 'pay',
      callId: 't_1_1_0',
    })
  })
})

describe('a call that is executed, or will be', () => {
  const verify = { effect: 'external', verify: happened } as const

  it.each([
    ['the tool is unchanged', {}, {}, []],
    ['the tool is gone', undefined, {}, ['tool_not_served']],
    ['clients answer it now', { execute: 'client' }, {}, ['answered_by_client']],
    ['its schema has changed', { input: z.object({ cents: z.number(), why: z.string().optional() }) }, {}, ['schema_changed']],
    ['its arguments no longer match', { input: z.object({ cents: z.string() }) }, {}, ['arguments_do_not_match']],
    [
      'a check that no schema shows refuses them',
      { input: z.object({ cents: z.number().refine((n) => n > 9) }) },
      {},
      ['arguments_do_not_match'],
    ],
    ['its effect is stricter', { effect: 'external' }, {}, ['effect_stricter']],
    ['its effect is less strict', { effect: 'read' }, {}, []],
    ['it still has a verify', verify, { effect: 'external', verify: true }, []],
    ['it no longer has a verify', { effect: 'external' }, { effect: 'external', verify: true }, ['verify_removed']],
  ] as [string, Partial<ToolOptions> | undefined, Partial<UnfinishedCall['resolution']>, string[]][])(
    'a call that is executed, or will be, gets its warnings if %s',
    async (_, now, resolution, codes) => {
      for (const status of ['requested', 'issued', 'awaiting_approval'] as const) {
        expect(await codesFor(agent(now), { calls: [call(status, resolution)] })).toEqual(codes)
      }
    },
  )
})

describe('a call that waits for a client', () => {
  it('a call that waits for a client needs the tool for the answer, but not its schema', async () => {
    const calls = [call('awaiting_answer', { client: {} })]
    expect(await codesFor(agent({ input: z.object({}) }), { calls })).toEqual([])
    expect(await codesFor(agent(undefined), { calls })).toEqual(['tool_not_served'])
  })
})

describe('a call whose outcome is unknown', () => {
  const unknown = (status: 'unknown' | 'awaiting_resolution') => [call(status, { effect: 'external', verify: true })]

  it.each(['unknown', 'awaiting_resolution'] as const)(
    'a call whose outcome is unknown and that is %s needs a verify that accepts its arguments',
    async (status) => {
      const calls = unknown(status)
      const external = { effect: 'external', verify: happened } as const
      expect(await codesFor(agent(external), { calls })).toEqual([])
      expect(await codesFor(agent({ ...external, input: z.object({ cents: z.string() }) }), { calls })).toEqual(['arguments_do_not_match'])
      expect(await codesFor(agent({ effect: 'external' }), { calls })).toEqual(['verify_removed'])
      expect(await codesFor(agent(undefined), { calls })).toEqual(['tool_not_served'])
    },
  )

  it('a call whose outcome is unknown and that waits for a person cannot be executed again without the tool', async () => {
    const calls = [call('awaiting_resolution', { effect: 'external', verify: false })]
    expect(await codesFor(agent({ effect: 'external' }), { calls })).toEqual([])
    expect(await codesFor(agent(undefined), { calls })).toEqual(['tool_not_served'])
  })

  it('a call whose outcome is unknown gets no warning if nothing could verify it before', async () => {
    const withoutVerify = [call('unknown', { effect: 'external', verify: false })]
    const { input: _, ...withoutInput } = call('unknown', { effect: 'external', verify: true })
    expect(await codesFor(agent(undefined), { calls: [...withoutVerify, withoutInput] })).toEqual([])
  })
})
