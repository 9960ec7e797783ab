// AI SDK UI against the web handler: the chats of the published `@ai-sdk/react`, a worker, and what is recorded.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Chat } from '../ai-sdk-7/react.ts'
import {
  type ChatTransport,
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from '../ai-sdk-7/ai.ts'
import { defineAgent, defineTool, type ModelCallContext, ModelError, type ModelRequest, ToolError } from 'pawl'
import { type Access, createHandler, type Handler } from 'pawl/service'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { PawlChatTransport } from 'pawl/ui'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { deploy, type Deployment, SILENT } from '../support/deployment.ts'
import { saidIn } from '../support/scenes.ts'
import { type Gate, gate, until } from '../support/until.ts'
import type { PawlChatTransportOptions } from '../../src/ui/transport-options.ts'

const ACCESSES: Record<string, Access> = {
  ann: { identity: 'ann', scopes: ['read', 'send', 'approve', 'operate'], tenant: 'ui' },
  reader: { identity: 'reader', scopes: ['read'], tenant: 'ui' },
  sender: { identity: 'sender', scopes: ['read', 'send'], tenant: 'ui' },
}

const gates = new Map<string, Gate>()
/** The gate that a message names: `x` in `hold x`. */
function gateOf(text: string): Gate {
  const known = gates.get(text) ?? gate()
  gates.set(text, known)
  return known
}
/** What the exception of a database driver may say. */
const SECRET = 'connection to postgres://shop:secret@db.internal failed'
const aborted: string[] = []
let failures = 0
let flaws = 0
let outages = 0

async function passing(name: string, signal: AbortSignal): Promise<void> {
  signal.addEventListener('abort', () => aborted.push(name), { once: true })
  await gateOf(name).pass(signal)
}

const input = z.object({ what: z.string() })
const use = (name: string, what: string): ScriptedAnswer => [
  { type: 'text', text: 'Let me see.' },
  { type: 'tool_use', id: 'toolu_1', name, input: { what } },
]
const PAGE = { type: 'url' as const, url: 'https://example.com/rain', title: 'Rain in Oslo' }
/** A search that the provider ran. */
const SEARCHED = {
  call: { type: 'provider' as const, part: 'call' as const, id: 'srv_1', name: 'web_search', input: { query: 'rain' }, block: { call: 1 } },
  result: {
    ...{ type: 'provider' as const, part: 'result' as const, id: 'srv_1', name: 'web_search', sources: [PAGE] },
    block: { content: [{ title: 'Rain in Oslo', encrypted_content: 'c2VjcmV0' }] },
  },
  cited: { type: 'text' as const, text: 'It rains.', sources: [PAGE] },
}
const desk = defineAgent({
  name: 'desk',
  instructions: 'Serve.',
  recovery: { automatic: [] },
  model: scripted(async (request: ModelRequest, ctx: ModelCallContext): Promise<ScriptedAnswer> => {
    const said = saidIn(request)
    const newest = said.at(-1) ?? ''
    const [what = '', name = ''] = newest.split(' ')
    const isAnswered = request.messages.at(-1)?.content !== newest
    if (what === 'flaky' && flaws++ === 0) throw new ModelError('bad_request', 'The model refuses.', { retryable: false })
    if (newest === 'ask again' && isAnswered && outages++ === 0) throw new ModelError('bad_request', 'Not now.', { retryable: false })
    if (what === 'fail') throw new ModelError('bad_request', 'The model refuses.', { retryable: false })
    if (what === 'long') return 'Long.'
    if (what === 'tell') {
      ctx.onDelta({ type: 'thinking', index: 0, thinking: 'Hm.' })
      ctx.onDelta({ type: 'text', index: 1, text: `Once ${name}` })
      await passing(name, ctx.signal)
      return [
        { type: 'thinking', thinking: 'Hm.', signature: 's' },
        { type: 'text', text: `Once ${name} upon a time.` },
      ]
    }
    if (what === 'search' || what === 'pause') {
      if (request.turn > 1) return [SEARCHED.result, SEARCHED.cited]
      ctx.onDelta({ type: 'text', index: 0, text: 'Let me' })
      ctx.onDelta({ type: 'provider_call', index: 1, id: 'srv_1', name: 'web_search' })
      if (what === 'search') ctx.onDelta({ type: 'text', index: 3, text: 'It' })
      await passing(name, ctx.signal)
      const content = [{ type: 'text' as const, text: 'Let me see.' }, SEARCHED.call]
      return what === 'pause' ? { content, stopReason: 'pause_turn' } : [...content, SEARCHED.result, SEARCHED.cited]
    }
    if (what === 'retry' && failures++ === 0) {
      ctx.onDelta({ type: 'text', index: 0, text: 'A void beginning' })
      await passing(name, ctx.signal)
      throw new ModelError('overloaded', 'Once more.', { retryable: true })
    }
    if (['pay', 'ask', 'hold', 'look', 'check', 'wire'].includes(what) && !isAnswered) return use(what, name)
    if (what === 'twice' && !isAnswered)
      return ['first', 'second'].map((what) => ({ type: 'tool_use' as const, id: `toolu_${what}`, name: 'pay', input: { what } }))
    if (what === 'both' && !isAnswered)
      return ['ask', 'pay'].map((tool) => ({ type: 'tool_use' as const, id: `toolu_${tool}`, name: tool, input: { what: name } }))
    return `${said.length}: ${newest}`
  }),
  tools: [
    defineTool({ name: 'pay', description: 'Pays.', input, effect: 'external', approval: true, execute: ({ what }) => ({ paid: what }) }),
    defineTool({
      name: 'look',
      description: 'Looks.',
      input,
      effect: 'read',
      retry: { maxRetries: 0 },
      execute({ what }) {
        if (what === 'closed') throw new ToolError('The order is closed.', { retryable: false })
        throw new Error(SECRET)
      },
    }),
    defineTool({
      name: 'wire',
      description: 'Wires.',
      input,
      effect: 'external',
      onUnknown: 'tell_model',
      execute() {
        throw new Error(SECRET)
      },
    }),
    defineTool({
      name: 'check',
      description: 'Checks.',
      input,
      effect: 'external',
      approval() {
        throw new Error(SECRET)
      },
      execute: () => {
        throw new Error(SECRET)
      },
    }),
    defineTool({ name: 'ask', description: 'Asks.', input, effect: 'read', execute: 'client', output: z.object({ color: z.string() }) }),
    defineTool({
      name: 'hold',
      description: 'Holds.',
      input,
      effect: 'read',
      execute: async ({ what }, ctx) => {
        await passing(what, ctx.signal)
        return 'held'
      },
    }),
  ],
})

let here: Deployment
let handler: Handler

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [desk] })
  const authorize = (request: Request): Access | null => ACCESSES[request.headers.get('x-key') ?? ''] ?? null
  handler = createHandler({ pawl: here.pawl, authorize, agents: ['desk', 'other'], logger: SILENT, basePath: '/api/pawl' })
})
afterAll(async () => {
  for (const held of gates.values()) held.open()
  await here?.stop()
})

