// The scripted model: what a script answers becomes a whole response, the same one every time.
import { describe, expect, it } from 'vitest'
import { ModelError } from '../../src/agent/errors.ts'
import type { ModelCallContext, ModelRequest } from '../../src/agent/model.ts'
import type { ModelDelta } from '../../src/session/watching/deltas.ts'
import { NO_USAGE } from '../../src/session/content.ts'
import { calls, lastResult, scripted, toolUse } from '../../src/testing/scripted.ts'

const request: ModelRequest = {
  system: 'Be brief.',
  messages: [{ role: 'user', content: 'Hello' }],
  tools: [],
  sessionId: 's1',
  run: 1,
  turn: 2,
}

function callContext(signal = new AbortController().signal): ModelCallContext & { deltas: ModelDelta[] } {
  const deltas: ModelDelta[] = []
  return { signal, attempt: 1, onDelta: (delta) => deltas.push(delta), deltas }
}

describe('a scripted model', () => {
  it.each<[string, unknown[], string]>([
    ['a number', [5], 'scripted: the first argument must be a function of the request that returns an answer.'],
    ['an answer', ['Hello.'], 'scripted: the first argument must be a function'],
    ['a misspelt option', [() => 'Hi.', { nam: 'm' }], 'scripted: There is no option nam: did you mean name?'],
    ['an empty name', [() => 'Hi.', { name: '' }], 'scripted: `name` must be the model\'s name, not "".'],
    ['a window of nothing', [() => 'Hi.', { contextWindow: 0 }], 'scripted: `contextWindow` must be an integer from 1, not 0.'],
    ['a pace of nothing', [() => 'Hi.', { pace: 0 }], 'scripted: `pace` must be'],
  ])('a scripted model is refused with %s', (_, args, message) => {
    const declare = () => (scripted as (...given: unknown[]) => unknown)(...args)
    expect(declare).toThrow(expect.objectContaining({ code: 'invalid_model', message: expect.stringContaining(message) }))
  })

  it('a scripted model turns text into a whole answer that used no tokens', async () => {
    const response = await scripted(() => 'Hi.').generate(request, callContext())
    expect(response).toEqual({ content: [{ type: 'text', text: 'Hi.' }], stopReason: 'end_turn', usage: NO_USAGE })
  })

  it('a scripted model has the price and the maximum that its options declare, for agents with a budget', () => {
    const price = { input: 3, output: 15 }
    expect(scripted(() => 'hi', { name: 'mine', price, maxTokens: 500 })).toMatchObject({ name: 'mine', price, maxTokens: 500 })
    expect(() => scripted(() => 'hi', { price: { input: 3 } as never })).toThrow('`price.output` is required')
  })

  it('a scripted model streams its text word by word at the given pace, until it is stopped', async () => {
    const model = scripted(() => [{ type: 'text', text: ' It arrives\n\ntomorrow. ' }, toolUse('t', { id: 7 })], { pace: 30 })
    const ctx = callContext()
    const begun = performance.now()
    const { content } = await model.generate(request, ctx)
    expect(performance.now() - begun).toBeGreaterThan(80)
    expect(ctx.deltas).toEqual([
      { type: 'text', index: 0, text: ' It' },
      { type: 'text', index: 0, text: ' arrives' },
      { type: 'text', index: 0, text: '\n\ntomorrow.' },
      { type: 'text', index: 0, text: ' ' },
      { type: 'tool_input', index: 1, partialJson: '{"id":7}', name: 't' },
    ])
    expect(content[0]).toEqual({ type: 'text', text: ' It arrives\n\ntomorrow. ' })

    const stop = new AbortController()
    const stopped = callContext(stop.signal)
    const generating = model.generate(request, stopped)
    setTimeout(() => stop.abort(new Error('interrupted')), 10)
    await expect(generating).rejects.toThrow('interrupted')
    expect(stopped.deltas).toHaveLength(1)
  })

  it('a scripted model stops with tool_use when it asks for a tool', async () => {
    const model = scripted(() => [{ type: 'text', text: 'Looking.' }, toolUse('find_order', { id: 7 })])
    const response = await model.generate(request, callContext())
    expect(response.stopReason).toBe('tool_use')
    expect(response.content[1]).toEqual({ type: 'tool_use', id: 'toolu_find_order', name: 'find_order', input: { id: 7 } })
  })

  it('a scripted model passes on a whole response unchanged', async () => {
    const usage = { ...NO_USAGE, output_tokens: 5 }
    const model = scripted(() => ({ content: [toolUse('t')], stopReason: 'max_tokens', usage, model: 'script-2' }))
    expect(await model.generate(request, callContext())).toEqual({
      content: [toolUse('t')],
      stopReason: 'max_tokens',
      usage,
      model: 'script-2',
    })
  })

  it('a scripted model passes the request and the attempt to the script, which can then fail the first attempt', async () => {
    const model = scripted((given, ctx) => {
      if (ctx.attempt === 1) throw new ModelError('overloaded_error', 'busy', { retryable: true, retryAfter: 20 })
      return `turn ${given.turn}`
    })
    await expect(model.generate(request, callContext())).rejects.toMatchObject({
      code: 'overloaded_error',
      retryable: true,
      retryAfterMs: 20,
    })
    const second = await model.generate(request, { ...callContext(), attempt: 2 })
    expect(second.content).toEqual([{ type: 'text', text: 'turn 2' }])
  })

  it('a scripted model answers the same for the same request', async () => {
    const model = scripted(({ messages }) => `You sent ${messages.length}.`)
    expect(await model.generate(request, callContext())).toEqual(await model.generate(request, callContext()))
  })

  it('a scripted model streams each block as one piece', async () => {
    const ctx = callContext()
    await scripted(() => [
      { type: 'thinking', thinking: 'hm', signature: 's' },
      { type: 'redacted_thinking', data: 'x' },
      { type: 'text', text: 'Hi.' },
      toolUse('t', { a: 1 }),
    ]).generate(request, ctx)
    expect(ctx.deltas).toEqual([
      { type: 'thinking', index: 0, thinking: 'hm' },
      { type: 'text', index: 2, text: 'Hi.' },
      { type: 'tool_input', index: 3, partialJson: '{"a":1}', name: 't' },
    ])
  })

  it('a scripted model does not stream an answer again that its script has streamed', async () => {
    const ctx = callContext()
    const model = scripted((_, { onDelta }) => {
      onDelta({ type: 'text', index: 0, text: 'H' })
      onDelta({ type: 'text', index: 0, text: 'i.' })
      return 'Hi.'
    })
    await model.generate(request, ctx)
    expect(ctx.deltas.map((delta) => delta.type === 'text' && delta.text)).toEqual(['H', 'i.'])
  })

  it('a scripted model throws the reason of an abort, before the script and after it', async () => {
    const stopped = new Error('interrupted')
    let asked = 0
    const model = scripted(() => {
      asked += 1
      return 'Hi.'
    })
    await expect(model.generate(request, callContext(AbortSignal.abort(stopped)))).rejects.toBe(stopped)
    expect(asked).toBe(0)
    const controller = new AbortController()
    const slow = scripted(async () => {
      controller.abort(stopped)
      return 'too late'
    })
    const ctx = callContext(controller.signal)
    await expect(slow.generate(request, ctx)).rejects.toBe(stopped)
    expect(ctx.deltas).toEqual([])
  })

  it('a script that forgets to answer is reported, and not retried', async () => {
    const model = scripted((() => undefined) as unknown as () => string, { name: 'desk' })
    await expect(model.generate(request, callContext())).rejects.toMatchObject({
      code: 'invalid_script',
      retryable: false,
      message: expect.stringContaining('"desk" returned nothing'),
    })
  })

  it('a scripted model has a name', () => {
    expect(scripted(() => '').name).toBe('scripted')
    expect(scripted(() => '', { name: 'desk' }).name).toBe('desk')
  })
})

