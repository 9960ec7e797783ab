// The cost of an event: a model call, for a turn or for a summary of the conversation.
import type { Usage } from '../content.ts'
import { defined } from '../defined.ts'
import type { SessionEvent } from '../events.ts'
import type { ModelPrice } from './model-price.ts'

/** A model call that was paid for. */
export interface PaidCall {
  model: string
  provider?: string
  usage: Usage
  at: number
  price?: ModelPrice
  /** What the call was for; absent: a turn's own call. */
  purpose?: 'compaction'
}

/** The call that the event records; undefined if it records none. */
export function paidCallIn(event: SessionEvent): PaidCall | undefined {
  if (event.type === 'model_completed') {
    const { model, provider, usage, at, price } = event
    return { model, usage, at, ...defined({ provider, price }) }
  }
  if (event.type !== 'compacted' || event.usage === undefined) return undefined
  const { model = 'unknown', provider, usage, at, price } = event
  return { model, usage, at, ...defined({ provider, price }), purpose: 'compaction' }
}
