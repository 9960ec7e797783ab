// Wraps the user's own logger so that it receives errors as `Error` objects.
import type { Logger } from '../agent/tool.ts'
import type { Level, LeveledLogger } from './levels.ts'

/** Wraps the user's logger for `openLogger`. */
export function userLogger(logger: LeveledLogger): LeveledLogger {
  const at =
    (level: Level) =>
    (fields: object, message?: string): void =>
      logger[level](withError(fields), message)
  const lines: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  return { ...lines, isLevelEnabled: (level) => logger.isLevelEnabled?.(level) !== false }
}

/** Turns `err` back into an `Error`, which loggers and error trackers look for. It was converted to plain data. */
export function withError(fields: object): object {
  const { err } = fields as { err?: { type?: unknown; message?: unknown } }
  return typeof err?.type === 'string' && typeof err.message === 'string' ? { ...fields, err: errorOf(err) } : fields
}

function errorOf({
  type,
  message,
  ...rest
}: {
  type?: unknown
  message?: unknown
  stack?: unknown
  code?: unknown
  cause?: unknown
}): Error {
  const error = new Error(String(message))
  // The original class is unknown. Without a constructor, pino writes the name as the type.
  const hidden = { name: type, constructor: undefined, stack: rest.stack, ...(rest.cause !== undefined && { cause: causeOf(rest.cause) }) }
  for (const [name, value] of Object.entries(hidden)) Object.defineProperty(error, name, { value, writable: true, configurable: true })
  return rest.code === undefined ? error : Object.assign(error, { code: rest.code })
}

function causeOf(cause: unknown): unknown {
  return (withError({ err: cause }) as { err: unknown }).err
}
