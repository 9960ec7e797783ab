// What repeating each tool does at the outside process: what its server honours, and so what the agent must declare.
import type { Effect } from '../../src/session/call-facts.ts'

/**
 * The writes. Those that move money go through a payment provider, which takes idempotency keys; returns, exchanges and
 * addresses go to older systems that execute whatever they are sent, but can look up a request by its reference.
 */
const WRITES: Readonly<Record<string, Effect>> = {
  cancel_pending_order: 'idempotent',
  modify_pending_order_items: 'idempotent',
  modify_pending_order_payment: 'idempotent',
  exchange_delivered_order_items: 'external',
  modify_pending_order_address: 'external',
  modify_user_address: 'external',
  return_delivered_order_items: 'external',
}

/** The effect of a tool; what is not a write is a read. */
export function effectOf(tool: string): Effect {
  return WRITES[tool] ?? 'read'
}
