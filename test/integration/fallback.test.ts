// What follows the failure of a model: another model, or the same one without the content that its provider refuses; and what is recorded.
import { randomUUID } from 'node:crypto'
import { type AssistantBlock, defineAgent, defineTool, type Model, ModelError, type ModelRequest } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { use } from '../support/scenes.ts'
import { until } from '../support/until.ts'

const FAILURES = {
  overloaded: new ModelError('overloaded_error', 'Overloaded.', { retryable: true }),
  denied: new ModelError('authentication_error', 'No such key.', { retryable: false, fallback: true }),
  invalid: new ModelError('invalid_request_error', 'The request is wrong.', { retryable: false }),
  overflow: new ModelError('context_overflow', 'The request is too long.', { retryable: false }),
}

/** What a model does when it is called: it fails or answers. */
type Step = keyof typeof FAILURES | AssistantBlock[]
/** What each model does in each of its calls, in order; after that it answers with its name. */
type Script = Record<string, Step[]>

let here: Deployment
const calls: { session: string; model: string; request: ModelRequest }[] = []

function model(name: string, provider?: string): Model {
  return {
    name,
    ...(provider && { provider }),
    async generate(request) {
      const { sessionId: session, messages } = request
      const script = JSON.parse(String(messages[0]?.content)) as Script
      const step = script[name]?.[calls.filter((call) => call.session === session && call.model === name).length]
      calls.push({ session, model: name, request: structuredClone(request) })
      if (typeof step === 'string') throw FAILURES[step]
      const content = step ?? [{ type: 'text', text: `${name} answers` }]
      return { content, stopReason: content.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn', usage: {} as never }
    },
  }
}

/** Sessions whose provider is down, and those whose images have expired. */
const down = new Set<string>()
const expired = new Set<string>()

/** A provider that refuses any request with what it does not accept, as Anthropic's API does. */
const picky: Model = {
  name: 'picky',
  generate({ sessionId, messages }) {
    calls.push({ session: sessionId, model: 'picky', request: structuredClone({ messages } as ModelRequest) })
    const sent = JSON.stringify(messages)
    const refuse = (message: string) => Promise.reject(new ModelError('invalid_request_error', message, { retryable: false, status: 400 }))
    if (down.has(sessionId)) return Promise.reject(new ModelError('teapot', 'No coffee.', { retryable: false }))
    if (sent.includes('REFUSED')) return refuse('picky: 400 messages.2.content.0: it is not accepted.')
    if (expired.has(sessionId) && sent.includes('expires=900')) return refuse('picky: 400 Unable to download the file.')
    const last = messages.at(-1)?.content
    const said = typeof last === 'string' ? last : ''
    const content: AssistantBlock[] = said.startsWith('look')
      ? [{ type: 'tool_use', id: 'x', name: 'look', input: { what: said.slice(5) } }]
      : [{ type: 'text', text: 'Fine.' }]
    return Promise.resolve({ content, stopReason: said.startsWith('look') ? 'tool_use' : 'end_turn', usage: {} as never })
  },
}

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({ what: z.string() }),
  effect: 'read',
  execute: ({ what }) => (what === 'odd' ? 'REFUSED' : 'seen'),
})
const COMMON = { retry: { maxRetries: 1, baseDelay: 1 }, recovery: { automatic: [] }, tools: [look] }

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({
    agents: [
      defineAgent({
        ...COMMON,
        name: 'guarded',
        instructions: '',
        model: model('first'),
        fallback: [model('second'), () => model('third')],
      }),
      defineAgent({ ...COMMON, name: 'picky', instructions: '', model: picky }),
      defineAgent({ ...COMMON, name: 'thinking', instructions: '', model: model('first', 'one'), fallback: model('second', 'two') }),
      defineAgent({
        ...COMMON,
        name: 'undecided',
        instructions: '',
        model: () => {
          throw new Error('The flags cannot be read.')
        },
        fallback: model('second'),
      }),
      defineAgent({
        ...COMMON,
        name: 'speechless',
        instructions: () => {
          throw new Error('No instructions.')
        },
        model: model('first'),
        fallback: model('second'),
      }),
    ],
  })
})
afterAll(() => here?.stop())

const callsOf = (session: SessionHandle) => calls.filter((call) => call.session === session.id)

async function play(script: Script, agent = 'guarded') {
  const session = here.pawl.session(`s-${randomUUID()}`, { agent }) as SessionHandle
  const settled = await (await session.send(JSON.stringify(script))).settled({ timeout: 30_000 })
  const events = await eventsOf(session)
  const failed = ofType(events, 'model_attempt_failed').map(({ error: { attempt, model: of, code } }) => [attempt, of, code])
  const answered = ofType(events, 'model_completed').map(({ attempt, model: of }) => [attempt, of])
  return { session, settled, failed, answered }
}

