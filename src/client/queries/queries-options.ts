// Options of a store that is opened on its own, without Temporal.
import type { Logger } from '../../agent/tool.ts'
import type { Wait } from '../../connect/waits.ts'
import { checkOptions, fn, options, text, where } from '../../options/check.ts'
import { logger } from '../../options/shared.ts'
import type { ConnectOptions } from '../connect-options.ts'

/** Where the side store is, and which callbacks report on it. */
export type QueriesOptions = Pick<ConnectOptions, 'schema' | 'logger' | 'onWait'> & { postgres?: string }

const QUERIES = options({
  postgres: where<string>((value) => typeof value === 'string', 'a URL such as postgres://user@host/database').optional(),
  schema: text('the name of a Postgres schema').optional(),
  logger: logger<Logger>().optional(),
  onWait: fn<(wait: Wait) => void>().optional(),
})

/** Checks the options and returns them unchanged. @throws InvalidOptionError. */
export function checkQueriesOptions(given: QueriesOptions): QueriesOptions {
  checkOptions(QUERIES, given)
  return given
}
