// Which metrics events produce, and that no label makes too many time series.
import { describe, expect, it } from 'vitest'
import type { SessionEvent } from '../../../src/session/events.ts'
import { boundedLabels } from '../../../src/telemetry/labels.ts'
import { defined } from '../../../src/session/defined.ts'
import { modelAttributes } from '../../../src/telemetry/attributes.ts'
import { measurementsOf } from '../../../src/telemetry/measure.ts'

const measured = (event: object) => measurementsOf({ v: 1, seq: 1, at: Date.UTC(2026, 0, 1), ...event } as SessionEvent, 'support')
const OF_AGENT = { 'gen_ai.agent.name': 'support' }

describe('an event', () => {
  it('an event counts runs, turns and errors', () => {
    expect(measured({ type: 'run_started', run: 1 })).toEqual([{ name: 'pawl.runs.started', value: 1, labels: OF_AGENT }])
    expect(measured({ type: 'run_interrupted', run: 1 })).toEqual([
      { name: 'pawl.runs', value: 1, labels: { ...OF_AGENT, 'pawl.outcome': 'interrupted' } },
    ])
    expect(measured({ type: 'turn_started', run: 1, turn: 1, takes: [] })).toEqual([{ name: 'pawl.turns', value: 1, labels: OF_AGENT }])
    expect(measured({ type: 'error_entered', code: 'overloaded', reason: '', strategy: 'continue_run', nextAttemptAt: 1 })).toEqual([
      { name: 'pawl.errors', value: 1, labels: { ...OF_AGENT, 'error.type': 'overloaded', 'pawl.needs': 'nothing' } },
    ])
    expect(measured({ type: 'error_entered', code: 'bad', reason: '', strategy: 'continue_run' })[0]?.labels).toMatchObject({
      'pawl.needs': 'person',
    })
  })

  it('an event counts failed attempts by their code, or by their class', () => {
    const error = { attempt: 1, class: 'Error', message: 'm', retryable: false }
    expect(measured({ type: 'tool_attempt_failed', tool: 'look', error })[0]?.labels).toMatchObject({
      'gen_ai.tool.name': 'look',
      'error.type': 'Error',
      'pawl.retryable': false,
    })
    expect(measured({ type: 'model_attempt_failed', error: { ...error, code: 'EPIPE' } })[0]?.labels).toMatchObject({
      'error.type': 'EPIPE',
    })
  })

  const usage = { input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 2, cache_creation_input_tokens: 3 }

  it('an event counts tokens, including input from the cache, and their cost', () => {
    const found = measured({ type: 'model_completed', model: 'claude-sonnet-4-5', usage, content: [] })
    expect(found.map(({ name, value, labels }) => [name, value, labels['gen_ai.token.type']])).toEqual([
      ['gen_ai.client.token.usage', 15, 'input'],
      ['gen_ai.client.token.usage', 5, 'output'],
      ['pawl.usd', expect.any(Number), undefined],
    ])
    expect(found[0]?.labels).toMatchObject({ 'gen_ai.provider.name': 'anthropic', 'gen_ai.request.model': 'claude-sonnet-4-5' })
  })

  it.each([
    ['claude-sonnet-5-5', undefined, 'anthropic'],
    ['claude-sonnet-5-5', 'vertex.anthropic.messages', 'gcp.vertex_ai'],
    ['gpt-5.6', undefined, 'openai'],
    ['gpt-5.6', 'azure.responses', 'azure.ai.openai'],
    ['gpt-5.6', 'gateway', 'openai'],
    ['gemini-3.6-flash', 'google.generative-ai', 'gcp.gemini'],
    ['eu.anthropic.claude-sonnet-5-5-v1:0', 'anthropic', 'aws.bedrock'],
    ['mistral-large-3', undefined, 'mistral_ai'],
    ['my-own-model', 'groq.chat', 'groq'],
    ['my-own-model', undefined, '_OTHER'],
  ])('an event names the provider of %s that a Model calls %s as the convention does', (model, provider, name) => {
    const called = { model, ...defined({ provider }) }
    expect(measured({ type: 'model_completed', ...called, usage, content: [] })[0]?.labels).toMatchObject({ 'gen_ai.provider.name': name })
    expect(modelAttributes(called)).toEqual({ 'gen_ai.request.model': model, 'gen_ai.provider.name': name })
  })

  it('an event without a known price has no cost, and summaries count like answers', () => {
    expect(measured({ type: 'compacted', model: 'own', usage, summary: '' }).map(({ name }) => name)).toEqual([
      'gen_ai.client.token.usage',
      'gen_ai.client.token.usage',
    ])
    expect(measured({ type: 'compacted', summary: '' })).toEqual([])
  })
})

describe('labels', () => {
  it('each label has at most a hundred values, however many more appear', () => {
    const bounded = boundedLabels()
    const values = new Set(Array.from({ length: 1_000 }, (_, n) => bounded({ tool: `tool ${n}` }).tool))
    expect(values.size).toBe(101)
    expect(bounded({ tool: 'tool 7', retried: true })).toEqual({ tool: 'tool 7', retried: true })
    expect(bounded({ tool: 'another' })).toEqual({ tool: '_OTHER' })
    expect(bounded({ model: 'x'.repeat(1_000) })).toEqual({ model: '_OTHER' })
  })
})
