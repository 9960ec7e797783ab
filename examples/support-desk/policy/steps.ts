// The steps that policies are made of: asking the tools, and coping with calls that failed or whose outcome is unknown.
import type { Json } from 'pawl'
import type { EmailTemplate } from '../shop/records.ts'
import type { Call, Outcome } from './replay.ts'

/** A part of a policy that returns a value. */
export type Step<T> = Generator<Call[], T, Outcome[]>

/** How often the desk repeats a failed call before it gives up. */
const MORE_TRIES = 6

/** The desk cannot continue by itself; `message` is sent to the customer. */
export class GaveUp extends Error {
  override readonly name = 'GaveUp'
}

/** The shop refused a call: asking again would not help. */
export class Refused extends Error {
  override readonly name = 'Refused'
  /** The shop's code, such as `order_not_found`. */
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** A tool call. */
export function call(tool: string, input: Call['input']): Call {
  return { tool, input }
}

/**
 * Makes the calls in one turn, and repeats those that failed in the turns after it.
 * @throws Refused if the shop said no; GaveUp if a call fails again and again.
 */
export function* together<T extends readonly unknown[] = Json[]>(calls: readonly Call[]): Step<T> {
  const values: (Json | undefined)[] = calls.map(() => undefined)
  let open = calls.map((_, index) => index)
  let last = ''
  for (let tries = 0; open.length > 0; tries++) {
    if (tries > MORE_TRIES) throw new GaveUp(`${open.map((index) => calls[index]?.tool).join(', ')} does not work at the moment (${last})`)
    const outcomes: Outcome[] = yield open.map((index) => calls[index] as Call)
    const failed: number[] = []
    for (const [place, index] of open.entries()) {
      const outcome = outcomes[place] as Outcome
      const refusal = /Refused by the shop \((\w+)\)/.exec(outcome.text)
      if (!outcome.ok && refusal?.[1]) throw new Refused(refusal[1], outcome.text)
      if (outcome.ok) values[index] = outcome.value
      else failed.push(index)
      if (!outcome.ok) last = outcome.text
    }
    open = failed
  }
  return values as unknown as T
}

/** One call, made as often as it takes. */
export function* one<T>(tool: string, input: Call['input']): Step<T> {
  const [value] = yield* together<[T]>([call(tool, input)])
  return value
}

/** Sends an e-mail once: if it is unknown whether it was sent, checks before sending it again. */
export function* email(orderId: string, template: EmailTemplate): Step<void> {
  for (let attempt = 1; attempt <= MORE_TRIES; attempt++) {
    const [sent] = yield [call('email_customer', { orderId, template, ...(attempt > 1 && { attempt }) })]
    if (sent?.ok) return
    const { emails } = yield* one<{ emails: { template: string }[] }>('list_emails', { orderId })
    if (emails.some((one) => one.template === template)) return
  }
  throw new GaveUp(`the e-mail about ${orderId} does not go out`)
}
