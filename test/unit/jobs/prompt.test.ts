// The prompt of a model call: what ready-made sections say, where their text goes, and what is refused.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { AgentOptions } from '../../../src/agent/agent.ts'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import { defineTool } from '../../../src/agent/define-tool.ts'
import { sections } from '../../../src/agent/prompt.ts'
import type { AgentContext } from '../../../src/agent/tool.ts'
import { renderPrompt, withVolatile } from '../../../src/jobs/model-call/prompt.ts'
import type { ContentBlock, Message } from '../../../src/session/content.ts'
import { initialState } from '../../../src/session/fold/fold.ts'
import { MEMORY as KEPT_MEMORY, PLAN } from '../../../src/session/built-in-tools/kept.ts'
import { workOf } from '../../../src/session/watching/progress.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { sessionStarted } from '../../support/session-started.ts'

const MEMORY = [
  { block: 'customer', maxChars: 100 },
  { block: 'notes', maxChars: 100 },
]

function newState(): SessionState {
  return initialState({ v: 1, seq: 1, at: 1_000, ...sessionStarted({ coreVersion: 2 }) })
}

/** A session with a plan whose first step is done, and a note. */
function worked(): SessionState {
  const steps = [
    { id: 'book', title: 'Book the flight', postconditions: 'There is a code.' },
    { id: 'pay', title: 'Pay' },
    { id: 'mail', title: 'Send the mail' },
  ]
  const made = PLAN.afterChange(undefined, 1, { do: 'setup', objective: 'To Rome', steps })
  const done = PLAN.afterChange(made, 2, { do: 'update_step', id: 'book', status: 'done', evidence: 'Code X7' })
  const plan = PLAN.afterChange(done, 3, { do: 'update_step', id: 'mail', status: 'in_progress' })
  const memory = KEPT_MEMORY.afterChange(undefined, 1, { do: 'append', block: 'notes', text: 'Window seat.' })
  const resolution = { ...UNKNOWN, tool: 'pay_bill' }
  return { ...newState(), plan, memory, unknown: { t_1_2_0: { run: 1, turn: 2, attempt: 1, resolution } } }
}

const UNKNOWN = {
  index: 0,
  effect: 'external',
  inputDigest: 'd',
  schemaDigest: 's',
  timeoutMs: 1,
  retry: { maxRetries: 0, baseDelayMs: 1 },
  verify: false,
} as const

const ctx = { metadata: { from: 'web' }, slices: Object.freeze({}) } as unknown as AgentContext

function rendered(options: Partial<AgentOptions>, state = worked()) {
  return renderPrompt(defineAgent({ name: 'a', model: 'claude', instructions: 'Help.', ...options }), { state }, ctx)
}

const volatileOf = async (options: Partial<AgentOptions>, state?: SessionState) =>
  (await rendered(options, state)).volatile.replace(/^\[From the system, .*\]\n\n/, '')

