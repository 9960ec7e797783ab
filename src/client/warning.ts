// Warnings of a client, which has a logger only if the caller passed one.
import type { Logger } from '../agent/tool.ts'
import { defined } from '../session/defined.ts'

/** Logs a warning or, without a logger, emits a process warning. */
export function warn(logger: Logger | undefined, code: string, about: Record<string, string | number>, text: string, err?: unknown): void {
  if (logger) return logger.warn({ ...about, ...defined({ err }) }, text)
  const members = Object.entries(about).map(([name, value]) => `${name} ${value}`)
  process.emitWarning(`pawl: ${text} (${members.join(', ')})`, { type: 'PawlWarning', code: `PAWL_${code}` })
}
