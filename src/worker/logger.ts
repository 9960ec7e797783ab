// The logger where the user gives none.
import { pino } from 'pino'
import type { Logger } from '../agent/tool.ts'

/** pino on stderr, level `PAWL_LOG_LEVEL` or `warn`. */
export function defaultLogger(): Logger {
  return pino({ name: 'pawl', level: process.env.PAWL_LOG_LEVEL ?? 'warn' }, pino.destination(2))
}