const ask: typeof fetch = async (to, init) => handler(new Request(new URL(String(to), 'http://ui.test'), init))
/** Sends a request of a page as the AI SDK does. */
const postChat = (body: object): Promise<Response> =>
  ask('/api/pawl/v1/ui', { method: 'POST', headers: { 'x-key': 'ann', 'content-type': 'application/json' }, body: JSON.stringify(body) })
const newId = (): string => `ui:${randomUUID()}`

function transportWith(more: PawlChatTransportOptions = {}): PawlChatTransport {
  return new PawlChatTransport({ agent: 'desk', headers: { 'x-key': 'ann' }, fetch: ask, ...more })
}

type ChatOptions = Partial<ConstructorParameters<typeof Chat>[0]> & { transport?: ChatTransport<UIMessage> }

/** A loaded page: its messages, and the answer in progress. */
async function open(id: string, { transport = transportWith(), ...options }: ChatOptions = {}) {
  const messages = await transportWith().messages(id)
  return new Chat<UIMessage>({ id, transport, messages, ...(options as object) })
}

const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T
const recorded = async (id: string) => plain(await transportWith().messages(id))
const shown = ({ messages }: Chat<UIMessage>) => plain(messages)
const texts = ({ messages }: Chat<UIMessage>): string[] =>
  messages.map(({ role, parts }) => `${role}: ${parts.map((part) => (part.type === 'text' ? part.text : '')).join('')}`)
const toolOf = ({ messages }: Chat<UIMessage>) =>
  messages.flatMap(({ parts }) => parts as Record<string, unknown>[]).findLast(({ type }) => String(type).startsWith('tool-'))
const eventsOf = async (id: string): Promise<string[]> => {
  const types: string[] = []
  for await (const event of here.pawl.session(id).events()) types.push(event.type)
  return types
}

