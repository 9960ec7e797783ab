// A chat whose agent calls other agents, which call further ones: their text appears inside the parts of the calls.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { agentTool, defineAgent, defineTool, type ModelCallContext, type ModelRequest } from 'pawl'
import { createHandler, type Handler } from 'pawl/service'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { PawlChatTransport } from 'pawl/ui'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import type { UIMessage } from '../ai-sdk-7/ai.ts'
import { Chat } from '../ai-sdk-7/react.ts'
import { deploy, type Deployment, SILENT } from '../support/deployment.ts'
import { resultsIn, saidIn } from '../support/tree.ts'
import { type Gate, gate, until } from '../support/until.ts'

const LIMIT = { timeout: 120_000 }
const TIMEOUT = { timeout: 30_000 }

/** The gates of one chat: each agent waits at its own before its last answer. */
type AgentOfTest = 'boss' | 'helper' | 'clerk' | 'scout'
const gates = new Map<string, Record<AgentOfTest, Gate>>()
const gatesOf = (session: string): Record<AgentOfTest, Gate> => gates.get(session.split('/')[0] ?? '') ?? expect.fail(session)

/** Where the clerk of a chat waits in the middle of its last answer. */
const held = new Map<string, Gate>()

const note = defineTool({ name: 'note', description: 'x', input: z.object({}), effect: 'read', execute: () => 'noted' })
const use = (name: string, input: { message?: string }, n = 0) => ({ type: 'tool_use' as const, id: `u${n}`, name, input })

/** Says something first, with calls; then waits at its gate, and streams the rest in two pieces. */
const scene = (agent: AgentOfTest, first: Exclude<ScriptedAnswer, string>, [one, two]: [string, string]) =>
  scripted(async (request: ModelRequest, ctx: ModelCallContext): Promise<ScriptedAnswer> => {
    if (resultsIn(request.messages).length === 0) return first
    await gatesOf(request.sessionId)[agent].pass(ctx.signal)
    ctx.onDelta({ type: 'text', index: 0, text: one })
    if (agent === 'clerk') await held.get(request.sessionId.split('/')[0] ?? '')?.pass(ctx.signal)
    return one + two
  })

const clerk = defineAgent({
  name: 'clerk',
  instructions: 'x',
  tools: [note],
  model: scene('clerk', [{ type: 'text', text: 'I read.' }, use('note', {})], ['It is', ' blue.']),
})
const scout = defineAgent({
  name: 'scout',
  instructions: 'x',
  tools: [note],
  model: scene('scout', [{ type: 'text', text: 'I look around.' }, use('note', {})], ['All', ' clear.']),
})
const helper = defineAgent({
  name: 'helper',
  instructions: 'x',
  tools: [agentTool(clerk)],
  model: scene('helper', [{ type: 'text', text: 'I ask the clerk.' }, use('clerk', { message: 'Which colour?' })], ['So it is', ' blue.']),
})
const boss = defineAgent({
  name: 'boss',
  instructions: 'x',
  tools: [agentTool(helper), agentTool(scout, { background: true })],
  model: scripted(async (request: ModelRequest, ctx: ModelCallContext): Promise<ScriptedAnswer> => {
    if (resultsIn(request.messages).length === 0)
      return [use('scout', { message: 'Is it safe?' }), use('helper', { message: 'Colour?' }, 1)]
    await gatesOf(request.sessionId).boss.pass(ctx.signal)
    return `Heard: ${saidIn(request)}`
  }),
})

/** Speaks on and on until its gate opens. */
const speaker = defineAgent({
  name: 'speaker',
  instructions: 'x',
  model: scripted(async ({ sessionId }: ModelRequest, ctx: ModelCallContext): Promise<ScriptedAnswer> => {
    let isOpen = false
    void gatesOf(sessionId)
      .scout.pass(ctx.signal)
      .finally(() => {
        isOpen = true
      })
      .catch(() => undefined)
    for (let n = 0; !isOpen; n++) {
      ctx.onDelta({ type: 'text', index: 0, text: `${n} ` })
      await sleep(20)
    }
    return 'enough'
  }),
})
const asker = defineAgent({
  name: 'asker',
  instructions: 'x',
  tools: [
    agentTool(speaker, { background: true }),
    defineTool({ name: 'pay', description: 'x', input: z.object({}), effect: 'external', approval: true, execute: () => 'paid' }),
  ],
  model: scripted(({ messages }: ModelRequest): ScriptedAnswer => {
    const { length } = resultsIn(messages)
    if (length > 1) return 'Done.'
    return [length === 0 ? use('speaker', { message: 'Speak.' }) : use('pay', {})]
  }),
})

