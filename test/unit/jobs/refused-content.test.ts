// A request that a provider refuses because of some content: what is left out instead of the session.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ModelError } from '../../../src/agent/errors.ts'
import { ModelFailure } from '../../../src/jobs/model-call/ask-model.ts'
import { askWithoutRefused } from '../../../src/jobs/model-call/refused-content.ts'
import type { ModelAnswer } from '../../../src/calls/jobs.ts'
import type { AttemptSoFar } from '../../../src/session/attempts.ts'
import type { AssistantBlock, DocumentBlock, ImageBlock, MediaBlock, Message } from '../../../src/session/content.ts'
import { messagesFor } from '../../../src/session/transcript/model-messages.ts'
import { emptyTranscript, type Transcript } from '../../../src/session/transcript/transcript.ts'

const image = (url: string): ImageBlock => ({ type: 'image', source: { type: 'url', url: `https://example.com/${url}` } })
const document = (url: string): DocumentBlock => ({ type: 'document', source: { type: 'url', url: `https://example.com/${url}` } })
const user = (...content: (string | MediaBlock)[]): Message => ({
  role: 'user',
  content: content.map((one) => (typeof one === 'string' ? { type: 'text', text: one } : one)),
})
const says = (text: string): Message => ({ role: 'assistant', content: [{ type: 'text', text }] })
const calls = (...inputs: string[]): Message => ({
  role: 'assistant',
  content: inputs.map((input, index): AssistantBlock => ({ type: 'tool_use', id: `t_${index}`, name: 'look', input: { input } })),
})
const results = (...contents: (string | (string | MediaBlock)[])[]): Message => ({
  role: 'user',
  content: contents.map((content, index) => ({
    type: 'tool_result',
    tool_use_id: `t_${index}`,
    content: typeof content === 'string' ? content : (user(...content).content as MediaBlock[]),
  })),
})

const transcriptOf = (messages: Message[]): Transcript => ({ ...emptyTranscript(), messages, seqs: messages.map((_, index) => index + 1) })
const REFUSED = 'm: 400 messages.3: Could not accept this.'

/** Asks a provider that refuses every request with text or a URL that contains `bad`. */
async function ask(
  messages: Message[],
  { say = REFUSED, bad = /bad/, status = 400, code = 'invalid_request_error', mayCompact = false } = {},
) {
  const requests: Message[][] = []
  const attempt: AttemptSoFar = { number: 1, failed: [], failures: 0 }
  const answer = await askWithoutRefused({
    transcript: transcriptOf(messages),
    attempt,
    worker: 'w',
    mayCompact: () => mayCompact,
    ask: async (given) => {
      const sent = messagesFor(given)
      requests.push(sent)
      if (bad.test(JSON.stringify(sent))) throw new ModelFailure(new ModelError(code, say, { retryable: false, status }), { model: 'm' })
      return { content: [], stopReason: 'end_turn' } as unknown as ModelAnswer
    },
  }).catch((error: unknown) => error as ModelFailure)
  return { answer, requests, attempt }
}
const replacedIn = ({ answer }: Awaited<ReturnType<typeof ask>>) =>
  'replaced' in answer ? answer.replaced?.content.map(({ seq, kind }) => `${kind} ${seq}`) : answer