describe('a chat', () => {
  it('a chat shows an answer while it is generated, and then as it is recorded', async () => {
    const id = newId()
    const chat = await open(id)
    const sent = chat.sendMessage({ text: 'tell first' })
    await until('the answer begins', () => texts(chat).at(-1) === 'assistant: Once first')
    expect(chat.status).toBe('streaming')
    gateOf('first').open()
    await sent
    expect(chat.status).toBe('ready')
    expect(texts(chat)).toEqual(['user: tell first', 'assistant: Once first upon a time.'])
    expect(shown(chat)).toEqual(await recorded(id))
    await chat.sendMessage({ text: 'more', metadata: { page: 2 } })
    expect(texts(chat).at(-1)).toBe('assistant: 2: more')
    expect(shown(chat)).toEqual(await recorded(id))
  })

  it.each(['search', 'pause'])(
    'a chat shows a tool that the provider runs while it runs, and then its result and sources (%s)',
    async (what) => {
      const id = newId()
      const chat = await open(id)
      const sent = chat.sendMessage({ text: `${what} ${what}` })
      const part = () => chat.messages.flatMap(({ parts }) => parts).find(({ type }) => type === 'dynamic-tool')
      await until('the search begins', () => part() !== undefined)
      expect(part()).toMatchObject({ toolName: 'web_search', toolCallId: 'srv_1', state: 'input-streaming', providerExecuted: true })
      const late = await open(id)
      const resumed = late.resumeStream()
      await until('the other tab sees it', () => late.messages.flatMap(({ parts }) => parts).some(({ type }) => type === 'dynamic-tool'))
      gateOf(what).open()
      await Promise.all([sent, resumed])
      expect(chat.status).toBe('ready')
      expect(part()).toMatchObject({ state: 'output-available', input: { query: 'rain' }, output: [{ title: 'Rain in Oslo' }] })
      const { type: _, ...page } = PAGE
      expect(chat.messages.at(-1)?.parts.at(-1)).toMatchObject({ type: 'source-url', ...page })
      expect(JSON.stringify(chat.messages)).not.toContain('c2VjcmV0')
      expect(shown(chat)).toEqual(await recorded(id))
      expect(shown(late)).toEqual(await recorded(id))
    },
  )

  it('a chat can be resumed in mid-answer by any number of tabs, and shows each message once', async () => {
    const id = newId()
    const first = await open(id)
    const sent = first.sendMessage({ text: 'tell tabs' })
    await until('the answer begins', () => texts(first).at(-1) === 'assistant: Once tabs')
    const tabs = await Promise.all([open(id), open(id)])
    const resumed = tabs.map(async (tab) => tab.resumeStream())
    for (const tab of tabs) await until('the answer is resumed', () => texts(tab).at(-1) === 'assistant: Once tabs')
    gateOf('tabs').open()
    await Promise.all([sent, ...resumed])
    for (const tab of [first, ...tabs]) expect(shown(tab)).toEqual(await recorded(id))
    await tabs[0]?.resumeStream()
    expect(tabs[0]?.status).toBe('ready')
  })

  it('a message sent during an answer steers the run: it is answered afterwards, in the order of the transcript', async () => {
    const id = newId()
    const chat = await open(id)
    const first = chat.sendMessage({ text: 'hold steer' })
    await until('the tool runs', () => toolOf(chat)?.state === 'input-available')
    const second = chat.sendMessage({ text: 'and this' })
    await until('the message has arrived', async () => (await eventsOf(id)).filter((type) => type === 'message_received').length === 2)
    const late = await open(id)
    const resumed = late.resumeStream()
    gateOf('steer').open()
    await Promise.all([first, second, resumed])
    expect(texts(chat)).toEqual(['user: hold steer', 'assistant: Let me see.', 'user: and this', 'assistant: 2: and this'])
    expect(shown(chat)).toEqual(await recorded(id))
    expect(new Set(texts(late))).toEqual(new Set(texts(chat)))
    expect(late.messages).toHaveLength(4)
  })

  it('a chat stops the run and its model call', async () => {
    const id = newId()
    const chat = await open(id)
    const sent = chat.sendMessage({ text: 'tell stopped' })
    await until('the answer begins', () => texts(chat).at(-1) === 'assistant: Once stopped')
    await chat.stop()
    await sent
    await until('the run is interrupted', async () => (await eventsOf(id)).includes('run_interrupted'))
    await until('the model call is aborted', () => aborted.includes('stopped'))
    expect(chat.status).toBe('ready')
    await chat.sendMessage({ text: 'again' })
    expect(texts(chat).at(-1)).toBe('assistant: 2: again')
  })

  it('a chat stops the run and its tools, even from another tab that resumed it', async () => {
    const id = newId()
    const chat = await open(id)
    const sent = chat.sendMessage({ text: 'hold stop2' })
    await until('the tool runs', () => toolOf(chat)?.state === 'input-available')
    const other = await open(id)
    const resumed = other.resumeStream()
    await until('the other tab looks', () => other.status === 'streaming')
    await other.stop()
    await Promise.all([sent, resumed])
    await until('the tool is aborted', () => aborted.includes('stop2'))
    expect(toolOf(chat)).toMatchObject({ state: 'output-error' })
    expect(chat.lastMessage?.metadata).toMatchObject({ pawl: { status: 'interrupted' } })
    expect(shown(chat)).toEqual(await recorded(id))
  })

  it('a stop that arrives late, after its answer has ended and another page has said something, stops nothing', async () => {
    const id = newId()
    const late = gate()
    const slow = transportWith({
      async fetch(to, init) {
        if (String(to).endsWith('/interrupt')) await late.pass()
        const response = await ask(to, init)
        if (String(to).endsWith('/interrupt')) arrived.open()
        return response
      },
    })
    const arrived = gate()
    const chat = await open(id, { transport: slow })
    const sent = chat.sendMessage({ text: 'tell late1' })
    await until('the answer begins', () => texts(chat).at(-1) === 'assistant: Once late1')
    await chat.stop()
    await sent
    gateOf('late1').open()
    await until('it has ended', async () => (await eventsOf(id)).includes('run_completed'))
    const other = await open(id)
    const answered = other.sendMessage({ text: 'tell late2' })
    await until('the next answer begins', () => texts(other).at(-1) === 'assistant: Once late2')
    late.open()
    await arrived.pass()
    gateOf('late2').open()
    await answered
    expect(await eventsOf(id)).not.toContain('run_interrupted')
    expect(texts(other).at(-1)).toBe('assistant: Once late2 upon a time.')
    await here.pawl.session(id).interrupt({ run: 1 })
    await expect(here.pawl.session(id).interrupt({ run: 0 })).rejects.toMatchObject({ code: 'invalid_option' })
  })

  it('a chat that stops does not stop its run if `onStop` asks for that, or if it has not begun to watch', async () => {
    const id = newId()
    const chat = await open(id, { transport: transportWith({ onStop: 'leave' }) })
    const sent = chat.sendMessage({ text: 'tell left' })
    await until('the answer begins', () => texts(chat).at(-1) === 'assistant: Once left')
    await chat.stop()
    await sent
    const strict = await open(id)
    const looking = strict.resumeStream()
    await strict.stop()
    await looking
    const back = await open(id)
    const resumed = back.resumeStream()
    gateOf('left').open()
    await resumed
    expect(await eventsOf(id)).not.toContain('run_interrupted')
    expect(texts(back).at(-1)).toBe('assistant: Once left upon a time.')
  })

  it('a chat regenerates the newest answer, and refuses to regenerate an older one', async () => {
    const id = newId()
    const chat = await open(id)
    await chat.sendMessage({ text: 'one' })
    await chat.sendMessage({ text: 'two' })
    await chat.regenerate()
    expect(texts(chat)).toEqual(['user: one', 'assistant: 1: one', 'user: two', 'assistant: 2: two'])
    expect(shown(chat)).toEqual(await recorded(id))
    expect(await eventsOf(id)).toContain('rolled_back')
    const older = chat.messages[1]?.id ?? ''
    await chat.regenerate({ messageId: older })
    expect(chat.error).toMatchObject({ name: 'ChatError', code: 'not_newest', status: 409 })
  })

  it('a chat that regenerates an answer again, because the reply to its request was lost, gets the answer of that request', async () => {
    const id = newId()
    let isLost = false
    const fetch: typeof globalThis.fetch = async (to, init) => {
      const response = await ask(to, init)
      if (!isLost) return response
      await response.body?.cancel()
      throw new TypeError('Failed to fetch')
    }
    const chat = await open(id, { transport: transportWith({ fetch }) })
    await chat.sendMessage({ text: 'one' })
    isLost = true
    await chat.regenerate()
    expect(chat.error).toMatchObject({ code: 'server_unreachable' })
    isLost = false
    await chat.regenerate()
    expect(texts(chat)).toEqual(['user: one', 'assistant: 1: one'])
    expect(shown(chat)).toEqual(await recorded(id))
    const repeats = async () => (await eventsOf(id)).filter((type) => type === 'rolled_back').length
    expect(await repeats()).toBe(1)
    await chat.regenerate()
    expect(await repeats()).toBe(2)
  })

  it('a chat sends an edited message again, from its place in the conversation', async () => {
    const id = newId()
    const chat = await open(id)
    await chat.sendMessage({ text: 'one' })
    await chat.sendMessage({ text: 'two' })
    await chat.sendMessage({ text: 'uno', messageId: chat.messages[0]?.id ?? '' })
    expect(texts(chat)).toEqual(['user: uno', 'assistant: 1: uno'])
    expect(shown(chat)).toEqual(await recorded(id))
  })

  it.each([
    ['is empty', '   ', 'desk', 'empty_message'],
    ['names an unknown agent', 'uno', 'nobody', 'unknown_agent'],
    ['names another agent', 'uno', 'other', 'agent_mismatch'],
  ])('an edit that %s is refused, and the conversation stays as it is', async (_, text, agent, code) => {
    const id = newId()
    const chat = await open(id)
    await chat.sendMessage({ text: 'one' })
    const before = await recorded(id)
    const [said] = chat.messages
    const parts = [{ type: 'text', text }]
    const response = await postChat({ id, agent, messages: [{ ...said, parts }], trigger: 'submit-message', messageId: said?.id })
    expect(response.status).toBeGreaterThanOrEqual(400)
    expect(await response.json()).toMatchObject({ code })
    expect(await recorded(id)).toEqual(before)
    expect(await eventsOf(id)).not.toContain('rolled_back')
  })

  it('an edit that was cut off between going back and sending the message is completed when it is sent again', async () => {
    const id = newId()
    const chat = await open(id)
    await chat.sendMessage({ text: 'one' })
    await chat.sendMessage({ text: 'two' })
    const [, , said] = chat.messages
    await here.pawl.session(id).rollback({ message: said?.id ?? '' })
    await chat.sendMessage({ text: 'due', messageId: said?.id ?? '' })
    expect(chat.error).toBeUndefined()
    expect(texts(chat)).toEqual(['user: one', 'assistant: 1: one', 'user: due', 'assistant: 2: due'])
    expect(shown(chat)).toEqual(await recorded(id))
  })

  it.each<[string, object]>([
    ['a file without an address', { type: 'file', mediaType: 'image/png' }],
    ['a file whose address is not text', { type: 'file', mediaType: 'image/png', url: { href: 'https://example.com' } }],
    ['an image of a type that no model accepts', { type: 'file', mediaType: 'image/svg+xml', url: 'https://example.com/a.svg' }],
    ['a text that is not text', { type: 'text', text: ['more'] }],
  ])('a chat refuses a message with %s, instead of sending the rest of it', async (_, part) => {
    const id = newId()
    const parts = [{ type: 'text', text: 'What is this?' }, part]
    const response = await postChat({ id, agent: 'desk', messages: [{ id: 'm', role: 'user', parts }] })
    expect([response.status, await response.json()]).toMatchObject([400, { code: 'invalid_input' }])
    expect(await transportWith().messages(id)).toEqual([])
  })

  it('a chat sends an image at an address whose exact type the page does not know, and leaves out the parts of the page itself', async () => {
    const id = newId()
    const file = { type: 'file', url: 'https://example.com/a' }
    const parts = [{ type: 'data-place', data: 1 }, ...['image', 'image/*', 'image/png'].map((mediaType) => ({ ...file, mediaType }))]
    await (await postChat({ id, agent: 'desk', messages: [{ id: 'm', role: 'user', parts }] })).text()
    const [said] = await transportWith().messages(id)
    expect(said?.parts).toEqual(Array.from({ length: 3 }, () => ({ ...file, mediaType: 'image/*' })))
  })

  it('an edit with a large content is carried out once, however often it is sent', async () => {
    const id = newId()
    const chat = await open(id)
    await chat.sendMessage({ text: 'one' })
    const [said] = chat.messages
    const parts = [{ type: 'text', text: `long ${'x'.repeat(1_200_000)}` }]
    for (let n = 0; n < 2; n++) {
      const response = await postChat({ id, agent: 'desk', messages: [{ ...said, parts }], trigger: 'submit-message', messageId: said?.id })
      await response.text()
      expect(response.status).toBe(200)
    }
    expect((await eventsOf(id)).filter((type) => type === 'rolled_back')).toHaveLength(1)
    expect((await eventsOf(id)).filter((type) => type === 'run_started')).toHaveLength(2)
  })

  it('equal edits, and equal requests to answer again, that are sent at once are carried out once', async () => {
    for (let round = 0; round < 2; round += 1) {
      const id = newId()
      const chat = await open(id)
      await chat.sendMessage({ text: 'one' })
      const [said, answer] = chat.messages
      const counted = async () => {
        const types = await eventsOf(id)
        return ['rolled_back', 'run_started', 'message_received'].map((one) => types.filter((type) => type === one).length)
      }
      const twice = (body: object) =>
        Promise.all(
          [body, body].map(async (one) => {
            const response = await postChat({ id, agent: 'desk', ...one })
            return [response.status, await response.text()] as const
          }),
        )
      const parts = [{ type: 'text', text: 'uno' }]
      const edits = await twice({ messages: [{ ...said, parts }], trigger: 'submit-message', messageId: said?.id })
      for (const [status, text] of edits) expect([status, text.includes('1: uno')]).toEqual([200, true])
      expect(await counted()).toEqual([1, 2, 2])
      const again = { messages: [{ ...said, parts }], trigger: 'regenerate-message' }
      for (const [nth, named] of [{}, { messageId: 'm_3_1' }].entries()) {
        for (const [status, text] of await twice({ ...again, ...named })) expect([status, text.includes('1: uno')]).toEqual([200, true])
        expect(await counted()).toEqual([2 + nth, 3 + nth, 2])
      }
      expect(answer?.id).toBe('m_1_1')
    }
  })

  it.each([
    [true, 'output-available'],
    [false, 'output-denied'],
  ])('a chat passes on whether a person approves a call: %s', async (approved, state) => {
    const id = newId()
    const first = await open(id)
    await first.sendMessage({ text: `pay order${approved}` })
    expect(first.status).toBe('ready')
    // The page is loaded again before the person decides.
    const chat = await open(id, { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses } as object)
    expect(toolOf(chat)).toMatchObject({ state: 'approval-requested', input: { what: `order${approved}` } })
    const { approval } = toolOf(chat) as { approval: { id: string } }
    await chat.addToolApprovalResponse({ id: approval.id, approved, reason: 'I looked.' })
    await until('the answer continues', () => texts(chat).at(-1)?.includes('1: pay') && chat.status === 'ready')
    expect(toolOf(chat)).toMatchObject({ state, approval: { approved } })
    const [mine, theirs] = [shown(chat), await recorded(id)]
    if (approved) for (const { parts } of [...mine, ...theirs]) for (const part of parts) delete (part as { approval?: object }).approval
    expect(mine).toEqual(theirs)
  })

  it('a chat answers a client tool in the page, once, even if the page is loaded again', async () => {
    const id = newId()
    let asked = 0
    const options: ChatOptions = {
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall: ({ toolCall: { toolCallId } }) => {
        asked += 1
        void chat.addToolOutput({ tool: 'ask' as never, toolCallId, output: { color: 'red' } as never })
      },
    }
    const chat = await open(id, options)
    await chat.sendMessage({ text: 'ask color' })
    await until('the answer continues', () => texts(chat).at(-1)?.includes('1: ask') && chat.status === 'ready')
    expect(asked).toBe(1)
    expect(toolOf(chat)).toMatchObject({ state: 'output-available', output: { color: 'red' } })
    expect(shown(chat)).toEqual(await recorded(id))
    const reloaded = await open(id, options)
    expect(shown(reloaded)).toEqual(await recorded(id))
    expect(asked).toBe(1)
  })

  it('a client tool whose call is made again is answered anew: a page shows that it waits, and what it answered before does not count', async () => {
    const id = newId()
    const chat = await open(id)
    await chat.sendMessage({ text: 'ask again' })
    const answer = (page: Chat<UIMessage>, color: string) =>
      page.addToolOutput({ tool: 'ask' as never, toolCallId: String(toolOf(page)?.toolCallId), output: { color } as never })
    await answer(chat, 'red')
    await chat.sendMessage()
    expect(chat.error).toMatchObject({ code: 'bad_request' })
    const session = here.pawl.session(id)
    await session.recover({ strategy: 'selective', redo: ['t_1_1_0'] })
    const waiting = async () => (await session.state()).current?.calls.map(({ callId, status }) => `${callId} ${status}`)
    await until('it is asked again', async () => (await waiting())?.join() === 't_1_1_0#2 awaiting_answer')
    const other = await open(id)
    await other.resumeStream()
    expect(toolOf(other)).toMatchObject({ state: 'input-available', input: { what: 'again' } })
    expect(shown(other)).toEqual(await recorded(id))
    await chat.sendMessage()
    expect(chat.error).toMatchObject({ code: 'history_changed' })
    expect(await waiting()).toEqual(['t_1_1_0#2 awaiting_answer'])
    await answer(other, 'blue')
    await other.sendMessage()
    expect(other.error).toBeUndefined()
    expect(toolOf(other)).toMatchObject({ state: 'output-available', output: { color: 'blue' } })
    expect(shown(other)).toEqual(await recorded(id))
  })

  it.each(['the answer', 'the decision'])(
    'a chat sends an answer and a decision about two calls of a step once each: %s comes first',
    async (first) => {
      const id = newId()
      let posts = 0
      const fetch: typeof globalThis.fetch = async (to, init) => {
        if (init?.method === 'POST') posts += 1
        return ask(to, init)
      }
      const sendAutomaticallyWhen = (page: { messages: UIMessage[] }) =>
        lastAssistantMessageIsCompleteWithApprovalResponses(page) || lastAssistantMessageIsCompleteWithToolCalls(page)
      const chat = await open(id, { transport: transportWith({ fetch }), sendAutomaticallyWhen })
      await chat.sendMessage({ text: `both ${first.replace(' ', '-')}` })
      const part = (type: string) =>
        chat.messages.flatMap(({ parts }) => parts as Record<string, unknown>[]).find((one) => one.type === type) ?? expect.fail(type)
      const answer = async () =>
        chat.addToolOutput({ tool: 'ask' as never, toolCallId: String(part('tool-ask').toolCallId), output: { color: 'red' } as never })
      const decide = async () => chat.addToolApprovalResponse({ id: (part('tool-pay').approval as { id: string }).id, approved: true })
      await (first === 'the answer' ? answer() : decide())
      await sleep(2_000)
      // Once too often at most: nothing but the page's next look says that nothing has changed.
      expect(posts).toBeLessThanOrEqual(3)
      await until('it is at rest', () => chat.status === 'ready')
      await (first === 'the answer' ? decide() : answer())
      await until('the answer continues', () => texts(chat).at(-1)?.includes('1: both') && chat.status === 'ready')
      expect(shown(chat).length).toBe((await recorded(id)).length)
      expect(posts).toBeLessThanOrEqual(4)
      expect(chat.error).toBeUndefined()
    },
  )

  it('a page finds each of two calls that wait for an approval, and decides them one after another', async () => {
    const pending = (page: readonly UIMessage[]) =>
      page.flatMap(({ parts }) => parts.filter(isToolUIPart).flatMap((part) => (part.state === 'approval-requested' ? [part] : [])))
    const chat = await open(newId())
    await chat.sendMessage({ text: 'twice' })
    const inputs = () => pending(chat.messages).map((part) => part.input)
    expect(inputs()).toEqual([{ what: 'first' }, { what: 'second' }])
    await chat.addToolApprovalResponse({ id: pending(chat.messages)[1]?.approval.id ?? '', approved: false })
    await chat.sendMessage()
    expect(inputs()).toEqual([{ what: 'first' }])
    expect(pending(await transportWith().messages<UIMessage>(chat.id))).toMatchObject([{ input: { what: 'first' } }])
    await chat.addToolApprovalResponse({ id: pending(chat.messages)[0]?.approval.id ?? '', approved: true })
    await chat.sendMessage()
    expect(inputs()).toEqual([])
    expect(texts(chat).at(-1)).toContain('1: twice')
  })

  it('a chat removes what a failed attempt has said', async () => {
    const id = newId()
    const chat = await open(id)
    const sent = chat.sendMessage({ text: 'retry void' })
    await until('the first attempt speaks', () => texts(chat).at(-1) === 'assistant: A void beginning')
    gateOf('void').open()
    await sent
    expect(texts(chat)).toEqual(['user: retry void', 'assistant: 1: retry void'])
    expect(shown(chat)).toEqual(await recorded(id))
  })

  it('a chat continues where it was after its connection is cut in mid-answer', async () => {
    const id = newId()
    let cuts = 0
    const cutting: typeof fetch = async (to, init) => {
      const response = await ask(to, init)
      if (!response.body || cuts >= 3 || !response.headers.get('content-type')?.includes('event-stream')) return response
      cuts += 1
      return new Response(cutAfter(response.body, 'Once cut'), { headers: response.headers })
    }
    const chat = await open(id, { transport: transportWith({ fetch: cutting }) })
    const sent = chat.sendMessage({ text: 'tell cut' })
    await until('it was cut', () => cuts === 3)
    await until('the answer is there again', () => texts(chat).at(-1) === 'assistant: Once cut')
    gateOf('cut').open()
    await sent
    expect(shown(chat)).toEqual(await recorded(id))
    expect(texts(chat)).toEqual(['user: tell cut', 'assistant: Once cut upon a time.'])
  })

  it('a chat shows why a run has failed, and why a request is refused', async () => {
    const chat = await open(newId())
    await chat.sendMessage({ text: 'fail' })
    expect(chat.status).toBe('error')
    const failed = { name: 'ChatError', code: 'bad_request', message: 'The answer could not be completed.' }
    expect(chat.error).toMatchObject(failed)
    const reader = await open(newId(), { transport: transportWith({ headers: { 'x-key': 'reader' } }) })
    await reader.sendMessage({ text: 'hello' })
    const forbidden = { name: 'ChatError', code: 'forbidden', status: 403, message: 'You are not allowed to do this.' }
    expect(reader.error).toMatchObject({ ...forbidden, detail: expect.stringContaining('scope "send"') })
    const other = new Chat<UIMessage>({ id: 'globex:1', transport: transportWith() })
    await other.resumeStream()
    expect(other.error).toMatchObject({ code: 'session_not_found', status: 404 })
  })

  describe('the texts of errors', () => {
    const textsOf = async (id: string) => JSON.stringify(await transportWith().messages(id))

    it('a page gets the message of a ToolError, but not the message of any other exception or of a failed run', async () => {
      const chat = await open(newId())
      await chat.sendMessage({ text: 'look closed' })
      expect(toolOf(chat)).toMatchObject({ state: 'output-error', errorText: 'The order is closed.' })
      await chat.sendMessage({ text: 'look away' })
      expect(toolOf(chat)).toMatchObject({ state: 'output-error', errorText: 'This call has failed.' })
      await chat.sendMessage({ text: 'check it' })
      const { approval } = toolOf(chat) as { approval: { id: string } }
      expect(approval).toMatchObject({ requestReason: "The tool's approval function failed." })
      await chat.addToolApprovalResponse({ id: approval.id, approved: true })
      await chat.sendMessage()
      expect(await until('the outcome is unknown', async () => (await here.pawl.session(chat.id).status()).waitsFor[0]?.to)).toBe('resolve')
      await here.pawl.session(chat.id).resolve((toolOf(chat) as { toolCallId: string }).toolCallId, 'skip')
      await chat.resumeStream()
      expect(toolOf(chat)).toMatchObject({ state: 'output-error', errorText: expect.stringContaining('not known') })
      await chat.sendMessage({ text: 'wire it' })
      expect(toolOf(chat)).toMatchObject({ state: 'output-error', errorText: 'Whether this call took effect is unknown.' })
      await chat.sendMessage({ text: 'fail' })
      expect(chat.error).toMatchObject({ code: 'bad_request', detail: expect.not.stringContaining('The model refuses.') })
      expect(JSON.stringify(shown(chat)) + (await textsOf(chat.id))).not.toContain('secret')
    })

    it('a page gets the texts of all errors if its server is told to show them', async () => {
      const open = createHandler({
        pawl: here.pawl,
        authorize: () => ACCESSES.ann ?? null,
        logger: SILENT,
        basePath: '/api/pawl',
        errorTexts: 'shown',
      })
      const transport = transportWith({ fetch: async (to, init) => open(new Request(new URL(String(to), 'http://ui.test'), init)) })
      const chat = new Chat<UIMessage>({ id: newId(), transport })
      await chat.sendMessage({ text: 'look away' })
      expect(toolOf(chat)).toMatchObject({ state: 'output-error', errorText: SECRET })
      expect(JSON.stringify(await transport.messages(chat.id))).toContain(SECRET)
      await chat.sendMessage({ text: 'fail' })
      expect(chat.error).toMatchObject({ code: 'bad_request', detail: 'The model refuses.' })
    })
  })

  it('a chat needs the scope "approve" to decide on a call', async () => {
    const id = newId()
    const transport = transportWith({ headers: { 'x-key': 'sender' } })
    const chat = await open(id, { transport })
    await chat.sendMessage({ text: 'pay unseen' })
    const { approval } = toolOf(chat) as { approval: { id: string } }
    await chat.addToolApprovalResponse({ id: approval.id, approved: true })
    await chat.sendMessage()
    expect(chat.error).toMatchObject({ code: 'forbidden' })
    expect(await eventsOf(id)).not.toContain('approval_decided')
  })
})