/** Asks the clerk, and pays at the same time. */
const payer = defineAgent({
  name: 'payer',
  instructions: 'x',
  tools: [
    agentTool(clerk),
    defineTool({ name: 'pay', description: 'x', input: z.object({}), effect: 'external', approval: true, execute: () => 'paid' }),
  ],
  model: scripted(
    ({ messages }: ModelRequest): ScriptedAnswer =>
      resultsIn(messages).length > 0 ? 'Done.' : [use('clerk', { message: 'Colour?' }), use('pay', {}, 1)],
  ),
})

let here: Deployment
let handler: Handler

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [boss, helper, clerk, scout, asker, speaker, payer] })
  handler = createHandler({
    pawl: here.pawl,
    authorize: () => ({ identity: 'ann', scopes: ['read', 'send', 'approve'] }),
    agents: ['boss', 'asker', 'payer'],
    logger: SILENT,
    basePath: '/api/pawl',
  })
})
afterAll(async () => {
  for (const one of [...[...gates.values()].flatMap((all) => Object.values(all)), ...held.values()]) one.open()
  await here?.stop()
})

const ask: typeof fetch = async (to, init) => handler(new Request(new URL(String(to), 'http://ui.test'), init))

/** The same, with connections that a test can cut. */
function wire() {
  const open = new Set<TransformStreamDefaultController>()
  const cuttable = (body: ReadableStream<Uint8Array>) =>
    body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({ start: (controller) => void open.add(controller) }))
  const through: typeof fetch = async (to, init) => {
    const response = await ask(to, init)
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
    return isStream && response.body ? new Response(cuttable(response.body), response) : response
  }
  return {
    through,
    cut() {
      for (const controller of open) controller.error(new TypeError('cut'))
      open.clear()
    },
  }
}
const transport = (show: 'pieces' | 'steps' = 'pieces', agent = 'boss') => new PawlChatTransport({ agent, fetch: ask, show })

async function open(id: string, show?: 'steps', agent?: string) {
  return new Chat<UIMessage>({ id, transport: transport(show, agent) as never, messages: (await transport().messages(id)) as never })
}

function begin() {
  const id = `ui:${randomUUID()}`
  const all = { boss: gate(), helper: gate(), clerk: gate(), scout: gate() }
  gates.set(id, all)
  return { id, all }
}

const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T
type Part = Record<string, unknown>
const partOf = (messages: readonly { parts: readonly object[] }[], tool: string): Part | undefined =>
  messages.flatMap(({ parts }) => parts as Part[]).findLast(({ type }) => type === `tool-${tool}`)
const below = (part: Part | undefined): { parts: Part[] } => (part?.preliminary ? (part.output as { parts: Part[] }) : { parts: [] })
const textsIn = (part: Part | undefined): unknown[] => below(part).parts.flatMap(({ type, text }) => (type === 'text' ? [text] : []))
const clerkIn = (messages: Chat<UIMessage>['messages']): Part | undefined => partOf([below(partOf(messages, 'helper'))], 'clerk')
const same = async (chat: Chat<UIMessage>, id: string): Promise<boolean> => {
  expect(plain(chat.messages)).toEqual(plain(await transport().messages(id)))
  return true
}

