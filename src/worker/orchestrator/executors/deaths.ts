// Finds which work may have caused the deaths of executors: counts the deaths during each job.
import { LRUCache } from 'lru-cache'
import type { JobOrder } from '../../../calls/jobs.ts'

/** How long a death is remembered: longer than the pauses between automatic recoveries. */
const REMEMBERED_MS = 15 * 60_000
const MAX_REMEMBERED = 1_000

export interface Deaths {
  /** Whether no deaths are remembered, which is the usual case. */
  isEmpty(): boolean
  /** The deaths that the order's code may have caused since it last ended well. */
  of(order: JobOrder): number
  /** The tools during whose calls executors have died, in this session or in any. */
  toolsOf(sessionId: string): string[]
  /** An executor died while it was running these jobs. */
  count(guilty: readonly JobOrder[]): void
  /** The order's code was not the cause, or no longer is. */
  forgive(order: JobOrder): void
}

/** Deaths of executors during calls of one tool, in any session. */
interface ToolDeaths {
  count: number
  /**
   * The sessions in which it was running at every death. As long as there is one, that session is the more likely cause, because the tool
   * works in other sessions.
   */
  always: ReadonlySet<string>
}

/**
 * Counts deaths by session and tool (or model), because most bugs that end a process depend on the data of one session. Also counts them by
 * tool, for bugs that do not: the tool counts as the cause once no session was part of every death.
 */
export function countDeaths(): Deaths {
  const ofSessions = new LRUCache<string, number>({ max: MAX_REMEMBERED, ttl: REMEMBERED_MS })
  const ofTools = new LRUCache<string, ToolDeaths>({ max: MAX_REMEMBERED, ttl: REMEMBERED_MS })

  return {
    isEmpty: () => ofSessions.size === 0 && ofTools.size === 0,
    of(order) {
      const tool = isTool(order) ? ofTools.get(codeOf(order)) : undefined
      return Math.max(ofSessions.get(inSession(order)) ?? 0, tool?.always.size === 0 ? tool.count : 0)
    },
    toolsOf(sessionId) {
      const keys = [
        ...ofTools.keys(),
        ...[...ofSessions.keys()].filter((key) => key.startsWith(`${sessionId} `)).map((key) => key.slice(sessionId.length + 1)),
      ]
      return [...new Set(keys.flatMap((key) => (key.startsWith(EXECUTED) ? key.slice(EXECUTED.length) : [])))]
    },
    count(guilty) {
      for (const key of new Set(guilty.map(inSession))) ofSessions.set(key, (ofSessions.get(key) ?? 0) + 1)
      const tools = guilty.filter(isTool)
      for (const key of new Set(tools.map(codeOf))) {
        const before = ofTools.get(key)
        const there = tools.filter((one) => codeOf(one) === key).map(({ ticket }) => ticket.sessionId)
        ofTools.set(key, {
          count: (before?.count ?? 0) + 1,
          always: new Set(before ? there.filter((one) => before.always.has(one)) : there),
        })
      }
    },
    forgive(order) {
      ofSessions.delete(inSession(order))
      ofTools.delete(codeOf(order))
    },
  }
}

/** A model's request takes long and rarely ends its process, so two deaths during one are too little evidence to hold up every session. */
const isTool = ({ ticket }: JobOrder): boolean => 'tool' in ticket.subject

/** Names the code that a job runs. The call's id would not do, because a repeated call gets another id. */
const codeOf = ({ kind, ticket: { subject } }: JobOrder): string => `${kind} ${'tool' in subject ? subject.tool : ''}`

const EXECUTED = 'executeTool '

const inSession = (order: JobOrder): string => `${order.ticket.sessionId} ${codeOf(order)}`
