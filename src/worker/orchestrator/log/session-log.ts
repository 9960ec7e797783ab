// Logs the events of sessions, each once.
import { LRUCache } from 'lru-cache'
import type { Logger } from '../../../agent/tool.ts'
import type { Background } from '../../../session/background.ts'
import { defined } from '../../../session/defined.ts'
import type { LogEntry, SessionEvent } from '../../../session/events.ts'
import { costOf } from '../../../session/spending/prices.ts'
import { paidCallIn } from '../../../session/spending/paid-call.ts'
import { type LineFacts, sessionLine } from './session-lines.ts'
import { addUsage, NO_USAGE, type Usage } from '../../../session/content.ts'
import { exactUsd } from '../../../session/spending/model-price.ts'

/** A rejected workflow task is repeated within seconds, and a worker rarely makes this many events in that time. */
const DIGESTS_KEPT = 10_000

/** Events as the workflow passes them. */
export interface AppendedEvents {
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

/**
 * Starts the log. A task that the server rejected runs again, which is not a replay, so digests identify events that are already logged.
 */
export function startSessionLog({ logger, modelOf }: SessionLogNeeds): (appended: AppendedEvents) => void {
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

const SESSIONS_KEPT = 10_000

interface RunCosts {
  note(sessionId: string, event: SessionEvent): void
  /**
   * The cost of the session's newest run, whose answers used `usage`. Undefined if an answer has no known price, or if not all answers
   * passed through here.
   */
  of(sessionId: string, usage: Usage): number | undefined
}

/** Whether the event may change a cost. A replay passes the events of all runs, and most of them need not be parsed. */
function mayCost({ json }: LogEntry): boolean {
  return json.includes('"type":"run_started"') || json.includes('"type":"model_completed"') || json.includes('"type":"compacted"')
}

function startRunCosts(): RunCosts {
  const runs = new LRUCache<string, { seq: number; usage: Usage; usd: number | undefined }>({ max: SESSIONS_KEPT })
  return {
    note(sessionId, event) {
      const { type, seq } = event
      if (type === 'run_started') runs.set(sessionId, { seq, usage: NO_USAGE, usd: 0 })
      const cost = runs.get(sessionId)
      // A replay passes the same events again.
      const spent = paidCallIn(event)
      if (!spent || !cost || seq <= cost.seq) return
      const answer = costOf(spent)
      cost.seq = seq
      cost.usage = addUsage(cost.usage, spent.usage)
      cost.usd = answer && cost.usd !== undefined ? exactUsd(cost.usd + answer.usd) : undefined
    },
    of(sessionId, usage) {
      const cost = runs.get(sessionId)
      return cost && sameUsage(cost.usage, usage) ? cost.usd : undefined
    },
  }
}

function sameUsage(a: Usage, b: Usage): boolean {
  return (Object.keys(NO_USAGE) as (keyof Usage)[]).every((kind) => a[kind] === b[kind])
}