it('the text of an agent two levels down and of one in the background grows in its call’s part, alike in all tabs', LIMIT, async () => {
  const { id, all } = begin()
  const chat = await open(id)
  const sent = chat.sendMessage({ text: 'go' })
  await until('the clerk has said something', () => textsIn(clerkIn(chat.messages))[0] === 'I read.')
  await until('the scout has said something', () => textsIn(partOf(chat.messages, 'scout'))[0] === 'I look around.')
  expect(partOf(chat.messages, 'helper')).toMatchObject({ state: 'output-available', preliminary: true, providerExecuted: true })
  expect(below(partOf(chat.messages, 'helper')).parts).toMatchObject([
    { type: 'text', text: 'I ask the clerk.', state: 'done' },
    {
      type: 'tool-clerk',
      state: 'output-available',
      preliminary: true,
      providerExecuted: true,
      input: { message: 'Which colour?' },
      output: { role: 'assistant', parts: [{ type: 'text', text: 'I read.', state: 'done' }] },
    },
  ])
  const session = clerkIn(chat.messages)?.output as { id: string } | undefined
  expect((await here.pawl.session(session?.id ?? '').state()).agent).toBe('clerk')
  await until('a page that loads shows the same', () => same(chat, id))
  // While the session waits for an agent, no step of its own would store that the call in the background has completed.
  await until('the call is stored', async () => (await here.pawl.session(id).toolCalls())[0]?.status === 'completed')
  const [late, finished] = [await open(id), await open(id, 'steps')]
  const resumed = late.resumeStream()
  const resumedInSteps = finished.resumeStream()
  all.clerk.open()
  await until('the call of the clerk has its answer', () => clerkIn(chat.messages)?.output === 'It is blue.')
  expect(clerkIn(chat.messages)?.preliminary).toBeUndefined()
  for (const tab of [chat, late, finished]) await until('every tab shows the same as the history', () => same(tab, id))
  all.helper.open()
  await until('the helper’s part has its answer', () => partOf(chat.messages, 'helper')?.output === 'So it is blue.')
  expect(textsIn(partOf(chat.messages, 'scout'))).toEqual(['I look around.'])
  for (const tab of [chat, late, finished]) await until('every tab shows the same as the history', () => same(tab, id))
  all.boss.open()
  await Promise.all([sent, resumed, resumedInSteps])
  expect(partOf(chat.messages, 'scout')).toMatchObject({ output: { session: expect.stringContaining(`${id}/`), status: 'started' } })
  for (const tab of [chat, late, finished]) await same(tab, id)
  all.scout.open()
  const answered = await until('the scout’s answer has arrived', async () => {
    const { messages } = await transport().messagesPage(id)
    return messages.filter(({ role }) => role === 'assistant').length === 2 && messages
  })
  expect(JSON.stringify(answered.at(-2))).toContain('All clear.')
})

it('streamed text of an agent two levels down appears before it is recorded, and a page that resumes shows it', LIMIT, async () => {
  const { id, all } = begin()
  const holding = gate()
  held.set(id, holding)
  const chat = await open(id)
  const sent = chat.sendMessage({ text: 'go' })
  all.clerk.open()
  await until('the clerk’s text appears', () => textsIn(clerkIn(chat.messages)).at(-1) === 'It is')
  expect(below(clerkIn(chat.messages)).parts.at(-1)).toMatchObject({ state: 'streaming' })
  const late = await open(id)
  expect(textsIn(clerkIn(late.messages))).toEqual(['I read.'])
  const resumed = late.resumeStream()
  await until('the other tab shows it', () => textsIn(clerkIn(late.messages)).at(-1) === 'It is')
  holding.open()
  for (const one of Object.values(all)) one.open()
  await Promise.all([sent, resumed])
  expect(partOf(chat.messages, 'helper')?.output).toBe('So it is blue.')
})

