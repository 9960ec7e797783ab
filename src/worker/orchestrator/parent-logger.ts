// Passes log lines of an orchestrator to its parent, which has the user's logger.
import type { Logger } from '../../agent/tool.ts'
import type { FromOrchestrator } from '../protocol.ts'

/** A logger that passes its lines to the parent. */
export function parentLogger(post: (message: FromOrchestrator) => void): Logger {
  const at =
    (level: keyof Logger) =>
    (fields: object, message = ''): void =>
      post({ type: 'log', level, fields: plain(fields), message })
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** Fields that cannot be cloned must not end the process that logs them. */
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
