// Finds which work may have caused the deaths of executors: counts the jobs that each of them was running.
import { LRUCache } from 'lru-cache'
import type { JobOrder } from '../../../calls/jobs.ts'

/** How long a death is remembered: longer than the pauses between automatic recoveries. */
const REMEMBERED_MS = 15 * 60_000
const MAX_REMEMBERED = 1_000

/** The counts. */
export interface Deaths {
  /** Whether there is nothing to know: usually. */
  isEmpty(): boolean
  /** The deaths that the order's code may have caused since it last ended well. */
  of(order: JobOrder): number
  /** The tools during whose calls executors have died, in the session or in any. */
  toolsOf(sessionId: string): string[]
  /** An executor died while it was running these. */
  count(guilty: readonly JobOrder[]): void
  /** The order's code was not the cause, or no longer is. */
  forgive(order: JobOrder): void
}

/** The deaths during which a tool was running, in any session. */
interface ToolDeaths {
  count: number
  /** The sessions in which it was running each time. While there is one, it is the more likely cause: the tool works in other sessions. */
  always: ReadonlySet<string>
}

/**
 * Counts deaths by session and tool (or model), because most bugs that end a process need the data of one session; and by tool, for those
 * that do not: the tool counts as the cause once no session was part of every death.
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

/** A model's request is long and seldom ends its process: two deaths during one say too little to hold up every session. */
const isTool = ({ ticket }: JobOrder): boolean => 'tool' in ticket.subject

/** The code that a job runs. It is not the call's id, because a call that is made again has another one. */
const codeOf = ({ kind, ticket: { subject } }: JobOrder): string => `${kind} ${'tool' in subject ? subject.tool : ''}`

const EXECUTED = 'executeTool '

const inSession = (order: JobOrder): string => `${order.ticket.sessionId} ${codeOf(order)}`
