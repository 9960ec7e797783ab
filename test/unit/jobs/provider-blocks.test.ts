// Blocks of a provider's tools on their way into history: what becomes a large value, what stays, and what fails the call.
import { describe, expect, it } from 'vitest'
import type { LargeValues } from '../../../src/jobs/large-values.ts'
import { storedAnswer } from '../../../src/jobs/model-call/provider-blocks.ts'
import type { JobOrder } from '../../../src/calls/jobs.ts'
import type { AssistantBlock, ProviderBlock } from '../../../src/session/content.ts'
import { noteOnProviderBlock, shownContent, sourcesOf, withBlocks } from '../../../src/session/provider-blocks.ts'
import { addDelta, type ModelDelta, sizeOf, soundDelta, withoutFirst } from '../../../src/session/watching/deltas.ts'
import { keepAnswers } from '../../../src/worker/orchestrator/executors/answered.ts'

const result = (bytes: number): ProviderBlock => ({
  ...{ type: 'provider', part: 'result', id: 's', name: 'web_search', sources: [{ type: 'url', url: 'https://example.com', title: 'A' }] },
  block: { type: 'web_search_tool_result', content: [{ title: 'A', encrypted_content: 'x'.repeat(bytes) }] },
})
const text: AssistantBlock = { type: 'text', text: 'It rains.' }

/** A store that accepts values or does not, and how long it was asked to wait. */
function storage(accepts: boolean) {
  const kept: { json: string; waitMs?: number | undefined }[] = []
  const values: Pick<LargeValues, 'keep'> = {
    keep: async (_sessionId, { json, ref }, { waitMs }) => {
      kept.push({ json, waitMs })
      return accepts ? ref : undefined
    },
  }
  return { kept, to: { values, sessionId: 's', executionId: 'e', signal: new AbortController().signal } }
}

describe('blocks of a provider', () => {
  it('small blocks stay in the answer, and the store is not asked', async () => {
    const { kept, to } = storage(true)
    const content = [result(1_000), text]
    expect(await storedAnswer(content, to)).toEqual({ content })
    expect(kept).toEqual([])
  })

  it('large blocks leave the answer, and come back in their order', async () => {
    const { kept, to } = storage(true)
    const content = [result(100_000), text, result(100_001)]
    const stored = await storedAnswer(content, to)
    expect(stored.content).toEqual([{ ...result(0), block: undefined }, text, { ...result(0), block: undefined }])
    expect(stored.blob?.preview).toBe('web_search: A (https://example.com)\nweb_search: A (https://example.com)')
    expect(withBlocks(stored.content, JSON.parse(kept[0]?.json ?? ''))).toEqual(content)
    expect(withBlocks(stored.content, 'nonsense')).toEqual(stored.content)
  })

  it('without a store, blocks that history can hold stay in it, and larger ones fail the call after a wait', async () => {
    const { kept, to } = storage(false)
    const content = [result(200_000)]
    expect(await storedAnswer(content, to)).toEqual({ content })
    await expect(storedAnswer([result(2_000_000)], to)).rejects.toMatchObject({ code: 'blocks_not_stored', retryable: true })
    expect(kept.map(({ waitMs }) => waitMs)).toEqual([undefined, 30_000])
  })

  it('an answer that an orchestrator keeps for a repeated attempt keeps its reference', () => {
    const answers = keepAnswers()
    const order = { kind: 'callModel', ticket: { executionId: 'e', activityId: 'a' }, attempt: { number: 1 } } as unknown as JobOrder
    const blob = { sha256: 'f', bytes: 1, preview: '' }
    answers.note(order, { kind: 'completed', content: [], stopReason: 'end_turn', usage: {}, model: 'm', calls: [], blob })
    expect(answers.of(order)?.answer.blob).toEqual(blob)
  })

  it('people do not see what only the provider can read', () => {
    expect(shownContent(result(5))).toEqual([{ title: 'A' }])
    expect(shownContent({ ...result(5), block: { content: { source: { data: 'x'.repeat(2_000) } } } })).toEqual({
      source: { data: '[2000 characters]' },
    })
    const { block: _, ...lost } = result(5)
    expect(shownContent(lost)).toBeNull()
  })

  it('another model gets a note for a call and its result, and none for a source', () => {
    const call: ProviderBlock = { type: 'provider', part: 'call', id: 's', name: 'web_search', input: { query: 'rain' } }
    const notes = [call, result(5), { ...call, part: 'source' as const }].map((block) => noteOnProviderBlock(block).map(({ text }) => text))
    expect(notes).toEqual([
      [expect.stringContaining('the provider ran web_search {"query":"rain"}')],
      [expect.stringContaining('the result of web_search: A (https://example.com)')],
      [],
    ])
  })

  it('a source is shown once, with its title if any mention has one', () => {
    const url = { type: 'url' as const, url: 'https://example.com' }
    const document = { type: 'document' as const, title: 'A', mediaType: 'text/plain' }
    const content: AssistantBlock[] = [
      { ...text, sources: [url] } as AssistantBlock,
      { ...text, sources: [{ ...url, title: 'A' }, document] } as AssistantBlock,
    ]
    expect(sourcesOf([...content, result(5)])).toEqual([{ ...url, title: 'A' }, document])
  })
})

describe('the piece of a stream with a call of a provider', () => {
  const call: ModelDelta = { type: 'provider_call', index: 1, id: 's', name: 'web_search' }

  it('a provider’s call in a stream is a separate piece, at one position', () => {
    expect(soundDelta({ ...call, more: 1 })).toEqual(call)
    expect(soundDelta({ ...call, name: '' })).toBeUndefined()
    expect(soundDelta({ ...call, id: 1 })).toBeUndefined()
    expect(sizeOf(call)).toBe(1)
    const pieces: ModelDelta[] = []
    for (const piece of [{ type: 'text' as const, index: 0, text: 'ab' }, call, { ...call, id: 't' }]) addDelta(pieces, piece)
    expect(pieces).toHaveLength(3)
    expect(withoutFirst(pieces, 2)).toEqual([call, { ...call, id: 't' }])
    expect(withoutFirst(pieces, 3)).toEqual([{ ...call, id: 't' }])
  })
})
