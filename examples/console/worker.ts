// The agents of the showcase. Their models are scripted, their tools work in the office that OFFICE_URL names, which kills some callers.
import { agentTool, defineAgent, defineTool, defineWorker, ModelError, type Message, ToolError } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'
import { ANSWERS, type CallResult, OTHERWISE, type Turn } from './conversations.ts'

/** Above this, a person must approve a refund. */
const FREE_CENTS = 10_000

/** Asks the office to do something once for a key, or what it has done for it. */
async function office(what: string, body: object): Promise<Record<string, unknown>> {
  const url = new URL(what, process.env.OFFICE_URL ?? 'http://127.0.0.1:4750')
  const response = await fetch(url, { method: 'POST', body: JSON.stringify({ ...body, pid: process.pid }) })
  const answer = (await response.json()) as Record<string, unknown>
  if (!response.ok) throw new ToolError(String(answer.message), { code: String(answer.code), retryable: response.status >= 500 })
  return answer
}

/** The newest message of the user, and how many answers came after it. */
function progressOf(messages: readonly Message[]): { said: string; answers: number } {
  const textOf = ({ role, content }: Message): string | undefined => {
    if (role !== 'user') return undefined
    if (typeof content === 'string') return content
    return content.some(({ type }) => type === 'tool_result')
      ? undefined
      : content.map((block) => ('text' in block ? block.text : '')).join('')
  }
  const at = messages.findLastIndex((message) => textOf(message) !== undefined)
  const newest = messages[at]
  return { said: newest ? (textOf(newest) ?? '') : '', answers: messages.slice(at).filter(({ role }) => role === 'assistant').length }
}

/** A model that answers by the script. Its tokens are those that a real one would roughly count. */
function model(name: string) {
  return scripted(
    ({ messages }) => {
      const { said, answers } = progressOf(messages)
      if (said === 'Export the invoices of October.' && answers === 2)
        throw new ModelError('invalid_request_error', 'messages.5: the file is larger than this model accepts.', {
          retryable: false,
          status: 400,
        })
      // The prompt may add sections, such as the memory, after what the user said.
      const [, turns] = Object.entries(ANSWERS).find(([text]) => said.startsWith(text)) ?? []
      const content = contentOf(turns?.[answers] ?? OTHERWISE, messages)
      const [read, written] = [JSON.stringify(messages).length, JSON.stringify(content).length]
      const usage = {
        input_tokens: 1_200 + Math.ceil(read / 4),
        output_tokens: 20 + Math.ceil(written / 4),
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
      }
      return { content, usage }
    },
    { name, maxTokens: 4_000, pace: '4ms' },
  )
}

/** What the last call returned. */
function resultIn(messages: readonly Message[]): CallResult {
  const content = messages.at(-1)?.content
  const [last] = Array.isArray(content) ? content.flatMap((block) => (block.type === 'tool_result' ? [block] : [])).slice(-1) : []
  const isError = last?.is_error === true
  return { isError, value: isError || typeof last?.content !== 'string' ? {} : objectIn(last.content) }
}

/** A person may answer with anything. */
function objectIn(text: string): CallResult['value'] {
  try {
    return Object(JSON.parse(text)) as CallResult['value']
  } catch {
    return {}
  }
}

function contentOf(turn: Turn, messages: readonly Message[]) {
  if (typeof turn === 'function') return [{ type: 'text', text: turn(resultIn(messages)) } as const]
  if (typeof turn === 'string') return [{ type: 'text', text: turn } as const]
  return Array.isArray(turn) ? turn : [{ type: 'text', text: turn.says } as const, ...turn.calls]
}

const order = z.object({ order: z.string() })

