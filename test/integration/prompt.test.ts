// The prompt: instructions and sections are rendered from the session alone, go where the provider's cache wants them, and have a digest.
import Anthropic from '@anthropic-ai/sdk'
import { LLMock } from '@copilotkit/aimock'
import { defineAgent, ModelError, sections, type ModelRequest, type ToolUseBlock } from 'pawl'
import { anthropic } from 'pawl/models'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { workflowIdOf } from '../../src/session/protocol/protocol.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { cacheUses } from '../support/prompt-cache.ts'
import { inOrder, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

const memory = [{ block: 'notes', maxChars: 500 }]
const worker = stage({
  name: 'worker',
  plan: true,
  memory,
  instructions: ({ plan, memory: { notes }, progress }) =>
    `Objective: ${plan?.objective ?? 'none'}; ${notes === '' ? 'no' : 'some'} notes; ${progress.incomplete.length} open.`,
  sections: [sections.progress, sections.memory, ({ state }) => `Open: ${state.progress.incomplete.map((work) => work.kind).join(', ')}`],
})
const steady = stage({ name: 'steady', memory })
/** A session's context is a role. */
const selective = stage({
  name: 'selective',
  memory,
  activeTools: ({ memory: { notes } }, { context }) => (context === 'manager' || notes !== '' ? ['wire', 'look'] : ['look']),
})

const fake = new LLMock({ port: 0, strict: true })
const sent: Parameters<typeof cacheUses>[0][number][] = []
const client = () =>
  new Anthropic({
    apiKey: 'test',
    baseURL: fake.url,
    maxRetries: 0,
    fetch: (url, init) => {
      sent.push(JSON.parse(String(init?.body)) as (typeof sent)[number])
      return fetch(url, init)
    },
  })

let here: Deployment

beforeAll(async () => {
  await fake.start()
  const cached = defineAgent({
    name: 'cached',
    instructions: 'Note what you learn. '.repeat(20),
    model: anthropic('claude-sonnet-5-5', { client: client() }),
    memory,
    sections: [sections.memory],
  })
  here = await deploy()
  await here.startWorker({ agents: [worker.agent, steady.agent, selective.agent, cached] })
})
afterAll(async () => {
  await here?.stop()
  await fake.stop()
})

const call = (name: string, input: object): ToolUseBlock => ({ type: 'tool_use', id: `toolu_${name}`, name, input: input as never })
const setUp = call('plan_setup', {
  objective: 'To Rome',
  steps: [
    { id: 'book', title: 'Book the flight' },
    { id: 'pay', title: 'Pay' },
  ],
})
const booked = call('plan_update_step', { id: 'book', status: 'done', evidence: 'Code X7' })
const noted = call('memory_append', { block: 'notes', content: 'Window seat.' })

/** The last block of the last message. */
function lastTextOf({ messages }: ModelRequest): string {
  const content = messages.at(-1)?.content ?? ''
  const last = typeof content === 'string' ? undefined : content.at(-1)
  return typeof content === 'string' ? content : last?.type === 'text' ? last.text : ''
}

/** The parts of a request that the prompt is rendered into. */
const promptOf = (request: ModelRequest) => ({ system: request.system, last: lastTextOf(request), volatileBlocks: request.volatileBlocks })

const MADE = inOrder([setUp, noted], [booked, use('look', 'flights')], 'done')

it('the prompt shows what was planned, done and noted, placed after the whole conversation', async () => {
  const { session, requests } = worker.play(here.pawl, { model: MADE })
  await (await session.send('go')).result({ timeout: 30_000 })
  expect(requests.map(promptOf)).toEqual([
    {
      system: 'Objective: none; no notes; 0 open.',
      last: '[From the system, not from the user: the current status]\n\n# Progress\nNo progress yet. Create a plan to get started.\n\n# Memory\n<block name="notes">\n(empty)\n</block>\n\nOpen:',
      volatileBlocks: 1,
    },
    {
      system: 'Objective: To Rome; some notes; 2 open.',
      last: '[From the system, not from the user: the current status]\n\n# Progress\nObjective: To Rome\nBook the flight (pending)\nPay (pending)\n\n# Memory\n<block name="notes">\nWindow seat.\n</block>\n\nOpen: step, step',
      volatileBlocks: 1,
    },
    {
      system: 'Objective: To Rome; some notes; 1 open.',
      last: '[From the system, not from the user: the current status]\n\n# Progress\nObjective: To Rome\n✓ Book the flight\nPay (pending)\n\n# Memory\n<block name="notes">\nWindow seat.\n</block>\n\nOpen: step',
      volatileBlocks: 1,
    },
  ])
  // The sections are in that request alone: no earlier message has them, and none is stored.
  const texts = (request: ModelRequest) => JSON.stringify(request.messages).split('From the system').length - 1
  expect(requests.map(texts)).toEqual([1, 1, 1])
  expect(JSON.stringify(await session.messages())).not.toContain('From the system')
})

it('the prompt is rendered to the same bytes for a session that was resumed and for one that was not', async () => {
  const fresh = worker.play(here.pawl, { model: MADE })
  await (await fresh.session.send('go')).result({ timeout: 30_000 })

  const held = gate()
  const cut = worker.play(here.pawl, { model: MADE, look: () => held.pass() })
  await cut.session.send('go')
  await held.reached
  await until('the turn is stored', async () =>
    (await cut.session.toolCalls()).some(({ tool, status }) => tool === 'look' && status === 'running'),
  )
  await here.temporal.workflow.getHandle(workflowIdOf(cut.id)).terminate('gone')
  await cut.session.resume()
  await until('the run has ended', async () => (await cut.session.state()).status === 'idle')
  held.open()
  expect(cut.requests.map(promptOf)).toEqual(fresh.requests.map(promptOf))
})

describe('active tools', () => {
  const namesIn = (requests: ModelRequest[]) =>
    requests.map(({ tools }) => tools.map(({ name }) => name).filter((name) => !name.startsWith('memory')))

  it('the model receives only the agent’s active tools, which are selected by role', async () => {
    const clerk = selective.play(here.pawl, { model: inOrder('done') }, { context: 'clerk' })
    const manager = selective.play(here.pawl, { model: inOrder([use('wire', 'it')], 'done') }, { context: 'manager' })
    for (const { session } of [clerk, manager]) await (await session.send('go')).result({ timeout: 30_000 })
    expect(namesIn(clerk.requests)).toEqual([['look']])
    expect(namesIn(manager.requests)).toEqual([
      ['look', 'wire'],
      ['look', 'wire'],
    ])
    expect(manager.count('wire')).toBe(1)
  })

  it('a call of a tool that is not active is not executed, and is answered with what the model may call', async () => {
    const { session, requests, count } = selective.play(
      here.pawl,
      {
        model: inOrder([use('wire', 'it'), noted], [use('wire', 'it')], 'done'),
      },
      { context: 'clerk' },
    )
    await (await session.send('go')).result({ timeout: 30_000 })
    expect(namesIn(requests)).toEqual([['look'], ['look', 'wire'], ['look', 'wire']])
    const events = await eventsOf(session)
    expect(ofType(events, 'tool_failed')).toMatchObject([{ code: 'unknown_tool' }])
    expect(JSON.stringify(requests[1]?.messages)).toContain(
      'There is no tool \\"wire\\". The tools are: look, memory_append, memory_replace.',
    )
    expect(count('wire')).toBe(1)
    const digests = ofType(events, 'model_completed').map(({ promptDigest }) => promptDigest)
    expect(new Set(digests).size).toBe(2)
  })

  it('a call of a tool that is not active is not executed even if a person has it made again', async () => {
    let isBroken = true
    const model = (request: ModelRequest) => {
      if (request.messages.length === 1) return [use('wire', 'it')]
      if (isBroken) throw new ModelError('broken', 'it is broken', { retryable: false })
      return 'done'
    }
    const { session, count } = selective.play(here.pawl, { model }, { context: 'clerk' })
    const run = await session.send('go')
    await until('the run has failed', async () => (await session.state()).status === 'error')
    isBroken = false
    await session.recover({ redo: ['t_1_1_0'], by: 'ann' })
    expect(await run.result({ timeout: 20_000 })).toMatchObject({ text: 'done' })
    expect(count('wire')).toBe(0)
  })
})

describe('the system prompt', () => {
  it('the system prompt stays the same byte for byte from turn to turn, while what it does not show changes', async () => {
    const { session, requests } = steady.play(here.pawl, { model: inOrder([noted], [use('put', 'it')], 'done') })
    await (await session.send('go')).result({ timeout: 30_000 })
    expect(new Set(requests.map(({ system }) => system))).toEqual(new Set(['Play.']))
    expect(new Set(requests.map(({ tools }) => JSON.stringify(tools))).size).toBe(1)
    // An agent with memory shows its memory, unless configured otherwise.
    expect(requests.map((request) => lastTextOf(request).includes('Window seat.'))).toEqual([false, true, true])
  })

  it('the system prompt and the sections have a digest in model_completed, which changes when they do', async () => {
    const { session } = steady.play(here.pawl, { model: inOrder([use('put', 'it')], [noted], 'done') })
    await (await session.send('go')).result({ timeout: 30_000 })
    const [first, second, third] = ofType(await eventsOf(session), 'model_completed').map(({ promptDigest }) => promptDigest)
    expect(first).toMatch(/^[0-9a-f]{16}$/)
    expect(second).toBe(first)
    expect(third).not.toBe(second)
  })
})

it('the prompt leaves the whole conversation to the provider’s cache, although its sections change with every call', async () => {
  const append = (n: number) => ({
    toolCalls: [{ name: 'memory_append', arguments: JSON.stringify({ block: 'notes', content: `Fact ${n}.` }), id: `toolu_${n}` }],
  })
  const answers = [append(1), append(2), append(3), { content: 'Noted.' }]
  for (const [said, answer] of answers.entries()) {
    fake.on({ predicate: ({ messages }) => messages.filter(({ role }) => role === 'assistant').length === said }, answer)
  }
  const session = here.pawl.session('cached-1', { agent: 'cached' })
  expect((await (await session.send('Tell me three facts.')).result({ timeout: 30_000 })).text).toBe('Noted.')
  expect(sent).toHaveLength(4)
  expect(sent.map((request) => JSON.stringify(request.messages.at(-1)?.content.at(-1)).includes('<block name'))).toEqual(
    Array(4).fill(true),
  )
  const uses = cacheUses(sent)
  const [first] = uses
  expect(first?.read).toBe(0)
  // Each call reads what the previous one wrote: everything but its sections.
  expect(uses.slice(1).map(({ read }) => read)).toEqual(uses.slice(0, -1).map(({ written }) => written))
  // Nothing is written that no later request can read.
  for (const { written, all } of uses) expect(all - written).toBeLessThan(250)
})
