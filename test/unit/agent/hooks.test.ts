// What hooks may be declared with, and how their answers rank.
import { DeclarationError, defineAgent, defineHook, defineTool } from 'pawl'
import { scripted } from 'pawl/testing'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { ranked } from '../../../src/session/hooks/hooks.ts'
import type { HookRun } from '../../../src/session/hooks/hooks.ts'

const run = () => undefined
const look = defineTool({ name: 'look', description: 'Looks.', input: z.object({}), effect: 'read', execute: run })

function refused(declare: () => unknown): [code: string, message: string] {
  try {
    declare()
  } catch (error) {
    if (error instanceof DeclarationError) return [error.code, error.message]
    throw error
  }
  return expect.fail('it was accepted')
}

const hook = (options: object) => defineHook(options as never)
const agent = (...hooks: unknown[]) =>
  defineAgent({ name: 'a', instructions: '', model: scripted(() => ''), tools: [look], hooks } as unknown as Parameters<
    typeof defineAgent
  >[0])

describe('a hook is refused when it is declared', () => {
  it.each([
    ['an unknown event', { on: 'turnStop', run }, '`on` must be '],
    ['no function', { on: 'turnStart' }, '`run` is required'],
    [
      'a name with a space',
      { on: 'turnStart', name: 'a b', run },
      '`name` must be a letter followed by up to 63 characters of [A-Za-z0-9_-], not "a b".',
    ],
    ['an expression in text', { on: 'preToolUse', tools: '^refund_', run }, '`tools` must be the name of a tool'],
    ['an expression with a state', { on: 'preToolUse', tools: /a/g, run }, 'without the flags g and y'],
    ['an empty list', { on: 'preToolUse', tools: [], run }, 'or a list of these, not [].'],
    ['tools of a turn', { on: 'turnStart', tools: 'look', run }, "tools applies only to hooks of calls, not to 'turnStart'"],
    ['onError of another event', { on: 'postToolUse', onError: 'ask', run }, "onError applies only to 'preToolUse'"],
    ['a long timeout', { on: 'turnStart', timeout: '1h', run }, 'at most 10 minutes'],
    ['an unknown option', { on: 'turnStart', tool: 'look', run }, 'did you mean tools?'],
  ])('a hook is refused when it is declared with %s', (_what, options, problem) => {
    const [code, message] = refused(() => hook(options))
    expect(code).toBe('invalid_hook')
    expect(message).toContain(problem)
  })

  it('a hook is refused with another hook’s name, for a tool that the agent lacks, or if defineHook did not make it', () => {
    const named = hook({ on: 'turnStart', name: 'one', run })
    expect(refused(() => agent(named, hook({ on: 'turnEnd', name: 'one', run })))).toEqual([
      'duplicate_hook',
      'Agent "a" has two hooks named "one". Rename one.',
    ])
    expect(refused(() => agent(hook({ on: 'preToolUse', tools: 'lok', run })))).toEqual([
      'invalid_agent',
      'Agent "a": its hook "preToolUse" names the tool "lok", which the agent does not have. Correct the name, or add the tool.',
    ])
    expect(refused(() => agent({ on: 'turnStart', run }))[1]).toContain('hooks[0] is not a hook. Create it with defineHook.')
  })
})

it('hooks without a name are named after their event', () => {
  const { hooks } = agent(
    hook({ on: 'turnStart', run }),
    hook({ on: 'turnStart', run }),
    hook({ on: 'preToolUse', tools: [/o/, 'look'], run }),
  )
  expect(hooks.map(({ name }) => name)).toEqual(['turnStart', 'turnStart_2', 'preToolUse'])
})

describe('among the answers at one place', () => {
  const about = { on: 'turnStart', turn: 1, attempt: 1 } as const
  const used = (...answers: HookRun['answer'][]) =>
    ranked(answers.map((answer, index) => ({ ...about, hook: `h${index}`, ...(answer && { answer }) })))
      .filter(({ answer, overruled }) => answer && !overruled)
      .map(({ hook: name }) => name)

  it('of several hooks’ answers, the strongest is used, and the first among equals', () => {
    expect(used({ appendContext: 'a' }, { systemMessage: 'b' }, { stop: 'c' }, { stop: 'd' })).toEqual(['h2'])
    expect(used({ appendContext: 'a' }, undefined, { systemMessage: 'b' })).toEqual(['h2'])
    expect(used({ modify: {} }, { deny: 'no' }, { modify: {} })).toEqual(['h1'])
    expect(used(undefined, { modify: {} }, { modify: { a: 1 } })).toEqual(['h1'])
    expect(used(undefined, undefined)).toEqual([])
  })
})
