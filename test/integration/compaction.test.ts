// Conversations that are too long for their model: what is summarised, what stays, and what happens if a summariser fails.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { type Agent, defineHook, type Model, ModelError, type ModelRequest } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type Played, resultsIn, type Scene, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { MAIN } from './cli/processes.ts'

const exec = promisify(execFile)

/** Tokens; a result of 600 bytes is estimated at 200. */
const WINDOW = 2_000
const RESULT = 'x'.repeat(590)
const compaction = { at: 0.5, keepTurns: 2 }

const small = stage({ name: 'small', compaction }, { contextWindow: WINDOW })
/** It is compacted only when its provider refuses a request. */
const roomy = stage({ name: 'roomy', compaction }, { contextWindow: 1_000_000 })
const hooked = stage(
  {
    name: 'hooked',
    compaction,
    hooks: [defineHook({ name: 'turns', on: 'turnStart', run: ({ turn }) => ({ systemMessage: `turn ${turn}` }) })],
  },
  { contextWindow: WINDOW },
)
const own = stage(
  {
    name: 'own',
    compaction: {
      ...compaction,
      summarise({ messages, previous, maxTokens, ctx }) {
        if (ctx.metadata.returns === 'nothing') return ''
        const text = `${messages.length} messages after ${JSON.stringify(previous)}, ${maxTokens} tokens`
        return {
          text,
          model: 'my-own',
          usage: { input_tokens: 7, output_tokens: 3, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
        }
      },
    },
  },
  { contextWindow: WINDOW },
)

const brief = stage(
  {
    name: 'brief',
    compaction: {
      at: 0.8,
      keepTurns: 1,
      model: scripted(
        ({ messages }) => {
          if (JSON.stringify(messages).length > 1_500) throw new ModelError('context_overflow', 'too long', { retryable: false })
          return `calls ${[...JSON.stringify(messages).matchAll(/\[call t_1_(\d+)_0/g)].map(([, turn]) => turn).join(' and ')}`
        },
        { contextWindow: 1_000, name: 'summariser' },
      ),
    },
  },
  { contextWindow: WINDOW },
)
/** A function chooses its model, which does not declare its window. */
const unsized = stage({ name: 'unsized', compaction }, { contextWindow: 1 })
const unsizedAgent = {
  ...unsized.agent,
  model: () => ({ ...(unsized.agent.model as Model), contextWindow: undefined }),
} as unknown as Agent
const warned: string[] = []
const logger = { ...SILENT, warn: (_fields: unknown, message?: string) => void warned.push(message ?? '') }

/** A ten-thousandth of a dollar per token of an answer or a summary, each of at most 2,000 tokens. */
const thrifty = stage(
  { name: 'thrifty', compaction, limits: { maxUsd: 1 }, recovery: { automatic: [] } },
  { contextWindow: WINDOW, price: { input: 0, output: 100 }, maxTokens: 2_000 },
)
const costing = (tokens: number) => ({
  usage: { input_tokens: 0, output_tokens: tokens, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
})

let deployment: Deployment
let sql: pg.Client

beforeAll(async () => {
  deployment = await deploy()
  await deployment.startWorker({
    agents: [thrifty.agent, small.agent, roomy.agent, hooked.agent, own.agent, brief.agent, unsizedAgent],
    logger,
  })
  sql = new pg.Client(deployment.stack.databaseUrl)
  await sql.connect()
})
afterAll(async () => {
  await sql?.end()
  await deployment?.stop()
})

/** A `look` in each of the first turns, then an answer; each result has the number of its turn. */
const looks =
  (turns: number, others: Record<number, ScriptedAnswer> = {}) =>
  ({ turn }: ModelRequest): ScriptedAnswer =>
    others[turn] ?? (turn <= turns ? [use('look', `at ${turn}`, turn)] : 'done')
const look: NonNullable<Scene['look']> = ({ n = 0 }) => `${n} ${RESULT}`

/** The first words of each text, call and result in a request. */
function outline({ messages }: Pick<ModelRequest, 'messages'>): string[] {
  return messages.flatMap(({ content }) =>
    (typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content).map((block) => {
      if (block.type === 'text') return block.text.slice(0, 22)
      if (block.type === 'tool_result') return `result ${String(block.content).split(' ')[0]}`
      return block.type === 'tool_use' ? `call ${(block.input as { n?: number }).n ?? '?'}` : block.type
    }),
  )
}

const ask = async (played: Pick<Played, 'session'>, text = 'go', options = {}) =>
  (await played.session.send(text, options)).result({ timeout: '60s' })

const compacted = async (session: SessionHandle) => ofType(await eventsOf(session), 'compacted')

async function rows(text: string, session: SessionHandle): Promise<Record<string, unknown>[]> {
  return (await sql.query(text, [session.id])).rows as Record<string, unknown>[]
}

const stored = async (session: SessionHandle): Promise<void> => {
  const last = (await eventsOf(session)).at(-1)?.seq ?? 0
  await until('all is stored', async () => {
    const [row] = await rows('select flushed_seq from pawl.sessions where session_id = $1', session)
    return Number(row?.flushed_seq) >= last
  })
}

/** A provider that refuses requests above a size. */
const refusing =
  (maxBytes: number, answer: (request: ModelRequest) => ScriptedAnswer) =>
  (request: ModelRequest): ScriptedAnswer => {
    if (JSON.stringify(request.messages).length > maxBytes) {
      throw new ModelError('context_overflow', 'prompt is too long', { retryable: false, status: 400 })
    }
    return answer(request)
  }

describe('a conversation that fills its window', () => {
  it('a conversation that fills its window continues with a summary; each part is summarised once, all messages kept', async () => {
    const played = small.play(deployment.pawl, {
      model: looks(9),
      look,
      summary: ({ messages }) => `summary of ${outline({ messages }).length}`,
    })
    expect((await ask(played)).text).toBe('done')
    const events = await compacted(played.session)
    expect(events.length).toBeGreaterThan(1)
    expect(played.summaries).toHaveLength(events.length)
    const [first] = played.summaries
    expect(first).toMatchObject({ purpose: 'compaction', tools: [], run: 1 })
    expect(JSON.stringify(first?.messages)).toContain('[result of t_1_1_0, look')
    expect(JSON.stringify(played.summaries[1]?.messages)).not.toContain('t_1_1_0')
    const last = outline(played.requests.at(-1) as ModelRequest)
    expect(last.slice(0, 2)).toEqual(['go', '[Note from the system,'])
    expect(last.slice(-4)).toEqual(['call 8', 'result 8', 'call 9', 'result 9'])
    for (const { messages } of played.requests) expect(JSON.stringify(messages).length).toBeLessThan(WINDOW * 3)
    const all = await played.session.messages()
    expect(all.map(({ kind }) => kind)).toEqual([
      'user',
      ...Array.from({ length: 9 }, () => ['assistant', 'tool_results']).flat(),
      'assistant',
    ])
    expect(JSON.stringify(all[2]?.content)).toContain(RESULT)
  })

  it('summaries count towards the budget: a conversation stops at one that exceeds it, and continues once it is raised', async () => {
    const { session, summaries } = thrifty.play(deployment.pawl, {
      model: ({ turn }) => (turn <= 4 ? { content: [use('look', `at ${turn}`, turn)], ...costing(2_300) } : 'done'),
      look,
      summary: () => ({ content: [{ type: 'text', text: 'what was seen' }], ...costing(1_500) }),
    })
    const run = await session.send('go')
    expect(await run.settled({ timeout: '60s' })).toMatchObject({ status: 'failed', code: 'budget_exhausted' })
    expect(summaries).toHaveLength(0)
    expect(await session.state()).toMatchObject({ spend: { usd: 0.92 }, error: { reason: expect.stringContaining('session.raise') } })
    expect(await session.budgets()).toMatchObject([{ scope: 'run', unit: 'usd', limit: 1, spent: 0.92, reserved: 0 }])
    await session.raise({ maxUsd: 2, by: 'ann' })
    expect(await run.result({ timeout: 20_000 })).toMatchObject({ text: 'done' })
    const events = await eventsOf(session)
    expect(ofType(events, 'compaction_failed')).toEqual([])
    expect(ofType(events, 'compacted')).toMatchObject([{ usage: { output_tokens: 1_500 }, price: { output: 100 } }])
    const { spend } = await session.state()
    const answers = ofType(events, 'model_completed').reduce((sum, { usage }) => sum + usage.output_tokens, 0)
    expect(spend?.usd).toBeCloseTo((answers + 1_500) / 10_000)
  })

  it('a conversation pays for its summaries: their tokens are in the run, the session and `token_usage`', async () => {
    const usage = { input_tokens: 100, output_tokens: 10, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
    const summary: Scene['summary'] = () => ({ content: [{ type: 'text', text: 'so far' }], usage, model: 'claude-haiku-4-5' })
    const played = small.play(deployment.pawl, { model: looks(5), look, summary })
    const result = await ask(played)
    const count = (await compacted(played.session)).length
    expect(count).toBeGreaterThan(0)
    expect(result.usage).toMatchObject({ input_tokens: 100 * count, output_tokens: 10 * count })
    await stored(played.session)
    const paid = await rows(
      `select purpose, model, input_tokens::int as input, usd from pawl.token_usage where session_id = $1 and input_tokens > 0`,
      played.session,
    )
    expect(paid).toEqual(
      Array.from({ length: count }, () => ({ purpose: 'compaction', model: 'claude-haiku-4-5', input: 100, usd: '0.00015' })),
    )
    const [session] = await rows('select input_tokens::int as input, model from pawl.sessions where session_id = $1', played.session)
    expect(session).toEqual({ input: 100 * count, model: 'scripted' })
  })

  it('a conversation that fills its window keeps its effects: a refund that the model asks for again is a replay', async () => {
    const again = use('put', 'refund 7')
    const played = small.play(deployment.pawl, { model: looks(8, { 1: [again], 8: [again] }), look, put: () => 'refunded 7' })
    await ask(played)
    expect(played.count('put')).toBe(1)
    expect((await compacted(played.session)).length).toBeGreaterThan(0)
    const request = played.requests.at(-1) as ModelRequest
    expect(JSON.stringify(request.messages[0])).toContain('- put {\\"what\\":\\"refund 7\\"} (t_1_1_0, result: refunded 7)')
    expect(resultsIn(request)[0]?.content).toBe('[idempotent replay of t_1_1_0]\nrefunded 7')
  })

  it('a conversation that fills its window does not run its hooks twice, and still sends what they said', async () => {
    const played = hooked.play(deployment.pawl, { model: looks(5), look })
    await ask(played)
    const events = await eventsOf(played.session)
    expect(ofType(events, 'compacted').length).toBeGreaterThan(0)
    expect(ofType(events, 'hook_answered').map(({ turn }) => turn)).toEqual([1, 2, 3, 4, 5, 6])
    for (const request of played.requests) expect(JSON.stringify(request.messages.at(-1))).toContain(`turn ${request.turn}`)
  })

  it('a conversation is summarised in pieces that fit the summariser’s window, each recorded once', async () => {
    const played = brief.play(deployment.pawl, { model: looks(8), look })
    expect((await ask(played)).text).toBe('done')
    const events = await eventsOf(played.session)
    const pieces = ofType(events, 'compacted')
    expect(new Set(pieces.map(({ turn }) => turn)).size).toBeLessThan(pieces.length)
    const turns = pieces.flatMap(({ summary }) => summary.replace('calls ', '').split(' and ')).map(Number)
    expect(turns).toEqual(turns.map((_, index) => index + 1))
    for (const { model } of pieces) expect(model).toBe('summariser')
    // Pieces that turned out to be too long were halved.
    const halved = ofType(events, 'model_attempt_failed').map(({ purpose, error: { code, retryable, nextDelayMs } }) => ({
      purpose,
      code,
      retryable,
      nextDelayMs,
    }))
    expect(halved.length).toBeGreaterThan(0)
    expect(new Set(halved.map((one) => JSON.stringify(one)))).toEqual(
      new Set([JSON.stringify({ purpose: 'compaction', code: 'context_overflow', retryable: true, nextDelayMs: 0 })]),
    )
    expect(played.summaries).toEqual([])
  })

  it('compaction keeps the thinking of the turns that stay, and sends it to no other provider’s models', async () => {
    const thinking = (turn: number) => ({ type: 'thinking' as const, thinking: `of ${turn}`, signature: `signed ${turn}` })
    const model = (request: ModelRequest): ScriptedAnswer =>
      request.turn > 6 ? 'done' : [thinking(request.turn), use('look', `at ${request.turn}`, request.turn)]
    const played = small.play(deployment.pawl, { model, look })
    await ask(played)
    expect((await compacted(played.session)).length).toBeGreaterThan(0)
    const { messages } = played.requests.at(-1) as ModelRequest
    const kept = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content.filter(({ type }) => type === 'thinking')))
    expect(kept).toEqual([5, 6].map((turn) => ({ ...thinking(turn), provider: 'scripted' })))
    expect(JSON.stringify(played.summaries)).not.toContain('signed')
  })

  it('a conversation can be interrupted during its summary, and is summarised when it continues', async () => {
    const door = gate()
    const played = small.play(deployment.pawl, {
      model: (request) => (request.run === 1 ? looks(6)(request) : 'hello again'),
      look,
      summary: async (_request, { signal }) => {
        await door.pass(signal)
        return 'at last'
      },
    })
    const run = await played.session.send('go')
    await door.reached
    await played.session.interrupt()
    expect(await run.settled({ timeout: '20s' })).toMatchObject({ status: 'interrupted' })
    door.open()
    expect((await ask(played, 'still there?')).text).toBe('hello again')
    expect((await compacted(played.session)).map(({ run: of, summary }) => [of, summary])).toEqual([[2, 'at last']])
  })

  it('a conversation that fills its window lists its compactions, and has a line for them in `pawl show`', async () => {
    const played = small.play(deployment.pawl, { model: looks(5), look })
    await ask(played)
    await stored(played.session)
    const listed = await played.session.compactions()
    const events = await compacted(played.session)
    expect(listed.map(({ seq, summary, forced }) => ({ seq, summary, forced }))).toEqual(
      events.map(({ seq, summary }) => ({ seq, summary, forced: false })),
    )
    const { stdout } = await exec(process.execPath, [MAIN, 'show', played.id], {
      env: { ...process.env, DATABASE_URL: deployment.stack.databaseUrl },
    })
    expect(stdout).toMatch(/^ {2}compacted +\d×, last in run 1 turn \d: \d more messages became a summary \(\d+ of 2000 tokens\), 20/m)
  })

  it('a user’s function can summarise: it receives whole turns and reports what it cost', async () => {
    const played = own.play(deployment.pawl, { model: looks(7), look })
    await ask(played)
    const [first, second] = await compacted(played.session)
    expect(first).toMatchObject({
      summary: '5 messages after undefined, 200 tokens',
      messages: 5,
      model: 'my-own',
      usage: { input_tokens: 7 },
    })
    expect(second?.summary).toMatch(/^\d messages after "5 messages after undefined, 200 tokens", 200 tokens$/)
    expect(played.summaries).toEqual([])
  })

  it('a conversation is complete again after a rollback to a point before its summary, and in a fork from there', async () => {
    let maxBytes = 4_000
    const model = (request: ModelRequest): ScriptedAnswer => refusing(maxBytes, request.run === 1 ? looks(6) : () => 'that')(request)
    const played = roomy.play(deployment.pawl, { model, look })
    await ask(played)
    const events = await eventsOf(played.session)
    const [summary] = ofType(events, 'compacted')
    const checkpoint = ofType(events, 'checkpoint_made').findLast(({ seq }) => seq < (summary?.seq ?? 0))
    const target = { checkpoint: checkpoint?.version ?? 0 }
    maxBytes = Infinity
    const fork = await played.session.fork(target)
    expect(await compacted(fork)).toEqual([])
    await played.session.rollback(target)
    await ask(played, 'what was first?')
    const seen = outline(played.requests.at(-1) as ModelRequest)
    expect(seen.slice(0, 5)).toEqual(['go', 'call 1', 'result 1', 'call 2', 'result 2'])
    expect(seen).not.toContain('[Note from the system,')
  })
})

describe('a summariser that fails', () => {
  it('a summariser that fails leaves the conversation as it was, is recorded, and is not called in every turn', async () => {
    let asked = 0
    const summary: Scene['summary'] = () => {
      asked += 1
      throw new ModelError('overloaded_error', 'busy', { retryable: asked % 3 !== 0 })
    }
    const played = small.play(deployment.pawl, { model: looks(8), look: ({ n }) => `${n} ${'x'.repeat(300)}`, summary })
    expect((await ask(played)).text).toBe('done')
    const events = await eventsOf(played.session)
    const failures = ofType(events, 'compaction_failed')
    expect(failures.length).toBeGreaterThan(0)
    expect(failures[0]).toMatchObject({ code: 'overloaded_error', reason: 'busy', window: WINDOW })
    expect(asked).toBe(failures.length * 3)
    const attempts = ofType(events, 'model_attempt_failed')
    expect(attempts.map(({ purpose, error }) => [purpose, error.attempt])).toEqual(
      failures.flatMap(() => [1, 2, 3].map((n) => ['compaction', n])),
    )
    expect(outline(played.requests.at(-1) as ModelRequest)).toContain('result 1')
    await stored(played.session)
    const errors = await rows(`select context, attempt, class from pawl.errors where session_id = $1 order by seq limit 4`, played.session)
    expect(errors).toEqual([
      ...[1, 2, 3].map((attempt) => ({ context: 'compaction', attempt, class: 'ModelError' })),
      { context: 'compaction', attempt: null, class: 'CompactionFailed' },
    ])
  })

  it('a summariser that returns nothing counts as failed', async () => {
    const played = own.play(deployment.pawl, { model: looks(5), look })
    await ask(played, 'go', { metadata: { returns: 'nothing' } })
    const [failure] = ofType(await eventsOf(played.session), 'compaction_failed')
    expect(failure).toMatchObject({ code: 'invalid_summary' })
  })
})

describe("a provider's refusal of a request as too large", () => {
  it('a request refused as too large compacts the conversation, in pieces that fit, and the run continues', async () => {
    const big = 'y'.repeat(300_000)
    const played = roomy.play(deployment.pawl, { model: refusing(1_000_000, looks(5)), look: ({ n }) => `${n} ${big}` })
    expect((await ask(played)).text).toBe('done')
    const events = await eventsOf(played.session)
    expect(ofType(events, 'compacted')).toMatchObject([
      { forced: true, window: 1_000_000, turn: 5, messages: 5 },
      { forced: true, turn: 5, messages: 2 },
    ])
    const failed = ofType(events, 'model_attempt_failed')
    expect(failed).toMatchObject([{ turn: 5, error: { code: 'context_overflow', retryable: true } }])
    expect(outline(played.requests.at(-1) as ModelRequest).filter((text) => text.startsWith('result'))).toEqual(['result 4', 'result 5'])
  })

  it("a provider's refusal of a request as too large shortens results if the newest turn alone is too large", async () => {
    const put = (): string => 'z'.repeat(200_000)
    const calls = Array.from({ length: 16 }, (_, n) => use('put', `order ${n}`))
    const played = roomy.play(deployment.pawl, { model: refusing(2_500_000, looks(0, { 1: calls })), put })
    expect((await ask(played)).text).toBe('done')
    const [event] = await compacted(played.session)
    expect(event).toMatchObject({ forced: true, upToSeq: 0, messages: 0 })
    expect(event?.resultBytes).toBeGreaterThan(1_000)
    const results = resultsIn(played.requests.at(-1) as ModelRequest)
    expect(results).toHaveLength(16)
    for (const { content } of results) expect(content).toMatch(/bytes left out/)
    expect(played.summaries).toEqual([])
  })

  it('if the window is unknown, only a request refused as too large is compacted, and the worker warns about it once', async () => {
    const played = unsized.play(deployment.pawl, { model: refusing(9_000, looks(12)), look: ({ n }) => `${n} ${'x'.repeat(2_000)}` })
    expect((await ask(played)).text).toBe('done')
    const events = await compacted(played.session)
    expect(events.length).toBeGreaterThan(0)
    for (const { forced } of events) expect(forced).toBe(true)
    expect(warned.filter((message) => message.startsWith('the window of a model is unknown'))).toHaveLength(1)
  })

  it("a provider's refusal of a request as too large fails the run with context_overflow if compaction does not help", async () => {
    const played = roomy.play(deployment.pawl, { model: refusing(100, looks(3)), look })
    await expect(ask(played)).rejects.toMatchObject({ code: 'context_overflow' })
    expect(ofType(await eventsOf(played.session), 'compacted')).toMatchObject([{ forced: true, turn: 2, resultBytes: 500 }])
    expect(played.requests.map(({ turn }) => turn)).toEqual([1, 2, 2])
  })

  it("a provider's refusal of a request as too large fails the run at once if nothing can be left out", async () => {
    const played = roomy.play(deployment.pawl, { model: refusing(1, looks(3)) })
    await expect(ask(played)).rejects.toMatchObject({ code: 'context_overflow' })
    expect(ofType(await eventsOf(played.session), 'compaction_failed')).toMatchObject([{ forced: true, code: 'nothing_to_compact' }])
    expect(played.requests).toHaveLength(1)
  })

  it('a run fails if its summariser fails after a refusal as too large, and can be continued once it works', async () => {
    let works = false
    const played = roomy.play(deployment.pawl, {
      model: refusing(5_000, looks(9)),
      look,
      summary: () => {
        if (!works) throw new ModelError('permission_error', 'no', { retryable: false })
        return 'at last'
      },
    })
    await expect(ask(played)).rejects.toMatchObject({ code: 'context_overflow', message: expect.stringContaining('permission_error') })
    works = true
    await played.session.recover({ strategy: 'continue_run', by: 'ann' })
    await until('the run is over', async () => (await played.session.state()).status === 'idle')
    expect((await compacted(played.session)).at(-1)?.summary).toBe('at last')
  })
})
