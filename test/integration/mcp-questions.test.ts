// Questions that an MCP server asks the user during a call: each waits like an approval, is asked once, and the call continues with the answer.
import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { type Agent, defineAgent, type Json, type JsonObject } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { createHandler } from 'pawl/service'
import { scripted } from 'pawl/testing'
import { mcp } from 'pawl/tools'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { compile } from '../crash/support/build.ts'
import type { ToolError } from '../../src/agent/errors.ts'
import type { UiMessage } from '../../src/ui/protocol.ts'
import { pendingOf } from '../support/approvals.ts'
import { codeOf } from '../support/codes.ts'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type AskingServer, startAsking } from '../support/mcp/asking.ts'
import { resultsIn, saidIn } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { runPawl } from './cli/processes.ts'
import { type WebClient, webClient } from '../support/web.ts'

let here: Deployment
let asker: AskingServer
let http: WebClient

type Calls = [tool: string, how?: string][]

/** The message says which tools to call in one answer. The final answer is what they returned. */
const model = scripted((request) => {
  const { order, calls } = JSON.parse(saidIn(request).at(-1) ?? '{}') as { order: string; calls: Calls }
  const last = request.messages.at(-1)?.content
  const isAnswered = Array.isArray(last) && last.some(({ type }) => type === 'tool_result')
  if (isAnswered)
    return JSON.stringify(
      resultsIn(request)
        .slice(-calls.length)
        .map(({ content, isError }) => [content, isError]),
    )
  return calls.map(([tool, how], index) => ({
    type: 'tool_use' as const,
    id: `toolu_${index}`,
    name: `asker__${tool}`,
    input: { order, ...(how !== undefined && { how }) },
  }))
})

beforeAll(async () => {
  asker = await startAsking()
  here = await deploy()
  const handler = createHandler({ pawl: here.pawl, authorize: () => ({ identity: 'ann', scopes: ['read', 'send'] }) })
  http = webClient(handler, 'key')
  const tools = [
    mcp({
      name: 'asker',
      transport: { type: 'http', url: asker.url },
      effects: { look: 'read', glance: 'read', hold: 'idempotent', ship: { effect: 'external', onUnknown: 'ask' }, send: 'external' },
    }),
  ]
  await here.startWorker({ agents: [defineAgent({ name: 'asking', instructions: '', tools, model }) as Agent] })
})
afterAll(async () => {
  await here?.stop()
  await asker?.close()
})

async function play(...calls: Calls) {
  const order = `order-${randomUUID()}`
  const session = here.pawl.session(order, { agent: 'asking' }) as SessionHandle
  const run = await session.send(JSON.stringify({ order, calls }))
  return {
    order,
    session,
    run,
    reached: () => asker.world.calls.filter((call) => call.order === order),
    shipped: () => asker.world.shipped.filter((one) => one === order).length,
    results: async () => JSON.parse((await run.result({ timeout: 30_000 })).text) as [content: string, isError: boolean][],
  }
}

const accept = (content?: JsonObject): Json => ({ action: 'accept', ...(content && { content }) })

