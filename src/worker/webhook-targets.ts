// The environment variable that decides whether a worker sends to webhooks, and where to.
import { InvalidOptionError } from '../options/errors.ts'

const CHOICES = ['public', 'private', 'off'] as const

/**
 * Which targets a worker may send to: only public addresses (the default), also those in its own network, or none.
 * @throws InvalidOptionError `invalid_option`.
 */
export function webhookTargets({ PAWL_WEBHOOKS: given = 'public' }: NodeJS.ProcessEnv = process.env): (typeof CHOICES)[number] {
  const choice = CHOICES.find((one) => one === given)
  if (choice) return choice
  throw new InvalidOptionError(`PAWL_WEBHOOKS is ${JSON.stringify(given)}. Set it to "public" (the default), "private" or "off".`)
}
