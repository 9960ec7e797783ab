// A logger that keeps its lines.
import type { Logger } from '../../src/agent/tool.ts'

/** A line: its level and its message. */
export type Line = [level: keyof Logger, message: string]

/** What was logged. */
export interface Recorder extends Logger {
  /** The lines whose message contains the text. */
  about(text: string): Line[]
  /** All that was logged, with the fields, as text. */
  text(): string
}

/** A logger whose lines can be inspected. */
export function recorder(): Recorder {
  const lines: Line[] = []
  const all: unknown[] = []
  const at =
    (level: keyof Logger) =>
    (fields: object, message = ''): void => {
      lines.push([level, message])
      all.push([level, fields, message])
    }
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    about: (text) => lines.filter(([, message]) => message.includes(text)),
    text: () => JSON.stringify(all),
  }
}