describe.concurrent('a question of an MCP server', { timeout: 60_000 }, () => {
  it.each(['look', 'hold', 'ship'])('a question during a call of %s waits, and the same call continues with the answer', async (tool) => {
    const { order, session, run, reached, results } = await play([tool])
    const [waiting] = await pendingOf(run)
    expect(waiting).toMatchObject({
      kind: 'question',
      callId: 't_1_1_0',
      tool: `asker__${tool}`,
      question: { id: 'size', from: 'asker', message: 'Which size?', schema: { required: ['size'] } },
    })
    expect(await session.state()).toMatchObject({ status: 'waiting' })
    expect((await session.status()).waitsFor).toMatchObject([{ for: 'client', to: 'answer', callId: 't_1_1_0', reason: 'Which size?' }])
    await session.answer('t_1_1_0', accept({ size: 'M' }), { by: 'ann', digest: waiting?.digest ?? '' })
    expect(await results()).toEqual([[`shipped ${order}: M`, false]])
    const [first, second, ...others] = reached()
    expect(others).toEqual([])
    expect(first).toMatchObject({ state: undefined, responses: undefined })
    expect(second).toMatchObject({ state: `state of ${order}`, responses: { size: { action: 'accept', content: { size: 'M' } } } })
    expect(second?.key).toBe(first?.key)
    const events = await eventsOf(session)
    expect(ofType(events, 'answer_requested')).toMatchObject([{ asks: { attempt: 1, state: `state of ${order}` } }])
    expect(ofType(events, 'answer_received')).toMatchObject([{ by: 'ann', reply: { action: 'accept', content: { size: 'M' } } }])
    expect(ofType(events, 'tool_completed')).toMatchObject([{ attempt: 2 }])
    expect(ofType(events, 'tool_attempt_failed')).toEqual([])
  })

  it('a question of an MCP server is in the list of pending calls with its schema, and leaves it once it is answered', async () => {
    const { order, session, run, results } = await play(['ship'])
    await pendingOf(run)
    const listed = () => here.pawl.pending.list({ session: order, kind: ['question'] })
    const [row] = await until('it is stored', async () => {
      const { items } = await listed()
      return items.length > 0 && items
    })
    expect(row).toMatchObject({
      kind: 'question',
      reason: 'Which size?',
      question: { id: 'size', schema: { required: ['size'] } },
      onExpiry: null,
    })
    expect((await here.pawl.pending.list({ session: order, kind: ['client'] })).items).toEqual([])
    await session.answer('t_1_1_0', accept({ size: 'L' }), { digest: row?.digest ?? '' })
    await results()
    await until('it has left the list', async () => (await listed()).items.length === 0)
  })

  it('an answer that does not match the question of an MCP server is refused, and the question still waits', async () => {
    const { session, run, results, order } = await play(['hold'])
    await pendingOf(run)
    const { seq } = await session.state()
    const wrong: Json[] = [
      'M',
      null,
      {},
      { action: 'yes' },
      { action: 'accept' },
      { action: 'decline', content: { size: 'M' } },
      { action: 'accept', content: { size: 'M' }, _meta: {} },
      accept({}),
      accept({ size: 'XL' }),
      accept({ size: 7 }),
      accept({ size: 'M', gift: 'yes' }),
      accept({ size: 'M', color: 'red' }),
      accept({ size: 'x'.repeat(70_000) }),
    ]
    for (const answer of wrong) expect(await codeOf(session.answer('t_1_1_0', answer)), JSON.stringify(answer)).toBe('invalid_answer')
    expect(await codeOf(session.answer('t_1_1_0', accept({ size: 'M' }), { digest: 'other' }))).toBe('digest_mismatch')
    expect((await session.state()).seq).toBe(seq)
    await session.answer('t_1_1_0', accept({ size: 'S', gift: true }))
    expect(await results()).toEqual([[`shipped ${order}: S`, false]])
  })

  it.each(['decline', 'cancel'])('the MCP server is told that the user chose to %s', async (action) => {
    const { session, run, reached, results, shipped } = await play(['look'])
    await pendingOf(run)
    await session.answer('t_1_1_0', { action })
    expect(await results()).toEqual([[expect.stringContaining('not shipped'), true]])
    expect(reached().at(-1)?.responses).toEqual({ size: { action } })
    expect(shipped()).toBe(0)
  })

  it('a question of an MCP server with a URL waits with the URL, and is answered without content', async () => {
    const { session, run, results } = await play(['ship', 'url'])
    const [waiting] = await pendingOf(run)
    expect(waiting).toMatchObject({ kind: 'question', question: { id: 'pay', url: 'https://bank.example/pay?order=7' } })
    expect(await codeOf(session.answer('t_1_1_0', accept({ paid: true })))).toBe('invalid_answer')
    await session.answer('t_1_1_0', accept())
    expect(await results()).toEqual([[expect.stringContaining('{"pay":{"action":"accept"}}'), false]])
  })

  it('an MCP server may ask again after an answer; an answer to the earlier question is refused by its digest', async () => {
    const { order, session, run, results } = await play(['ship', 'twice'])
    const [first] = await pendingOf(run)
    await session.answer('t_1_1_0', accept({ size: 'S' }), { digest: first?.digest ?? '' })
    const second = await until('it asks again', async () => {
      const [call] = (await session.state()).current?.calls ?? []
      return call?.question?.message === 'Really?' && call
    })
    expect(await codeOf(session.answer('t_1_1_0', accept({ size: 'S' }), { digest: first?.digest ?? '' }))).toBe('digest_mismatch')
    await session.answer('t_1_1_0', accept({ size: 'L' }), { digest: second.digest ?? '' })
    expect(await results()).toEqual([[`shipped ${order}: second S, then L`, false]])
  })

  it('questions that an MCP server asks together are asked one after another, and it gets the answers together', async () => {
    const { session, run, results, reached } = await play(['hold', 'both'])
    await pendingOf(run)
    await session.answer('t_1_1_0', accept({ size: 'S' }))
    const [second] = await pendingOf(run)
    expect(second).toMatchObject({ kind: 'question', question: { id: 'other', message: 'And the other?' } })
    await session.answer('t_1_1_0', { action: 'decline' })
    expect((await results())[0]?.[1]).toBe(false)
    expect(reached()).toHaveLength(2)
    expect(reached()[1]?.responses).toEqual({ size: { action: 'accept', content: { size: 'S' } }, other: { action: 'decline' } })
  })

  it('two answers at the same time to one question of an MCP server: one is accepted', async () => {
    const { session, run, results, reached } = await play(['ship'])
    await pendingOf(run)
    const outcomes = await Promise.all(['S', 'M'].map((size) => codeOf(session.answer('t_1_1_0', accept({ size })))))
    expect(outcomes.sort()).toEqual(['accepted', 'not_waiting'])
    await results()
    expect(reached()).toHaveLength(2)
  })

  it('a question of an MCP server is a part of the chat page’s message, and its answer over HTTP needs no more than its digest', async () => {
    const { order, session, run, results } = await play(['ship'])
    await pendingOf(run)
    const partOf = async () => {
      const { messages } = (await http.get<{ messages: UiMessage[] }>(`/v1/ui/${order}/messages`)).body
      const part = messages.at(-1)?.parts.find(({ type }) => type === 'data-question')
      return part?.type === 'data-question' ? part.data : undefined
    }
    const asked = await until('it is on the page', partOf)
    expect(asked).toMatchObject({
      callId: 't_1_1_0',
      toolCallId: 't_1_1_0',
      from: 'asker',
      message: 'Which size?',
      schema: { type: 'object' },
    })
    const at = `/v1/sessions/${order}/calls/${asked.callId}/answer`
    const result = accept({ size: 'M' })
    expect(await http.post(at, { result, digest: 'other' })).toMatchObject({ status: 409, body: { code: 'digest_mismatch' } })
    expect(await http.post(at, { result: accept({}), digest: asked.digest })).toMatchObject({
      status: 400,
      body: { code: 'invalid_answer' },
    })
    expect(await http.post(at, { result, digest: asked.digest })).toMatchObject({ status: 204 })
    expect(await results()).toEqual([[`shipped ${order}: M`, false]])
    expect(await partOf()).toMatchObject({ digest: asked.digest, answered: 'accept' })
    expect(ofType(await eventsOf(session), 'answer_received')).toMatchObject([{ by: 'ann' }])
  })

  it('a question of an MCP server is listed and answered in the terminal', async () => {
    const { order, run, results } = await play(['ship'])
    await pendingOf(run)
    await until('it is stored', async () => (await here.pawl.pending.list({ session: order })).items.length > 0)
    const { temporalAddress, databaseUrl } = here.stack
    const env = { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl }
    const cli = (...args: string[]) => runPawl(args, { cwd: tmpdir(), env })
    const listed = await cli('pending', '--kind', 'question', '--session', order, '--json')
    const { digest, question } = JSON.parse(listed.stdout.trim().split('\n')[0] ?? '') as { digest: string; question: object }
    expect(question).toMatchObject({ from: 'asker', message: 'Which size?', schema: { required: ['size'] } })
    const answer = (json: string, of: string) => cli('answer', order, 't_1_1_0', json, '--digest', of, '--task-queue', here.taskQueue)
    expect((await answer('{"action":"decline"}', 'other')).stderr).toContain('digest_mismatch')
    expect((await answer('{"action":"accept","content":{"size":"L"}}', digest)).stdout).toContain('t_1_1_0 is answered')
    expect(await results()).toEqual([[`shipped ${order}: L`, false]])
  })

  it('an MCP server that only delays the call is asked again without a question', async () => {
    const { order, results } = await play(['look', 'later'])
    expect(await results()).toEqual([[`shipped ${order}: wait`, false]])
  })

  it('reads of the same turn run while a question of an MCP server waits, and an effect that waits holds up later effects', async () => {
    const { session, run, results, reached } = await play(['ship'], ['hold', 'later'], ['look', 'later'])
    await pendingOf(run)
    await until('the read has run', () => reached().some(({ tool }) => tool === 'look'))
    expect(reached().filter(({ tool }) => tool === 'hold')).toEqual([])
    await session.answer('t_1_1_0', accept({ size: 'M' }))
    expect(await results()).toHaveLength(3)
  })

  it('an interrupt ends a call whose MCP server has asked, and the model is told that it was not run', async () => {
    const { session, run, shipped } = await play(['ship'])
    await pendingOf(run)
    await session.interrupt()
    expect(await run.settled({ timeout: 30_000 })).toMatchObject({ status: 'interrupted' })
    expect(await codeOf(session.answer('t_1_1_0', accept({ size: 'M' })))).toBe('call_not_found')
    expect(shipped()).toBe(0)
    const [row] = await until('it is stored', async () => {
      const rows = await session.toolCalls()
      return rows[0]?.status === 'skipped' && rows
    })
    expect(row).toMatchObject({ status: 'skipped', waitingUntil: null })
  })

  it.each([
    ['nested', 'mcp_invalid_question'],
    ['secret', 'mcp_invalid_question'],
    ['hidden', 'mcp_invalid_question'],
    ['script', 'mcp_invalid_question'],
    ['unanswerable', 'mcp_invalid_question'],
    ['long', 'mcp_invalid_question'],
    ['sampling', 'mcp_input_required'],
  ])('an MCP server that asks for %s ends the call with %s, and nobody is asked', async (how, code) => {
    const { session, results, reached } = await play(['ship', how])
    expect((await results())[0]?.[1]).toBe(true)
    const events = await eventsOf(session)
    expect(ofType(events, 'tool_failed')).toMatchObject([{ code }])
    expect(ofType(events, 'answer_requested')).toEqual([])
    expect(reached()).toHaveLength(1)
  })

  it('an MCP server that is never satisfied ends the call after 20 questions', async () => {
    const { session, run, results, reached } = await play(['look', 'endless'])
    for (let round = 1; round <= 20; round++) {
      await until(`question ${round}`, async () => {
        const events = await eventsOf(session)
        return ofType(events, 'answer_requested').length === round && (await session.state()).status === 'waiting'
      })
      await session.answer('t_1_1_0', accept({ size: 'M' }))
    }
    expect((await results())[0]?.[0]).toContain('has already asked 20 times')
    expect(reached()).toHaveLength(21)
    expect(await run.settled()).toMatchObject({ status: 'completed' })
  })
})

