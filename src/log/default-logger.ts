// The default logger. Writes to stderr: readable lines if it is a terminal, otherwise pino's JSON.
import { createRequire } from 'node:module'
import type * as Pino from 'pino'
import { configuredLevel, isWritten, type Level, type LeveledLogger } from './levels.ts'
import { readable } from './readable.ts'

/** Writes lines of level `PAWL_LOG_LEVEL` and above. @throws InvalidOptionError `invalid_option`. */
export function defaultLogger(): LeveledLogger {
  const minLevel = configuredLevel()
  const write = process.stderr.isTTY ? toTerminal : toPino(minLevel)
  const at =
    (level: Level) =>
    (fields: object, message?: string): void => {
      if (isWritten(level, minLevel)) write(level, fields, message)
    }
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    isLevelEnabled: (level) => isWritten(level, minLevel),
  }
}

type Write = (level: Level, fields: object, message?: string) => void

function toTerminal(level: Level, fields: object, message = ''): void {
  process.stderr.write(readable({ at: new Date(), level, fields, message }, process.stderr.hasColors()))
}

/** Loads pino only for the first line, because the parent of executors may never write one. */
function toPino(level: string): Write {
  let pino: LeveledLogger | undefined
  return (at, fields, message) => (pino ??= loadPino(level))[at](fields, message)
}

function loadPino(level: string): LeveledLogger {
  const { pino } = createRequire(import.meta.url)('pino') as typeof Pino
  // Errors are already plain data.
  return pino({ name: 'pawl', level, serializers: { err: (err: unknown) => err } }, pino.destination(2))
}
