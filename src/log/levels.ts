// Log levels.
import type { Logger } from '../agent/tool.ts'
import { InvalidOptionError } from '../options/errors.ts'

/** The level of a line. */
export type Level = keyof Logger

/** A logger that may report which levels it writes, as pino does. */
export interface LeveledLogger extends Logger {
  isLevelEnabled?(level: Level): boolean
}

/** pino's level names, least severe first. */
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** The least severe level that the default logger writes. Default: `info`. @throws InvalidOptionError `invalid_option`. */
export function configuredLevel({ PAWL_LOG_LEVEL: level = 'info' }: NodeJS.ProcessEnv = process.env): string {
  const name = level.trim().toLowerCase() || 'info'
  if (LEVELS.includes(name)) return name
  throw new InvalidOptionError(`PAWL_LOG_LEVEL is ${JSON.stringify(level)}. Set it to one of ${LEVELS.join(', ')}.`)
}

/** Whether a line of the level is written if `minLevel` is the least severe level to write. */
export function isWritten(level: Level, minLevel: string): boolean {
  return LEVELS.indexOf(level) >= LEVELS.indexOf(minLevel)
}