it.each(['glance', 'send'])('a question during a call of %s that is part of the model call waits like any other', async (tool) => {
  const { order, session, results } = await play([tool, 'quick'])
  await results()
  const say = (calls: Calls) => session.send(JSON.stringify({ order, calls }))
  /** Whether the answer of the newest model call came with the outcome of its call. */
  const hasRidden = async (): Promise<boolean> => {
    const { events } = await here.temporal.workflow.getHandle(`pawl:${order}`).fetchHistory()
    const scheduled = (events ?? []).flatMap(({ activityTaskScheduledEventAttributes: it }) => it?.activityType?.name ?? [])
    return !scheduled.slice(scheduled.lastIndexOf('callModel')).includes('executeTool')
  }
  // A tool is quick once 20 bodies in a row were, which a busy machine may spoil.
  for (let round = 1; ; round++) {
    for (let n = 0; n < 20; n++) await (await say([[tool, 'quick']])).result({ timeout: 30_000 })
    const run = await say([[tool]])
    const [waiting] = await pendingOf(run)
    const isPart = await hasRidden()
    expect(waiting).toMatchObject({ kind: 'question', question: { id: 'size' } })
    await session.answer(waiting?.callId ?? '', accept({ size: 'M' }))
    expect(JSON.parse((await run.result({ timeout: 30_000 })).text)).toEqual([[`shipped ${order}: M`, false]])
    if (isPart) return
    expect(round).toBeLessThan(10)
  }
})