describe('a model that fails', () => {
  it('a fallback answers once a model’s retries are used up; the answer and the failed attempts name their models', async () => {
    const { session, settled, failed, answered } = await play({ first: ['overloaded', 'overloaded'] })
    expect(settled).toMatchObject({ status: 'completed', text: 'second answers', model: 'second' })
    expect(failed).toEqual([
      [1, 'first', 'overloaded_error'],
      [2, 'first', 'overloaded_error'],
    ])
    expect(answered).toEqual([[3, 'second']])
    const { rows } = await rowsMatchEvents(here.stack, session.id)
    expect(rows.errors).toMatchObject([
      { attempt: 1, model: 'first', retryable: true },
      { attempt: 2, model: 'first', retryable: true, next_delay_ms: 0 },
    ])
    const listed = (await here.pawl.errors({ session: session.id })).items
    expect(listed.map(({ attempt, model: of }) => [attempt, of])).toEqual([
      [2, 'first'],
      [1, 'first'],
    ])
  })

  it('a model that fails is not followed by its fallback while it has retries left', async () => {
    const { answered } = await play({ first: ['overloaded'] })
    expect(answered).toEqual([[2, 'first']])
  })

  it('a model that fails is followed by each fallback in a list, in order, and each has its own retries', async () => {
    const { settled, failed, answered } = await play({
      first: ['overloaded', 'overloaded'],
      second: ['overloaded', 'overloaded'],
      third: ['overloaded'],
    })
    expect(settled).toMatchObject({ model: 'third' })
    expect(failed.map(([attempt, of]) => [attempt, of])).toEqual([
      [1, 'first'],
      [2, 'first'],
      [3, 'second'],
      [4, 'second'],
      [5, 'third'],
    ])
    expect(answered).toEqual([[6, 'third']])
  })

  it('a model that fails is followed by its fallback at once if its provider rejects the credentials', async () => {
    const { failed, answered } = await play({ first: ['denied'] })
    expect(failed).toEqual([[1, 'first', 'authentication_error']])
    expect(answered).toEqual([[2, 'second']])
  })

  it.each(['invalid', 'overflow'] as const)(
    'a model that fails is not followed by its fallback if the request itself is wrong (%s)',
    async (step) => {
      const { session, settled, failed } = await play({ first: [step] })
      const { code } = FAILURES[step]
      expect(settled).toMatchObject({ status: 'failed', code, strategy: step === 'overflow' ? 'abandon' : 'restart_run' })
      expect(failed).toEqual([[1, 'first', code]])
      expect(callsOf(session)).toHaveLength(1)
    },
  )

  it('a fallback also answers if the function that chooses the model throws', async () => {
    const { failed, answered } = await play({}, 'undecided')
    expect(failed).toEqual([
      [1, undefined, undefined],
      [2, undefined, undefined],
    ])
    expect(answered).toEqual([[3, 'second']])
  })

  it('a model that fails is called first again at the next model call', async () => {
    const { session, answered } = await play({ first: ['overloaded', 'overloaded'], second: [[use('look', 'it')]] })
    expect(answered).toEqual([
      [3, 'second'],
      [1, 'first'],
    ])
    expect(callsOf(session).map(({ model: of }) => of)).toEqual(['first', 'first', 'second', 'first'])
  })
})

describe('if every model fails', () => {
  it('if every model fails with a transient error, the run reports the last one', async () => {
    const [first, second, third] = [0, 1, 2].map((): Step[] => ['overloaded', 'overloaded'])
    const { settled, failed } = await play({ first: first!, second: second!, third: third! })
    expect(settled).toMatchObject({ status: 'failed', code: 'overloaded_error', strategy: 'continue_run' })
    expect(failed.map(([attempt]) => attempt)).toEqual([1, 2, 3, 4, 5, 6])
  })

  it('a run reports the transient failure if every model fails, the last one permanently', async () => {
    const { session, settled } = await play({ first: ['overloaded', 'overloaded'], second: ['denied'], third: ['overflow'] })
    expect(settled).toMatchObject({
      status: 'failed',
      code: 'overloaded_error',
      reason: 'Overloaded. The fallback failed, too: The request is too long.',
      strategy: 'continue_run',
    })
    // All retry budgets start over, and the first model answers again.
    await session.recover()
    await until('the run has ended', async () => (await session.state()).status === 'idle')
    expect(callsOf(session).map(({ model: of }) => of)).toEqual(['first', 'first', 'second', 'third', 'first'])
  })
})

it('instructions that throw are not recorded as the failure of a model', async () => {
  const { session, settled, failed } = await play({}, 'speechless')
  expect(settled).toMatchObject({ status: 'failed', code: 'model_call_failed' })
  expect(failed.map(([attempt, of]) => [attempt, of])).toEqual([
    [1, undefined],
    [2, undefined],
  ])
  expect(callsOf(session)).toEqual([])
})