describe('the helpers of a script', () => {
  const result = (id: string, content: string, more: object = {}) => ({ type: 'tool_result' as const, tool_use_id: id, content, ...more })
  const asked = { role: 'assistant' as const, content: [...calls('look', { at: 1 }), toolUse('refund', {}, 'toolu_2')] }

  it('the helpers of a script call tools, and read the newest result with the name of its tool', () => {
    expect(calls('look', { at: 1 })).toEqual([{ type: 'tool_use', id: 'toolu_look', name: 'look', input: { at: 1 } }])
    const messages = [
      { role: 'user' as const, content: 'Go' },
      asked,
      { role: 'user' as const, content: [result('toolu_look', 'nothing'), result('toolu_2', '{"receipt":7}')] },
    ]
    expect(lastResult(messages)).toEqual({ tool: 'refund', text: '{"receipt":7}', value: { receipt: 7 }, isError: false })
    const failed = { role: 'user' as const, content: [result('toolu_look', 'No.', { is_error: true })] }
    expect(lastResult([asked, failed])).toEqual({ tool: 'look', text: 'No.', value: 'No.', isError: true })
  })

  it('the helpers of a script find no result once a user has spoken, or before any call', () => {
    expect(lastResult([{ role: 'user', content: 'Go' }])).toBeUndefined()
    expect(lastResult([asked, { role: 'user', content: [result('toolu_look', 'x')] }, { role: 'user', content: 'Stop' }])).toBeUndefined()
    expect(lastResult([])).toBeUndefined()
  })
})
