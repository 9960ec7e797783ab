// Log lines of an orchestrator whose parent has a logger of the user's.
import type { Logger } from '../../agent/tool.ts'
import type { FromOrchestrator } from '../protocol.ts'

/** A logger that hands its lines to the parent. */
export function parentLogger(post: (message: FromOrchestrator) => void): Logger {
  const at =
    (level: keyof Logger) =>
    (fields: object, message = ''): void =>
      post({ type: 'log', level, fields: plain(fields), message })
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** What cannot be cloned must not end the process that logs it. */
function plain(fields: object): object {
  try {
    return structuredClone(fields)
  } catch {
    return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, value instanceof Error ? textOf(value) : String(value)]))
  }
}

function textOf({ name, message, stack }: Error): object {
  return { type: name, message, stack }
}
