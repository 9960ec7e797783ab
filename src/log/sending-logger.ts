// A logger whose lines another process writes.
import type { Logger } from '../agent/tool.ts'
import type { Level } from './levels.ts'

/** A line to send to the other process. */
export interface SentLine {
  level: Level
  fields: object
  message: string
}

/** A logger that sends its lines. Their fields are already plain data, because `openLogger` converts them first. */
export function sendingLogger(send: (line: SentLine) => void): Logger {
  const at =
    (level: Level) =>
    (fields: object, message = ''): void =>
      send({ level, fields, message })
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
