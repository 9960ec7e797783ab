// The default logger.
import { createRequire } from 'node:module'
import type { Logger } from '../agent/tool.ts'

/** pino on stderr, level `PAWL_LOG_LEVEL` or `warn`. Loaded with the first line, because most processes never write one at that level. */
export function defaultLogger(): Logger {
  let logger: Logger | undefined
  const load = (): Logger => {
    const { pino } = createRequire(import.meta.url)('pino') as typeof import('pino')
    return pino({ name: 'pawl', level: levelNow() }, pino.destination(2))
  }
  const at =
    (level: keyof Logger) =>
    (fields: object, message?: string): void => {
      if (isHeard(level)) (logger ??= load())[level](fields, message)
    }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']
const levelNow = (): string => process.env.PAWL_LOG_LEVEL ?? 'warn'

function isHeard(level: keyof Logger): boolean {
  return LEVELS.indexOf(level) >= LEVELS.indexOf(levelNow())
}