describe('a page that follows its chat', () => {
  /** A loaded page that follows, until the test ends. */
  async function following(id: string, options: ChatOptions = {}) {
    const transport = options.transport instanceof PawlChatTransport ? options.transport : transportWith()
    const chat = await open(id, { ...options, transport })
    onTestFinished(
      transport.follow(id, {
        setMessages: (update) => void (chat.messages = update(chat.messages)),
        resumeStream: () => chat.resumeStream(),
      }),
    )
    return chat
  }

  it('a page that follows its chat shows the messages of another page before, during and after its own', async () => {
    const id = newId()
    const [first, second] = await Promise.all([following(id), following(id)])
    const sent = first.sendMessage({ text: 'tell follow' })
    await until('the other page shows the beginning', () => texts(second).at(-1) === 'assistant: Once follow')
    expect(texts(second)[0]).toBe('user: tell follow')
    expect(second.status).toBe('streaming')
    gateOf('follow').open()
    await sent
    await until('the other page shows the answer', () => second.status === 'ready' && texts(second).at(-1)?.endsWith('time.'))
    await second.sendMessage({ text: 'and back' })
    await until('the first page shows it', () => texts(first).at(-1) === 'assistant: 2: and back' && first.status === 'ready')
    for (const chat of [first, second]) expect(shown(chat)).toEqual(await recorded(id))
  })

  it.each([
    [true, 'output-available'],
    [false, 'output-denied'],
  ])('a page that follows its chat shows what another person decides: %s', async (approved, state) => {
    const id = newId()
    const chat = await following(id)
    await chat.sendMessage({ text: `pay follow${approved}` })
    expect(toolOf(chat)).toMatchObject({ state: 'approval-requested' })
    expect(chat.status).toBe('ready')
    const session = here.pawl.session(id)
    const [wait] = (await session.status()).waitsFor
    const { callId = '', digest = '' } = wait as { callId?: string; digest?: string }
    if (approved) await session.approve(callId, { digest, by: 'boss' })
    else await session.deny(callId, { digest, by: 'boss', reason: 'No.' })
    await until('the answer continues', () => texts(chat).at(-1)?.includes('1: pay') && chat.status === 'ready')
    expect(toolOf(chat)).toMatchObject({ state })
    expect(shown(chat)).toEqual(await recorded(id))
  })

  it('a page that follows its chat shows that a failed run is recovered, and that the session was rolled back', async () => {
    const id = newId()
    const chat = await following(id)
    await chat.sendMessage({ text: 'one' })
    await chat.sendMessage({ text: 'flaky it' })
    expect(chat.status).toBe('error')
    await here.pawl.session(id).recover({ strategy: 'continue_run', by: 'operator' })
    await until('the answer is there', () => texts(chat).at(-1) === 'assistant: 2: flaky it' && chat.status === 'ready')
    expect(chat.error).toBeUndefined()
    await here.pawl.session(id).rollback({ run: 2, by: 'operator' })
    await until('the second run is gone', () => texts(chat).length === 2)
    expect(shown(chat)).toEqual(await recorded(id))
  })

  it('a page shows a message that steers a run from elsewhere, and keeps a decision that it has not sent', async () => {
    const id = newId()
    const [first, second] = await Promise.all([following(id), following(id)])
    const sent = first.sendMessage({ text: 'hold steered' })
    await until('the tool runs', () => toolOf(second)?.state === 'input-available')
    await here.pawl.session(id).send('from elsewhere')
    gateOf('steered').open()
    await sent
    const all = ['user: hold steered', 'assistant: Let me see.', 'user: from elsewhere', 'assistant: 2: from elsewhere']
    for (const chat of [first, second]) await until('it is complete', () => JSON.stringify(texts(chat)) === JSON.stringify(all))
    for (const chat of [first, second]) expect(shown(chat)).toEqual(await recorded(id))
  })

  describe('shows the recorded messages again, beside the error,', () => {
    const sender = () => transportWith({ headers: { 'x-key': 'sender' } })

    it('a page shows the recorded messages again after a refused approval, which can then be made again', async () => {
      const id = newId()
      const options = { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses } as object
      let key = 'sender'
      const chat = await following(id, { ...options, transport: transportWith({ headers: () => ({ 'x-key': key }) }) })
      await chat.sendMessage({ text: 'pay refused' })
      const { approval } = toolOf(chat) as { approval: { id: string } }
      await chat.addToolApprovalResponse({ id: approval.id, approved: true })
      await until('it is refused', () => chat.error)
      await until('it is asked for again', () => toolOf(chat)?.state === 'approval-requested')
      await sleep(500)
      expect(chat.error).toMatchObject({ code: 'forbidden' })
      expect(shown(chat)).toEqual(await recorded(id))
      key = 'ann'
      await chat.addToolApprovalResponse({ id: approval.id, approved: true })
      await until('the answer continues', () => texts(chat).at(-1)?.includes('1: pay') && chat.status === 'ready')
      expect(toolOf(chat)).toMatchObject({ state: 'output-available' })
    })

    it('a page shows the recorded messages again after an answer that does not fit its schema, which can then be corrected', async () => {
      const id = newId()
      const chat = await following(id, { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls })
      await chat.sendMessage({ text: 'ask shade' })
      const { toolCallId } = toolOf(chat) as { toolCallId: string }
      const answer = async (output: object) => chat.addToolOutput({ tool: 'ask' as never, toolCallId, output: output as never })
      await answer({ color: 7 })
      await until('it is refused', () => chat.error)
      await until('it is asked for again', () => toolOf(chat)?.state === 'input-available')
      await sleep(500)
      expect(chat.error).toMatchObject({ code: 'invalid_answer', status: 400 })
      expect(shown(chat)).toEqual(await recorded(id))
      await answer({ color: 'red' })
      await until('the answer continues', () => texts(chat).at(-1)?.includes('1: ask') && chat.status === 'ready')
      expect(toolOf(chat)).toMatchObject({ state: 'output-available', output: { color: 'red' } })
    })

    it('a page shows the recorded messages again after a refused edit, and after an answer that may not be regenerated', async () => {
      const id = newId()
      const chat = await following(id, { transport: sender() })
      await chat.sendMessage({ text: 'one' })
      await chat.sendMessage({ text: 'two' })
      const all = ['user: one', 'assistant: 1: one', 'user: two', 'assistant: 2: two']
      const isWhole = (): boolean => JSON.stringify(texts(chat)) === JSON.stringify(all)
      await chat.sendMessage({ text: 'uno', messageId: chat.messages[0]?.id ?? '' })
      expect(chat.error).toMatchObject({ code: 'forbidden', status: 403 })
      await until('the conversation is whole', isWhole)
      await chat.regenerate({ messageId: chat.messages[1]?.id ?? '' })
      expect(chat.error).toMatchObject({ code: 'not_newest', status: 409 })
      await until('the conversation is whole', isWhole)
      await sleep(500)
      expect(chat.error).toMatchObject({ code: 'not_newest' })
    })
  })

  it('a page that follows its chat keeps a message that did not arrive, until it is sent again', async () => {
    const id = newId()
    let isAway = false
    const fetch: typeof globalThis.fetch = async (to, init) => {
      if (isAway && init?.method === 'POST') throw new TypeError('Failed to fetch')
      return ask(to, init)
    }
    const chat = await following(id, { transport: transportWith({ fetch }) })
    await chat.sendMessage({ text: 'one' })
    isAway = true
    await chat.sendMessage({ text: 'lost' })
    expect(chat.error).toMatchObject({ name: 'ChatError', code: 'server_unreachable', status: 0, cause: { message: 'Failed to fetch' } })
    await (await open(id)).sendMessage({ text: 'from elsewhere' })
    const others = ['user: one', 'assistant: 1: one', 'user: from elsewhere', 'assistant: 2: from elsewhere', 'user: lost']
    await until('it shows what was said elsewhere', () => JSON.stringify(texts(chat)) === JSON.stringify(others))
    isAway = false
    await chat.regenerate()
    expect(chat.error).toMatchObject({ code: 'not_newest' })
    await chat.sendMessage()
    expect(texts(chat)).toEqual([...others, 'assistant: 3: lost'])
    await until('it is at rest', () => chat.status === 'ready')
    expect(shown(chat)).toEqual(await recorded(id))
  })

  it('a page that follows its chat continues elsewhere when its server stops', async () => {
    const id = newId()
    const authorize = (): Access | null => ACCESSES.ann ?? null
    const make = () => createHandler({ pawl: here.pawl, authorize, logger: SILENT, basePath: '/api/pawl' })
    let current = make()
    const opened: string[] = []
    const asking: typeof fetch = async (to, init) => {
      if (String(to).includes('/changes')) opened.push(String(to))
      return current(new Request(new URL(String(to), 'http://ui.test'), init))
    }
    const chat = await following(id, { transport: transportWith({ fetch: asking }) })
    await until('it follows', () => opened.length === 1)
    const old = current
    current = make()
    old.drain()
    await until('it follows again', () => opened.length === 2)
    await (await open(id)).sendMessage({ text: 'after the stop' })
    await until('it shows what was said', () => texts(chat).at(-1) === 'assistant: 1: after the stop')
  })
})

