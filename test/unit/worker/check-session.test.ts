// What a preflight says about open sessions, given the agents and tools of the new build.
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Agent } from '../../../src/agent/agent.ts'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import { defineTool } from '../../../src/agent/define-tool.ts'
import type { ToolOptions } from '../../../src/agent/tool.ts'
import { scripted } from '../../../src/testing/scripted.ts'
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
