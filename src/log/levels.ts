// The levels of log lines.
import type { Logger } from '../agent/tool.ts'
import { InvalidOption } from '../options/errors.ts'

/** The level of a line. */
export type Level = keyof Logger

/** A logger may say which levels it writes, as pino does. */
export interface LeveledLogger extends Logger {
  isLevelEnabled?(level: Level): boolean
}

/** pino's names, least important first. */
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** The least important level that the default logger writes. @throws InvalidOption `invalid_option`. */
export function configuredLevel({ PAWL_LOG_LEVEL: level = 'info' }: NodeJS.ProcessEnv = process.env): string {
  const name = level.trim().toLowerCase() || 'info'
  if (LEVELS.includes(name)) return name
  throw new InvalidOption(`PAWL_LOG_LEVEL is ${JSON.stringify(level)}: set one of ${LEVELS.join(', ')}.`)
}

/** Whether a line of the level is written where `least` is the least important level. */
export function isWritten(level: Level, least: string): boolean {
  return LEVELS.indexOf(level) >= LEVELS.indexOf(least)
}
