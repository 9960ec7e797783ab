// The environment variable that decides which calls may run as part of the model call that requests them.
import { InvalidOptionError } from '../options/errors.ts'

const CHOICES = ['on', 'off', 'always'] as const

/**
 * Which tools count as quick: those that have proved to be (`on`), none (`off`), or all (`always`, for tests).
 * @throws InvalidOptionError `invalid_option`.
 */
export function quickCalls({ PAWL_QUICK_CALLS: given = 'on' }: NodeJS.ProcessEnv = process.env): (typeof CHOICES)[number] {
  const choice = CHOICES.find((one) => one === given)
  if (choice) return choice
  throw new InvalidOptionError(`PAWL_QUICK_CALLS is ${JSON.stringify(given)}. Set it to "on" (the default), "off" or "always".`)
}
