// What `compaction` and `contextWindow` may be, and which windows are known.
import { describe, expect, it } from 'vitest'
import { contextWindowOf } from '../../../src/agent/context-windows.ts'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import { DeclarationError } from '../../../src/agent/errors.ts'
import type { Model } from '../../../src/agent/model.ts'
import { aiSdk } from '../../../src/models/ai-sdk.ts'
import { anthropic } from '../../../src/models/anthropic.ts'
import { scripted } from '../../../src/testing/scripted.ts'

const windowed = scripted(() => '', { contextWindow: 1_000 })
const unknown = scripted(() => '')
const agent = (options: object) => defineAgent({ name: 'a', instructions: '', model: windowed, ...options })

function refusal(declare: () => unknown): string {
  try {
    declare()
  } catch (error) {
    expect(error).toBeInstanceOf(DeclarationError)
    return (error as Error).message
  }
  return 'accepted'
}

describe('the compaction option', () => {
  it('the compaction option has defaults, and compaction is off without it', () => {
    expect(agent({ compaction: true }).compaction).toEqual({ at: 0.8, keepTurns: 4 })
    expect(agent({ compaction: { keepTurns: 1 } }).compaction).toEqual({ at: 0.8, keepTurns: 1 })
    expect(agent({}).compaction).toBeUndefined()
  })

  it.each([
    [{ at: 0 }, 'Agent "a": `compaction.at` must be a number above 0 and below 1, not 0.'],
    [{ at: 1 }, 'Agent "a": `compaction.at` must be a number above 0 and below 1, not 1.'],
    [{ at: '80%' }, 'Agent "a": `compaction.at` must be a number above 0 and below 1, not "80%".'],
    [{ keepTurns: 0 }, 'Agent "a": `compaction.keepTurns` must be an integer from 1, not 0.'],
    [{ summarise: 'short' }, 'Agent "a": `compaction.summarise` must be a function that returns a string, not "short".'],
    [{ model: '' }, expect.stringContaining('`compaction.model` must be a Claude model')],
    [{ keep: 4 }, expect.stringContaining('There is no option compaction.keep')],
    [false, 'Agent "a": `compaction` must be true, or { at, keepTurns, model, summarise }, not false.'],
    [[], 'Agent "a": `compaction` must be true, or { at, keepTurns, model, summarise }, not [].'],
  ])('the compaction option refuses %j', (compaction, message) => {
    expect(refusal(() => agent({ compaction }))).toEqual(message)
  })
})

describe('the window of a model', () => {
  it('compaction requires a known window for every model that is known when the agent is declared', () => {
    const needs = (option: string) =>
      `Agent "a": compaction needs the context window of ${option} (scripted), which pawl does not know. Declare it with its contextWindow.`
    expect(refusal(() => agent({ model: unknown, compaction: true }))).toBe(needs('model'))
    expect(refusal(() => agent({ fallback: [windowed, unknown], compaction: true }))).toBe(needs('fallback[1]'))
    expect(refusal(() => agent({ compaction: { model: unknown } }))).toBe(needs('compaction.model'))
    expect(refusal(() => agent({ model: 'claude-of-tomorrow', compaction: true }))).toContain(
      'anthropic("claude-of-tomorrow", { contextWindow })',
    )
    expect(refusal(() => agent({ model: 'claude-sonnet-4-5', compaction: true }))).toBe('accepted')
    expect(refusal(() => agent({ model: () => unknown, compaction: true }))).toBe('accepted')
    expect(refusal(() => agent({ model: unknown }))).toBe('accepted')
  })

  it.each([0, -1, 1.5, Number.NaN, '200000', null])(
    'a model with the context window %j is refused when it is declared',
    (contextWindow) => {
      const model = { ...windowed, contextWindow } as unknown as Model
      expect(refusal(() => agent({ model }))).toContain('the contextWindow of model (scripted) must be an integer from 1')
      expect(refusal(() => anthropic('claude-x', { contextWindow: contextWindow as number }))).toContain(
        '`contextWindow` must be an integer from 1',
      )
      const language = { specificationVersion: 'v4', provider: 'p', modelId: 'm', supportedUrls: {}, doStream: () => undefined }
      expect(refusal(() => aiSdk(language as never, { contextWindow: contextWindow as number }))).toContain(
        '`contextWindow` must be an integer from 1',
      )
    },
  )

  it('the window of a model is known for dated names, and a declared window takes precedence', () => {
    expect(contextWindowOf('claude-haiku-4-5-20251001')).toBe(200_000)
    expect(contextWindowOf('gpt-4o-2024-08-06')).toBe(128_000)
    expect(contextWindowOf('claude-3-5-sonnet-latest')).toBe(200_000)
    expect(contextWindowOf('claude-haiku-4-5-turbo')).toBeUndefined()
    expect(anthropic('claude-sonnet-5-5').contextWindow).toBe(1_000_000)
    expect(anthropic('claude-sonnet-5-5', { contextWindow: 200_000 }).contextWindow).toBe(200_000)
    expect(anthropic('claude-x')).not.toHaveProperty('contextWindow')
  })
})
