// The environment variable that turns riding reads off.
import { InvalidOptionError } from '../options/errors.ts'

/** Whether quick reads may run as part of the model call that requests them. @throws InvalidOptionError `invalid_option`. */
export function quickReads({ PAWL_QUICK_READS: given = 'on' }: NodeJS.ProcessEnv = process.env): boolean {
  if (given === 'on' || given === 'off') return given === 'on'
  throw new InvalidOptionError(`PAWL_QUICK_READS is ${JSON.stringify(given)}. Set it to "on" (the default) or "off".`)
}