describe('a refused request', () => {
  const before = [user('hello'), says('hi')]

  it.each<[string, Message[], string]>([
    ['a text of the user', [...before, user('well', 'bad')], 'text 3'],
    ['an image of the user', [...before, user('look', image('bad'))], 'image 3'],
    ['a document of the user', [...before, user('read', document('bad'))], 'document 3'],
    ['a document in a result', [...before, user('go'), calls('a'), results(['see', document('bad')])], 'document 5'],
    ['a result', [...before, user('go'), calls('a', 'b'), results('fine', 'bad')], 'result 5'],
    ['an image of a result', [...before, user('go'), calls('a'), results(['see', image('bad')])], 'image 5'],
    ['the arguments of a call', [...before, user('go'), calls('bad'), results('fine')], 'call 4'],
    ['a text of the model', [...before, user('go'), says('bad'), user('and?')], 'text 4'],
  ])('a refused request is made again without %s, and nothing else', async (_, messages, expected) => {
    const asked = await ask(messages)
    expect(replacedIn(asked)).toEqual([expected])
    const said = JSON.stringify(asked.requests.at(-1))
    expect(said).toContain('is left out here, because the provider of the model refuses it: m: 400 messages.3')
    expect(asked.attempt.failed).toHaveLength(asked.requests.length - 1)
    expect(asked.attempt.failed.map(({ attempt }) => attempt)).toEqual(asked.requests.slice(1).map((__, index) => index + 1))
    expect(asked.attempt.number).toBe(asked.requests.length)
  })

  it('a refusal that names an image leads to a request without images first, even if they were accepted before', async () => {
    const messages = [user('look', image('bad'), image('fine')), says('I see.'), user('And now?')]
    const asked = await ask(messages, { say: 'm: 400 Unable to download the file. Please verify the URL and try again.' })
    expect(replacedIn(asked)).toEqual(['image 1'])
    expect(asked.requests).toHaveLength(3)
    expect(JSON.stringify(asked.requests.at(-1))).toContain('And now?')
  })

  it('a refused request that is too long is made again without its new documents, unless a compaction may help', async () => {
    const say = 'm: 400 prompt is too long: 1200000 tokens > 200000 maximum'
    const messages = [user('read', document('old')), says('I did.'), user('and', document('fine'), document('bad'))]
    const asked = await ask(messages, { say, code: 'context_overflow' })
    expect(replacedIn(asked)).toEqual(['document 3'])
    expect(JSON.stringify(asked.requests.at(-1))).toContain('example.com/fine')
    const alone = await ask([user('read', document('bad'))], { say, code: 'context_overflow' })
    expect(replacedIn(alone)).toEqual(['document 1'])
    for (const [given, mayCompact] of [
      [messages, true],
      [[user('read', document('bad')), says('I did.'), user('and?')], false],
    ] as const) {
      const failed = await ask([...given], { say, code: 'context_overflow', mayCompact })
      expect(failed.answer).toBeInstanceOf(ModelFailure)
      expect(failed.requests).toHaveLength(1)
    }
  })

  it('a refused request that names a lost file is made again without it, and one that names a lost model is not', async () => {
    const messages = [...before, user('read', document('bad'))]
    const lost = await ask(messages, { say: 'm: 404 File not found: file_011CNha', status: 404, code: 'not_found_error' })
    expect(replacedIn(lost)).toEqual(['document 3'])
    const model = await ask(messages, { say: 'm: 404 model: claude-none', status: 404, code: 'not_found_error' })
    expect(model.answer).toBeInstanceOf(ModelFailure)
    expect(model.requests).toHaveLength(1)
  })

  it('a refused request is made at most 13 times until the content at fault is left out, wherever it is', async () => {
    const part = fc.oneof(fc.constantFrom('fine', 'good'), fc.constantFrom(image('fine'), image('good')))
    const said = fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => user(...parts))
    const turn = fc
      .array(fc.array(part, { minLength: 1, maxLength: 2 }), { minLength: 1, maxLength: 9 })
      .map((all) => [calls(...all.map(() => 'a')), results(...all)])
    // What came since a request was accepted: its answer, if there is one, and what followed.
    const since = fc
      .tuple(fc.oneof(fc.constant([says('so far')]), turn), fc.array(said, { minLength: 1, maxLength: 2 }))
      .map((all) => all.flat())
    await fc.assert(
      fc.asyncProperty(said, since, fc.nat(), async (before, added, pick) => {
        const inNew = JSON.stringify(added)
        const at = [...inNew.matchAll(/fine|good/g)]
        const { index } = at[pick % at.length]!
        const broken = JSON.parse(`${inNew.slice(0, index)}bad${inNew.slice(index + 4)}`) as Message[]
        const asked = await ask([before, ...broken])
        expect(asked.requests.length).toBeLessThanOrEqual(13)
        expect(replacedIn(asked)).toBeInstanceOf(Array)
      }),
      { numRuns: 200 },
    )
  })

  it.each<[string, Message[], object]>([
    ['it is the first one and has no images', [user('bad')], {}],
    ['the provider names the tools', [...before, user('bad')], { say: 'm: 400 tools.0.custom.input_schema: is not valid' }],
    ['the conversation is too long', [...before, user('bad')], { code: 'context_overflow' }],
    ['the key is wrong', [...before, user('bad')], { code: 'authentication_error', status: 401 }],
  ])('a refused request is not made again if %s', async (_, messages, refusal) => {
    const asked = await ask(messages, refusal)
    expect(asked.answer).toBeInstanceOf(ModelFailure)
    expect(asked.requests).toHaveLength(1)
  })

  it('a refused request fails unchanged if no content is at fault, and counts as one failed attempt', async () => {
    const asked = await ask([...before, user('bad', image('bad'))], { bad: /hello/ })
    expect(asked.answer).toMatchObject({ cause: { message: expect.stringContaining('Could not accept this') } })
    expect(asked.requests.length).toBeGreaterThan(2)
    expect(asked.attempt).toEqual({ number: 1, failed: [], failures: 0 })
  })
})