describe('the ready-made sections', () => {
  it('the ready-made plan section shows everything that is known about the steps', async () => {
    expect(await volatileOf({ plan: true, sections: [sections.plan] })).toBe(
      [
        '# Plan',
        'Objective: To Rome',
        '1. [done] book: Book the flight',
        '   To check: There is a code.',
        '   Evidence: Code X7',
        '2. [pending] pay: Pay',
        '3. [in progress] mail: Send the mail',
      ].join('\n'),
    )
    expect((await rendered({ plan: true, sections: [sections.plan] }, newState())).volatile).toBe('')
  })

  it('the progress section ticks steps that are done, and shows the other steps and calls without an outcome', async () => {
    const options = { plan: true, sections: [sections.progress] } as const
    expect(await volatileOf(options)).toBe(
      [
        '# Progress',
        'Objective: To Rome',
        '✓ Book the flight',
        'Pay (pending)',
        'Send the mail (in progress)',
        'Calls without a known outcome:',
        '- pay_bill (t_1_2_0): unknown',
      ].join('\n'),
    )
    expect(await volatileOf(options, newState())).toBe('# Progress\nNo progress yet. Create a plan to get started.')
  })

  it('the ready-made sections show every block of the memory', async () => {
    expect(await volatileOf({ memory: MEMORY, sections: [sections.memory] })).toBe(
      '# Memory\n<block name="customer">\n(empty)\n</block>\n<block name="notes">\nWindow seat.\n</block>',
    )
  })

  it('the ready-made sections can be reordered, replaced and mixed with functions, and empty text is left out', async () => {
    const text = await volatileOf({
      plan: true,
      memory: MEMORY,
      sections: [
        async ({ memory }) => `Mine: ${memory.notes}`,
        () => ' \n',
        (view, given) => sections.plan(view).replace('# Plan', String(given.metadata.from)),
      ],
    })
    expect(text).toMatch(/^Mine: Window seat\.\n\nweb\nObjective: To Rome\n/)
  })

  it('the ready-made sections default to the memory for an agent that has one, and to nothing for any other', async () => {
    expect(await volatileOf({ memory: MEMORY })).toMatch(/^# Memory/)
    expect(await volatileOf({ memory: MEMORY, sections: [] })).toBe('')
    expect(await volatileOf({ plan: true })).toBe('')
  })
})

describe('instructions and sections', () => {
  it('sections receive what is known about the session, and the guidance of a plan follows the instructions', async () => {
    const { system } = await rendered({
      plan: { guidance: 'Plan well.' },
      memory: MEMORY,
      instructions: ({ state, plan, memory, progress, slices }) =>
        [state.run, plan?.version, memory.notes, progress.done, state.progress.incomplete.length, Object.keys(slices).length].join(' '),
    })
    expect(system).toBe('0 3 Window seat. 1 3 0\n\nPlan well.')
  })

  it('no section can change what the next one sees', async () => {
    const state = worked()
    const before = structuredClone(state)
    const text = await volatileOf(
      {
        plan: true,
        instructions: ({ plan }) => (plan?.steps.splice(0), ''),
        sections: [(view) => String(view.plan?.steps.splice(0).length), ({ plan, progress }) => `${plan?.steps.length} ${progress.done}`],
      },
      state,
    )
    expect(text).toBe('3\n\n3 1')
    expect(state).toEqual(before)
  })

  it('a section that does not return a string fails the call with an explanation', async () => {
    await expect(rendered({ sections: [() => 'ok', (() => 7) as never] })).rejects.toThrow(
      'sections[1] of agent "a" returned a value of type number: return a string.',
    )
    await expect(rendered({ sections: [(() => null) as never] })).rejects.toThrow('sections[0] of agent "a" returned null')
  })

  it('the digest of the prompt changes with the instructions and with the sections', async () => {
    const digests = await Promise.all([
      rendered({}),
      rendered({}),
      rendered({ instructions: 'Help!' }),
      rendered({ sections: [() => 'now'] }),
      rendered({ sections: [() => 'later'] }),
    ])
    expect(new Set(digests.map(({ digest }) => digest)).size).toBe(4)
    expect(digests[0]?.digest).toBe(digests[1]?.digest)
  })

  it('instructions and sections are refused if they are of another type, or show what the agent does not have', () => {
    const declared = (options: object) => () => defineAgent({ name: 'a', model: 'claude', instructions: '', ...options })
    const invalid = (message: string) => expect.objectContaining({ code: 'invalid_agent', message: expect.stringContaining(message) })
    expect(declared({ sections: ['text'] })).toThrow(invalid('a list of functions'))
    expect(declared({ sections: sections.plan })).toThrow(invalid('a list of functions'))
    expect(declared({ sections: [sections.plan] })).toThrow(invalid('sections.plan needs the option plan'))
    expect(declared({ sections: [sections.progress] })).toThrow(invalid('sections.progress needs the option plan'))
    expect(declared({ plan: true, sections: [sections.memory] })).toThrow(invalid('sections.memory needs the option memory'))
  })
})

describe('active tools', () => {
  const tool = (name: string) => defineTool({ name, description: name, input: z.object({}), effect: 'read', execute: () => 'ok' })
  const tools = [tool('look'), tool('refund'), tool('close')]
  const selected = async (names: unknown) => rendered({ tools, activeTools: (() => names) as never })

  it('active tools are those that the agent’s function selects, in the order of their declaration', async () => {
    expect((await selected(['close', 'look', 'close'])).activeTools).toEqual(['look', 'close'])
    expect((await selected([])).activeTools).toEqual([])
    expect((await rendered({ tools })).activeTools).toBeUndefined()
  })

  it('active tools are selected with the view that the prompt is rendered from', async () => {
    const { activeTools } = await rendered({
      tools,
      plan: true,
      memory: MEMORY,
      activeTools: async ({ plan, memory, progress }, { metadata }) =>
        plan?.steps.length === 3 && memory.notes && progress.done === 1 && metadata.from === 'web' ? ['refund'] : [],
    })
    expect(activeTools).toEqual(['refund'])
  })

  it('active tools are part of the prompt’s digest', async () => {
    const all = await Promise.all([selected(['look', 'close']), selected(['close', 'look']), selected(['look']), rendered({ tools })])
    expect(new Set(all.map(({ digest }) => digest)).size).toBe(3)
  })

  it('active tools that the agent does not have fail the call with an explanation', async () => {
    await expect(selected(['look', 'refnd'])).rejects.toThrow(
      'activeTools of agent "a" returned "refnd", but its tools are: look, refund, close.',
    )
    await expect(selected(null)).rejects.toThrow('activeTools of agent "a" returned null: return a list of names.')
    await expect(selected('look')).rejects.toThrow('activeTools of agent "a" returned a value of type string')
  })

  it('active tools are refused if they are a list, because they depend on the session', () => {
    const declared = () => defineAgent({ name: 'a', model: 'claude', instructions: '', tools, activeTools: ['look'] as never })
    expect(declared).toThrow(
      expect.objectContaining({
        code: 'invalid_agent',
        message: expect.stringContaining("a function that returns names, such as () => ['lookup']"),
      }),
    )
  })
})

describe('volatile text', () => {
  const assistant: Message = { role: 'assistant', content: [{ type: 'text', text: 'Hm.' }] }

  it('volatile text is the last block of the user’s last message, and changes no other byte', () => {
    const said = fc.oneof(fc.string(), fc.constant<ContentBlock[]>([{ type: 'text', text: 'x' }]))
    const message: fc.Arbitrary<Message> = fc.oneof(
      fc.constant(assistant),
      fc.record({ role: fc.constant('user' as const), content: said }),
    )
    fc.assert(
      fc.property(fc.array(message, { maxLength: 5 }), (messages) => {
        const before = structuredClone(messages)
        const { messages: placed, volatileBlocks } = withVolatile(messages, 'now')
        expect(messages).toEqual(before)
        const last = messages.at(-1)
        if (last?.role !== 'user') {
          expect([placed, volatileBlocks]).toEqual([messages, undefined])
          return
        }
        const content = typeof last.content === 'string' ? [{ type: 'text', text: last.content }] : last.content
        expect(placed).toEqual([...messages.slice(0, -1), { role: 'user', content: [...content, { type: 'text', text: 'now' }] }])
        expect(volatileBlocks).toBe(1)
      }),
    )
  })

  it('volatile text has the hooks’ text after the sections, all of it behind the breakpoint', () => {
    const { messages, volatileBlocks } = withVolatile([{ role: 'user', content: 'hi' }], 'now', ['be brief', 'be kind'])
    const texts = ['hi', 'now', 'be brief', 'be kind'].map((text) => ({ type: 'text', text }))
    expect(messages).toEqual([{ role: 'user', content: texts }])
    expect(volatileBlocks).toBe(3)
  })

  it('volatile text of hooks alone goes into the message before an answer that the model continues', () => {
    const answer: Message = { role: 'assistant', content: [{ type: 'text', text: 'To be' }] }
    const { messages, volatileBlocks } = withVolatile([{ role: 'user', content: 'hi' }, answer], 'now', ['be brief'])
    const texts = ['hi', 'be brief'].map((text) => ({ type: 'text', text }))
    expect(messages).toEqual([{ role: 'user', content: texts }, answer])
    expect(volatileBlocks).toBeUndefined()
  })

  it('volatile text that is empty leaves a request as it is', () => {
    const messages: Message[] = [{ role: 'user', content: 'hi' }]
    expect(withVolatile(messages, '')).toEqual({ messages })
  })
})

describe('the progress of a session', () => {
  it('a session’s progress lists unfinished steps, open calls, and calls whose outcome is unknown, each once', () => {
    const state = worked()
    const call = { callId: 't_1_2_0', index: 0, resolution: { ...UNKNOWN, tool: 'pay_bill' }, status: 'awaiting_resolution' } as const
    const current = { calls: [call, { ...call, callId: 't_1_2_1', status: 'completed' }] } as unknown as SessionState['current']
    expect(workOf({ ...state, current })).toEqual({
      done: 1,
      steps: 3,
      incomplete: [
        { kind: 'step', id: 'pay', title: 'Pay', status: 'pending' },
        { kind: 'step', id: 'mail', title: 'Send the mail', status: 'in_progress' },
        { kind: 'call', callId: 't_1_2_0', tool: 'pay_bill', status: 'awaiting_resolution' },
      ],
    })
    expect(workOf(newState())).toEqual({ done: 0, steps: 0, incomplete: [] })
  })
})