it('a message that cannot be streamed, because its caller has too many streams, is not accepted', async () => {
  const one = createHandler({ pawl: here.pawl, authorize: () => ACCESSES.ann, logger: SILENT, maxWatchesPerCaller: 1 })
  const id = newId()
  const post = (text: string): Promise<Response> => {
    const messages = [{ id: randomUUID(), role: 'user', parts: [{ type: 'text', text }] }]
    const body = JSON.stringify({ id, agent: 'desk', messages, trigger: 'submit-message' })
    return one(new Request('http://ui.test/v1/ui', { method: 'POST', headers: { 'content-type': 'application/json' }, body }))
  }
  await (await post('first')).text()
  const stop = new AbortController()
  const watching = await one(new Request(`http://ui.test/v1/ui/${id}/changes`, { signal: stop.signal }))
  expect(watching.status).toBe(200)
  const refused = await post('second')
  expect({ status: refused.status, ...((await refused.json()) as object) }).toMatchObject({ status: 429, code: 'too_many_watches' })
  stop.abort()
  await until('the stream has ended', async () => {
    const answered = await post('third')
    await answered.text()
    return answered.status === 200
  })
  expect((await recorded(id)).map(({ parts }) => JSON.stringify(parts)).join()).not.toContain('second')
})

describe('a decision about a call that was decided elsewhere', () => {
  it.each([true, false])(
    'a page shows how a call was decided elsewhere, and no error, even if it does not follow: approved %s',
    async (approved) => {
      const id = newId()
      const chat = await open(id, { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses } as object)
      await chat.sendMessage({ text: `pay late${approved}` })
      const session = here.pawl.session(id)
      const [wait] = (await session.status()).waitsFor
      const { callId = '', digest = '' } = wait as { callId?: string; digest?: string }
      await session.approve(callId, { digest, by: 'boss' })
      await until('the run has ended', async () => (await eventsOf(id)).includes('run_completed'))
      const { approval } = toolOf(chat) as { approval: { id: string } }
      await chat.addToolApprovalResponse({ id: approval.id, approved })
      await until('the answer continues', () => texts(chat).at(-1)?.includes('1: pay') && chat.status === 'ready')
      expect(chat.error).toBeUndefined()
      expect(toolOf(chat)).toMatchObject({ state: 'output-available' })
    },
  )
})

