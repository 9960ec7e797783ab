// A session far longer than its model's window: no request is too large, each turn is summarised once, and no refund is paid twice.
import { randomUUID } from 'node:crypto'
import { defineAgent, defineTool, ModelError, type ModelRequest, type ToolUseBlock } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { resultsIn } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'

const TURNS = size(60, 2_000)
/** Tokens, of three bytes each. */
const WINDOW = size(8_000, 200_000)
const KEEP_TURNS = size(2, 4)
/** Every tenth turn pays a refund; at the end, the model asks for all of them again. */
const EVERY = 10
const REFUNDS = TURNS / EVERY
const BYTES = 5_000

const paid: number[] = []
const replays: unknown[] = []
const summarised: string[] = []
let refused = 0

const sizeOf = ({ system, messages }: ModelRequest): number => Math.ceil(JSON.stringify([system, messages]).length / 3)

const call = (name: string, input: Record<string, number>): ToolUseBlock => ({ type: 'tool_use', id: 'x', name, input })

const model = scripted(
  (request) => {
    const { turn, purpose } = request
    const tokens = sizeOf(request)
    const usage = { input_tokens: tokens, output_tokens: 30, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
    if (tokens > WINDOW) {
      refused += 1
      throw new ModelError('context_overflow', `${tokens} tokens`, { retryable: false })
    }
    if (purpose === 'compaction') {
      summarised.push(...(JSON.stringify(request.messages).match(/\[call t_1_\d+_0 /g) ?? []))
      return { content: [{ type: 'text', text: `What happened up to turn ${turn}.` }], usage }
    }
    if (turn > TURNS + 1) replays.push(resultsIn(request)[0]?.content)
    const again = turn - TURNS
    if (again > REFUNDS) return { content: [{ type: 'text', text: 'done' }], usage }
    const isRefund = again > 0 || turn % EVERY === 0
    const order = again > 0 ? again : turn / EVERY
    return { content: [isRefund ? call('refund', { order }) : call('look', { turn })], usage }
  },
  { contextWindow: WINDOW },
)

const agent = defineAgent({
  name: 'tireless',
  instructions: 'Go on.',
  model,
  compaction: { keepTurns: KEEP_TURNS },
  limits: { maxTurns: TURNS * 2 },
  tools: [
    defineTool({
      name: 'look',
      description: 'look',
      input: z.object({ turn: z.number() }),
      effect: 'read',
      execute: ({ turn }) => `${turn} `.padEnd(BYTES, 'x'),
    }),
    defineTool({
      name: 'refund',
      description: 'refund',
      input: z.object({ order: z.number() }),
      effect: 'idempotent',
      effectId: () => randomUUID(),
      execute: ({ order }) => {
        paid.push(order)
        return `refund of ${order} `.padEnd(BYTES, 'x')
      },
    }),
  ],
})

let deployment: Deployment

beforeAll(async () => {
  deployment = await deploy(size({ history: { events: 300 } }, {}))
  await deployment.startWorker({ agents: [agent] })
})
afterAll(() => deployment?.stop())

it(`a session of ${TURNS} turns ends as if there were no window`, { timeout: size(120_000, 3_600_000) }, async () => {
  const session = deployment.pawl.session(`tireless-${randomUUID()}`, { agent: 'tireless' }) as SessionHandle
  const { text } = await (await session.send('Refund every order once.')).result({ timeout: size('100s', '1h') })
  expect(text).toBe('done')
  expect(refused).toBe(0)
  const orders = Array.from({ length: REFUNDS }, (_, index) => index + 1)
  expect(paid).toEqual(orders)
  expect(replays).toHaveLength(REFUNDS)
  for (const [index, replay] of replays.entries()) {
    expect(replay).toMatch(new RegExp(`^\\[idempotent replay of t_1_${(index + 1) * EVERY}_0\\]\\nrefund of ${index + 1} `))
  }
  const events = await eventsOf(session)
  const compactions = ofType(events, 'compacted')
  expect(compactions.length).toBeGreaterThan(3)
  expect(ofType(events, 'compaction_failed')).toEqual([])
  // No turn is summarised twice, and every turn that is no longer sent is summarised.
  expect(new Set(summarised).size).toBe(summarised.length)
  const cut = ofType(events, 'model_completed').filter(({ seq }) => seq <= (compactions.at(-1)?.upToSeq ?? 0))
  expect(summarised).toEqual(cut.map(({ turn }) => `[call t_1_${turn}_0 `))
})
