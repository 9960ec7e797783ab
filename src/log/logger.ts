// The logger of a worker process: the user's or the default one. It receives plain fields without secrets.
import type { Logger } from '../agent/tool.ts'
import { defaultLogger } from './default-logger.ts'
import type { Level, LeveledLogger } from './levels.ts'
import { plainFields } from './plain.ts'
import { secretsBy } from './secrets.ts'

/** Options of `openLogger`. */
export interface LoggerOptions {
  /** The logger that writes the lines. Default: the default logger. */
  to?: LeveledLogger | undefined
  /** Names to redact in addition to the built-in ones and those in `PAWL_LOG_REDACT`. Default: none. */
  redact?: readonly string[] | undefined
}

/**
 * Opens a logger that never throws, because a failing log must not affect a session.
 * @throws InvalidOptionError `invalid_option` for `PAWL_LOG_LEVEL`, `PAWL_LOG_REDACT` or a name in `redact`.
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

/** A logger that adds the given fields to each line. */
export function withFields(logger: Logger, bound: object): Logger {
  const at =
    (level: Level) =>
    (...given: unknown[]): void => {
      const { fields, message } = lineOf(given)
      // First, so that readers see them first; and again last, so that no field of the same name overrides them.
      logger[level]({ ...bound, ...fields, ...bound }, message)
    }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** Programs without type checking may omit the fields, or pass an error instead, as pino allows. */
function lineOf([first, second]: unknown[]): { fields: object; message: string } {
  const message = typeof second === 'string' ? second : ''
  if (first instanceof Error) return { fields: { err: first }, message: message || first.message }
  if (typeof first === 'object' && first !== null) return { fields: first, message }
  return { fields: {}, message: typeof first === 'string' ? first : message }
}

/** The names in a comma-separated environment variable. */
function namesIn(list = ''): string[] {
  return list.split(',').flatMap((name) => name.trim() || [])
}
