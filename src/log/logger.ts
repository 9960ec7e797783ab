// The logger of a worker's process: the user's or the default one, which gets plain fields without secrets.
import type { Logger } from '../agent/tool.ts'
import { defaultLogger } from './default-logger.ts'
import type { Level, LeveledLogger } from './levels.ts'
import { plainFields } from './plain.ts'
import { secretsBy } from './secrets.ts'

/** Options. */
export interface LoggerOptions {
  /** Where lines go. Default: the default logger. */
  to?: LeveledLogger | undefined
  /** Names that are redacted besides those of `PAWL_LOG_REDACT` and the usual ones. */
  redact?: readonly string[] | undefined
}

/**
 * A logger that never throws: what happens in a session must not depend on its log.
 * @throws InvalidOption `invalid_option`: for `PAWL_LOG_LEVEL`, `PAWL_LOG_REDACT` or a name in `redact`.
 */
export function openLogger({ to = defaultLogger(), redact = [] }: LoggerOptions): Logger {
  const isSecret = secretsBy([...namesIn(process.env.PAWL_LOG_REDACT), ...redact])
  const at =
    (level: Level) =>
    (...given: unknown[]): void => {
      try {
        if (to.isLevelEnabled?.(level) === false) return
        const { fields, message } = lineOf(given)
        to[level](plainFields(fields, isSecret), message)
      } catch {
        // The line is lost.
      }
    }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** A logger that adds these fields to each line. */
export function withFields(logger: Logger, bound: object): Logger {
  const at =
    (level: Level) =>
    (...given: unknown[]): void => {
      const { fields, message } = lineOf(given)
      // First for the reader, and last because they are pawl's: another field of that name must not hide them.
      logger[level]({ ...bound, ...fields, ...bound }, message)
    }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** Programs without type checking may leave out the fields, or give an error instead, as pino allows. */
function lineOf([first, second]: unknown[]): { fields: object; message: string } {
  const message = typeof second === 'string' ? second : ''
  if (first instanceof Error) return { fields: { err: first }, message: message || first.message }
  if (typeof first === 'object' && first !== null) return { fields: first, message }
  return { fields: {}, message: typeof first === 'string' ? first : message }
}

/** Names in an environment variable, separated by commas. */
function namesIn(list = ''): string[] {
  return list.split(',').flatMap((name) => name.trim() || [])
}