it('a question of an MCP server over the older protocol fails the call, and nobody is asked', async () => {
  const legacy = await startAsking('legacy')
  const source = mcp({ name: 'old', transport: { type: 'http', url: legacy.url }, effects: { '*': 'read' } })
  try {
    const tool = (await source.tools(SILENT)).get('old__look')
    const ctx = { signal: AbortSignal.timeout(10_000), log: SILENT, idempotencyKey: '', progress: () => undefined }
    const error = await Promise.resolve(tool?.execute?.({ order: 'A7' }, ctx as never)).then(
      () => expect.unreachable('it succeeded'),
      (failure: ToolError) => failure,
    )
    expect(error).toMatchObject({ name: 'ToolError', retryable: false })
    expect(legacy.world.shipped).toEqual([])
  } finally {
    await source.close?.()
    await legacy.close()
  }
})

it('an MCP server of the older protocol is not told that pawl passes questions on', async () => {
  const built = await compile(['test/support/mcp/odd-server.ts'])
  const source = mcp({
    name: 'odd',
    transport: { type: 'stdio', command: process.execPath, args: [built.path('odd-server'), 'capabilities'] },
    effects: { '*': 'read' },
  })
  try {
    const tool = (await source.tools(SILENT)).get('odd__act')
    const ctx = { signal: AbortSignal.timeout(10_000), log: SILENT, idempotencyKey: '', progress: () => undefined }
    const announced = (await tool?.execute?.({}, ctx as never)) as { content: [{ text: string }] } | undefined
    expect(JSON.parse(announced?.content[0].text ?? '')).not.toHaveProperty('elicitation')
  } finally {
    await source.close?.()
    await built.remove()
  }
})