it('a background agent that answers during the run leaves what its call has returned', LIMIT, async () => {
  const { id, all } = begin()
  const chat = await open(id)
  const sent = chat.sendMessage({ text: 'go' })
  await until('the scout has said something', () => textsIn(partOf(chat.messages, 'scout'))[0] === 'I look around.')
  all.scout.open()
  await until('its answer is a message', async () => JSON.stringify(await transport().messages(id)).includes('All clear.'))
  expect(partOf(await transport().messages(id), 'scout')).toMatchObject({ output: { status: 'started' } })
  await until('its part shows that', () => !partOf(chat.messages, 'scout')?.preliminary)
  expect(partOf(chat.messages, 'scout')).toEqual(partOf(await transport().messages(id), 'scout'))
  all.clerk.open()
  await until('the text of the others appears', () => clerkIn(chat.messages)?.output === 'It is blue.')
  for (const one of Object.values(all)) one.open()
  await sent
  const settled = await here.pawl
    .session(id)
    .run((await transport().messages(id))[0]?.id ?? '')
    .result(TIMEOUT)
  expect(settled.text).toMatch(/^Heard: .*All clear/s)
  expect(partOf(chat.messages, 'scout')).toEqual(partOf(await transport().messages(id), 'scout'))
  expect(partOf(chat.messages, 'helper')?.output).toBe('So it is blue.')
})

it('an agent that speaks in the background keeps no stream open while the run waits for a person, who can then decide', LIMIT, async () => {
  const { id, all } = begin()
  const chat = await open(id, undefined, 'asker')
  await chat.sendMessage({ text: 'go' })
  const asked = partOf(chat.messages, 'pay') as { state: string; approval: { id: string } } | undefined
  expect(asked?.state).toBe('approval-requested')
  expect(partOf(chat.messages, 'speaker')).toMatchObject({ preliminary: true })
  await chat.addToolApprovalResponse({ id: asked?.approval.id ?? '', approved: true })
  const decided = chat.sendMessage()
  await until('the decision is carried out', () => partOf(chat.messages, 'pay')?.output === 'paid')
  all.scout.open()
  await decided
  expect(chat.error).toBeUndefined()
})

it('a page decides on a call while an agent is answering another call of the same answer', LIMIT, async () => {
  const { id, all } = begin()
  const chat = await open(id, undefined, 'payer')
  const sent = chat.sendMessage({ text: 'go' })
  await until('the clerk has said something', () => textsIn(partOf(chat.messages, 'clerk'))[0] === 'I read.')
  const asked = await until('the approval is requested', () => {
    const part = partOf(chat.messages, 'pay') as { state: string; approval: { id: string } } | undefined
    return part?.state === 'approval-requested' && part
  })
  await chat.addToolApprovalResponse({ id: asked.approval.id, approved: true })
  const decided = chat.sendMessage()
  await until('the decision is carried out', async () => partOf(await transport().messages(id), 'pay')?.output === 'paid' || chat.error)
  expect(chat.error).toBeUndefined()
  expect(partOf(await transport().messages(id), 'clerk')).toMatchObject({ preliminary: true })
  all.clerk.open()
  await Promise.all([sent, decided])
  expect(partOf(await transport().messages(id), 'clerk')).toMatchObject({ output: 'It is blue.' })
  await same(chat, id)
})

it('a page that loses its connection shows what agents have said meanwhile, and what a background call has returned', LIMIT, async () => {
  const { id, all } = begin()
  const { through, cut } = wire()
  const chat = new Chat<UIMessage>({ id, transport: new PawlChatTransport({ agent: 'boss', fetch: through }) as never })
  const sent = chat.sendMessage({ text: 'go' })
  await until('the clerk has said something', () => textsIn(clerkIn(chat.messages))[0] === 'I read.')
  await until('the scout has said something', () => textsIn(partOf(chat.messages, 'scout'))[0] === 'I look around.')
  cut()
  all.clerk.open()
  await until('the call of the clerk has its answer', () => clerkIn(chat.messages)?.output === 'It is blue.')
  await until('the page shows the same as the history', () => same(chat, id))
  cut()
  all.scout.open()
  await until('the scout’s part has what its call returned', () => partOf(chat.messages, 'scout')?.preliminary === undefined)
  for (const one of Object.values(all)) one.open()
  await sent
  await here.pawl
    .session(id)
    .run((await transport().messages(id))[0]?.id ?? '')
    .result(TIMEOUT)
  expect(chat.error).toBeUndefined()
  const [first, ...more] = plain(await transport().messages(id))
  expect(plain(chat.messages)).toEqual([first, more.find(({ role }) => role === 'assistant')])
})