const getOrder = defineTool({
  name: 'get_order',
  description: 'Looks up an order.',
  input: order,
  effect: 'read',
  execute: (input) => office('orders', input),
})
const trackParcel = defineTool({
  name: 'track_parcel',
  description: 'Says where a parcel is.',
  input: order,
  effect: 'read',
  execute: (input) => office('parcels', input),
})
const refundOrder = defineTool({
  name: 'refund_order',
  description: 'Refunds an order, in whole or in part.',
  input: order.extend({ cents: z.number().int().positive() }),
  effect: 'external',
  approval: ({ cents }) => (cents > FREE_CENTS ? { reason: `Refunds of more than €${FREE_CENTS / 100} need a person.` } : false),
  execute: (input, ctx) => office('refunds', { ...input, key: ctx.idempotencyKey }),
  effectId: ({ id }) => String(id),
  verify: async (input, ctx) => {
    const { found, isListed } = await office('refunds/find', { order: input.order, key: ctx.idempotencyKey })
    if (found) return { happened: true, result: found as Record<string, unknown> }
    return isListed ? { happened: false } : { happened: 'unknown' }
  },
})
const emailCarrier = defineTool({
  name: 'email_carrier',
  description: 'Writes to the carrier. Nobody can tell afterwards whether the mail was sent.',
  input: order.extend({ subject: z.string() }),
  effect: 'external',
  execute: (input, ctx) => office('mails', { ...input, key: ctx.idempotencyKey }),
})
const signReturnSlip = defineTool({
  name: 'sign_return_slip',
  description: 'The customer signs in the shop’s page.',
  input: order.extend({ items: z.number() }),
  effect: 'external',
  execute: 'client',
})
const raiseCredit = defineTool({
  name: 'raise_credit',
  description: 'Raises the credit of a customer.',
  input: z.object({ customer: z.string(), toCents: z.number() }),
  effect: 'external',
  approval: { reason: 'Only the finance team may raise a credit.', approvers: { role: 'finance' } },
  execute: (input, ctx) => office('credits', { ...input, key: ctx.idempotencyKey }),
})
const collectInvoices = defineTool({
  name: 'collect_invoices',
  description: 'Collects the invoices of a month.',
  input: z.object({ month: z.string() }),
  effect: 'read',
  execute: (input) => office('invoices', input),
})
const upload = defineTool({
  name: 'upload',
  description: 'Uploads a file for the accountant; a second upload replaces the first.',
  input: z.object({ file: z.string(), bytes: z.number() }),
  effect: 'idempotent',
  execute: (input, ctx) => office('uploads', { ...input, key: ctx.idempotencyKey }),
})
const countStock = defineTool({
  name: 'count_stock',
  description: 'Counts the stock of a warehouse.',
  input: z.object({ warehouse: z.string() }),
  effect: 'read',
  retry: { maxRetries: 4, baseDelay: 20 },
  execute: (input, ctx) => office('stock', { ...input, attempt: ctx.attempt }),
})
const readPrices = defineTool({
  name: 'read_prices',
  description: 'Reads the prices of a competitor.',
  input: z.object({ competitor: z.string() }),
  effect: 'read',
  execute: (input) => office('prices', input),
})
const searchFlights = defineTool({
  name: 'search_flights',
  description: 'Searches flights.',
  input: z.object({ to: z.string(), seats: z.number() }),
  effect: 'read',
  execute: (input) => office('flights', input),
})
const searchRooms = defineTool({
  name: 'search_rooms',
  description: 'Searches rooms.',
  input: z.object({ city: z.string(), rooms: z.number() }),
  effect: 'read',
  execute: (input) => office('rooms', input),
})
const bookRooms = defineTool({
  name: 'book_rooms',
  description: 'Books rooms.',
  input: z.object({ hotel: z.string(), rooms: z.number(), cents: z.number() }),
  effect: 'external',
  approval: { reason: 'The rooms cannot be cancelled.' },
  execute: (input, ctx) => office('bookings', { ...input, key: ctx.idempotencyKey }),
})

const support = defineAgent({
  name: 'support',
  instructions: 'You help the customers of a shop for furniture.',
  model: model('claude-sonnet-4-6'),
  tools: [getOrder, trackParcel, refundOrder, emailCarrier, signReturnSlip, raiseCredit],
})
const accounting = defineAgent({
  name: 'accounting',
  instructions: 'You do the books.',
  model: model('claude-haiku-4-5'),
  tools: [collectInvoices, upload],
})
const logistics = defineAgent({
  name: 'logistics',
  instructions: 'You know what is in which warehouse.',
  model: model('claude-haiku-4-5'),
  tools: [countStock],
  plan: true,
  memory: [{ block: 'notes', maxChars: 2_000 }],
})
const research = defineAgent({
  name: 'research',
  instructions: 'You compare prices.',
  model: model('claude-opus-4-6'),
  // Enough for two or three calls.
  limits: { maxUsd: 0.05 },
  tools: [readPrices],
})
const flights = defineAgent({
  name: 'flights',
  instructions: 'You find flights.',
  model: model('claude-haiku-4-5'),
  tools: [searchFlights],
})
const hotels = defineAgent({
  name: 'hotels',
  instructions: 'You book hotels.',
  model: model('claude-haiku-4-5'),
  tools: [searchRooms, bookRooms],
})
const travel = defineAgent({
  name: 'travel',
  instructions: 'You plan journeys.',
  model: model('claude-sonnet-4-6'),
  tools: [agentTool(flights, { description: 'Finds flights.' }), agentTool(hotels, { description: 'Finds and books rooms.' })],
})

export default defineWorker({ agents: [support, accounting, logistics, research, travel, flights, hotels] })