it('thinking is sent back only to the provider that can read it, and the transcript keeps all of it', async () => {
  const thought = (thinking: string): Step => [{ type: 'thinking', thinking, signature: 's' }, use('look', thinking)]
  const { session, answered } = await play(
    { first: [thought('a'), 'overloaded', 'overloaded', thought('c')], second: [thought('b')] },
    'thinking',
  )
  expect(answered.map(([, of]) => of)).toEqual(['first', 'second', 'first', 'first'])
  const thinkingIn = (messages: { content: unknown }[]) =>
    messages.flatMap(({ content }) =>
      (content as AssistantBlock[]).flatMap((block) => (block.type === 'thinking' ? [`${block.thinking} of ${block.provider}`] : [])),
    )
  const shown = callsOf(session).map(({ model: of, request }) => [
    of,
    ...thinkingIn(request.messages.filter(({ role }) => role === 'assistant')),
  ])
  expect(shown).toEqual([
    ['first'],
    ['first', 'a of one'],
    ['first', 'a of one'],
    ['second'],
    ['first', 'a of one'],
    ['first', 'a of one', 'c of one'],
  ])
  const rows = await until('all is stored', async () => {
    const stored = (await session.messages()).filter(({ role }) => role === 'assistant')
    return stored.length === 4 && stored
  })
  expect(thinkingIn(rows)).toEqual(['a of one', 'b of two', 'c of one'])
})

describe('content that the provider refuses', () => {
  const say = async (session: SessionHandle, content: Parameters<SessionHandle['send']>[0]) =>
    (await session.send(content)).settled({ timeout: 30_000 })
  const pickySession = () => here.pawl.session(`s-${randomUUID()}`, { agent: 'picky' }) as SessionHandle
  const newest = (session: SessionHandle) => JSON.stringify(callsOf(session).at(-1)?.request.messages)
  const image = { type: 'image' as const, source: { type: 'url' as const, url: 'https://example.com/a.png?expires=900' } }

  it('a tool’s content that the provider refuses is replaced by a note, and is never sent again', async () => {
    const session = pickySession()
    expect(await say(session, 'look odd')).toMatchObject({ status: 'completed', text: 'Fine.' })
    const asked = callsOf(session).length
    expect(await say(session, 'And now?')).toMatchObject({ status: 'completed' })
    expect(callsOf(session)).toHaveLength(asked + 1)
    expect(newest(session)).toContain('is left out here, because the provider of the model refuses it: picky: 400 messages.2')
    const { events, rows } = await rowsMatchEvents(here.stack, session.id)
    expect(ofType(events, 'content_replaced')).toMatchObject([{ run: 1, turn: 2, content: [{ kind: 'result' }] }])
    expect(ofType(events, 'tool_completed')[0]?.value).toBe('REFUSED')
    expect(rows.errors).toMatchObject([
      { attempt: 1, code: 'invalid_request_error', retryable: true, model: 'picky' },
      { attempt: null, code: 'content_replaced', context: 'model' },
    ])
  })

  it('content that the provider refuses from a user is replaced, and stays replaced in a fork and after a rollback', async () => {
    const session = pickySession()
    await say(session, 'Hello.')
    expect(await say(session, 'REFUSED')).toMatchObject({ status: 'completed' })
    const { version } = await session.checkpoint('after the refusal')
    await say(session, 'And now?')
    const fork = await session.fork({ checkpoint: version })
    for (const one of [fork, session]) {
      if (one === session) await session.rollback({ checkpoint: version })
      expect(await say(one, 'Still there?')).toMatchObject({ status: 'completed' })
      expect(newest(one)).not.toContain('REFUSED')
      expect(newest(one)).toContain('A text is left out here')
    }
    expect((await eventsOf(session)).filter(({ type }) => type === 'content_replaced')).toHaveLength(1)
  })

  it('a refused image is found even if it was accepted before, such as one whose URL has expired', async () => {
    const session = pickySession()
    await say(session, [image, { type: 'text', text: 'What is it?' }])
    expired.add(session.id)
    expect(await say(session, 'And now?')).toMatchObject({ status: 'completed' })
    expect(newest(session)).toContain('What is it?')
    expect(newest(session)).toContain('An image is left out here')
  })

  it('a session in error because of refused content continues after a recovery or with the next message', async () => {
    for (const how of ['restart_run', 'message'] as const) {
      const session = pickySession()
      await say(session, 'Hello.')
      down.add(session.id)
      expect(await say(session, 'REFUSED')).toMatchObject({ status: 'failed', code: 'teapot' })
      down.delete(session.id)
      if (how === 'restart_run') await session.recover({ strategy: 'restart_run' })
      else expect(await say(session, 'And now?')).toMatchObject({ status: 'completed' })
      await until('the session is idle', async () => (await session.status()).status === 'idle')
      expect(newest(session)).toContain('A text is left out here')
    }
  })

  it('a refused run fails with the provider’s own reason if no content is at fault', async () => {
    const session = pickySession()
    expect(await say(session, 'REFUSED from the start')).toMatchObject({ status: 'failed', code: 'invalid_request_error' })
    expect(callsOf(session)).toHaveLength(1)
  })
})
