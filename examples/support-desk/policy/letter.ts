// Reads a customer's letter: who writes, about which order, and what they want.
import type { Address } from '../shop/records.ts'

/** What a customer may want. */
export type Wish = 'cancel' | 'exchange' | 'address' | 'refund' | 'send_back' | 'late' | 'where' | 'question' | 'other'

/** A letter, as far as it was understood. */
export interface Letter {
  from: string | undefined
  wish: Wish
  orderId: string | undefined
  /** "the Rain Jacket" */
  product: string | undefined
  /** "in medium", "for size 42 instead" */
  option: string | undefined
  address: Address | undefined
  country: string | undefined
  window: 'morning' | 'afternoon'
}

/** The first that matches is what the customer wants. */
const WISHES: readonly [Wish, RegExp][] = [
  ['cancel', /\bcancel\b/i],
  ['exchange', /\binstead\b/i],
  ['address', /\baddress\b/i],
  ['send_back', /\bsend it back\b/i],
  ['refund', /\b(refund|money back)\b/i],
  ['late', /\blate\b/i],
  ['where', /\bwhere (is|are)\b/i],
  ['question', /\bdo you have\b/i],
]

/** Reads a letter. A follow-up has no sender line: `from` is then undefined. */
export function readLetter(text: string): Letter {
  const found = (pattern: RegExp): string | undefined => pattern.exec(text)?.[1]
  const address = /address(?: of \S+ to)?:\s*([^,]+), (\S+) ([^,]+), ([A-Z]{2})/.exec(text)
  return {
    from: found(/^From: .*<([^>]+)>/m),
    wish: WISHES.find(([, pattern]) => pattern.test(text))?.[0] ?? 'other',
    orderId: found(/\b(W-\d+)\b/),
    product: found(/\bthe ([A-Z]\w+ [A-Z]\w+)\b/i),
    option: found(/\b(?:for|in) ([\w ]+?) instead/) ?? found(/ in ([\w ]+?), and what/),
    address: address ? { line: address[1] ?? '', zip: address[2] ?? '', city: address[3] ?? '', country: address[4] ?? '' } : undefined,
    country: found(/shipping to ([A-Z]{2})\b/),
    window: /\bafternoon\b/i.test(text) ? 'afternoon' : 'morning',
  }
}
