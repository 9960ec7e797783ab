// Logs the events of sessions, each once.
import { LRUCache } from 'lru-cache'
import type { Logger } from '../../../agent/tool.ts'
import type { Background } from '../../../session/background.ts'
import { defined } from '../../../session/defined.ts'
import type { LogEntry, SessionEvent } from '../../../session/events.ts'
import { costOf } from '../../../session/spending/prices.ts'
import { paidCallIn } from '../../../session/spending/paid-call.ts'
import { mayCost, startRunCosts } from './run-costs.ts'
import { type LineFacts, sessionLine } from './session-lines.ts'

/** A rejected workflow task is repeated within seconds, and a worker rarely makes this many events in that time. */
const DIGESTS_KEPT = 10_000

/** Events as the workflow passes them. */
export interface Appended {
  sessionId: string
  entries: readonly LogEntry[]
  /** Absent for events that an earlier execution made. */
  background: Background | undefined
  isReplaying: boolean
}

export interface SessionLogNeeds {
  logger: Logger
  /** The model that this worker would call for the agent, if known. */
  modelOf(agent: string): string | undefined
}

/** Starts the log. A task that the server rejected runs again, which is not a replay: digests identify events that are already logged. */
export function startSessionLog({ logger, modelOf }: SessionLogNeeds): (appended: Appended) => void {
  const logged = new LRUCache<string, true>({ max: DIGESTS_KEPT })
  const costs = startRunCosts()

  function known(sessionId: string, event: SessionEvent, background: Background): LineFacts {
    const model = event.type === 'session_started' ? modelOf(event.agent) : undefined
    const usd = usdOf(sessionId, event, background)
    return { ...background, ...defined({ model, usd }) }
  }

  function usdOf(sessionId: string, event: SessionEvent, { usage }: Background): number | undefined {
    const spent = paidCallIn(event)
    if (spent) return costOf(spent)?.usd
    return usage && costs.of(sessionId, usage)
  }

  return ({ sessionId, entries, background, isReplaying }) => {
    for (const entry of entries) {
      const isNew = background !== undefined && !isReplaying && !logged.has(entry.digest)
      if (!isNew && !mayCost(entry)) continue
      const event = JSON.parse(entry.json) as SessionEvent
      costs.note(sessionId, event)
      if (!isNew) continue
      logged.set(entry.digest, true)
      const { level, fields, message } = sessionLine(sessionId, event, known(sessionId, event, background))
      logger[level](fields, message)
    }
  }
}