describe('the transport of the AI SDK itself', () => {
  it('the transport of the AI SDK itself works with the same routes, and shows finished answers', async () => {
    const id = newId()
    const api = 'http://ui.test/api/pawl/v1/ui'
    const transport = new DefaultChatTransport<UIMessage>({ api, headers: { 'x-key': 'ann' }, body: { agent: 'desk' }, fetch: ask })
    const chat = new Chat<UIMessage>({ id, transport })
    const sent = chat.sendMessage({ text: 'tell plain' })
    await until('the run has begun', async () => (await eventsOf(id)).includes('turn_started'))
    const other = new Chat<UIMessage>({ id, transport })
    const resumed = other.resumeStream()
    gateOf('plain').open()
    await Promise.all([sent, resumed])
    expect(shown(chat)).toEqual(await recorded(id))
    expect(shown(other)).toEqual((await recorded(id)).slice(1))
  })
})

/** The body, which fails after this text. */
function cutAfter(body: ReadableStream<Uint8Array>, text: string): ReadableStream<Uint8Array> {
  let seen = ''
  const decoder = new TextDecoder()
  return body.pipeThrough(
    new TransformStream({
      transform(bytes, controller) {
        seen += decoder.decode(bytes, { stream: true })
        controller.enqueue(bytes)
        if (seen.includes(text)) controller.error(new TypeError('network error'))
      },
    }),
  )
}
