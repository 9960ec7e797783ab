// Counts what a preflight finds.
import type { CheckedSession, PreflightReport, WarningSum } from '../preflight-report.ts'

export interface Tally {
  add(session: CheckedSession): void
  /** Marks the report as stopped before the last session. */
  stop(): void
  report(more: Pick<PreflightReport, 'store' | 'unverified' | 'agentCalls'>): PreflightReport
}

/** How many sessions each group of warnings lists. */
const EXAMPLES = 3

/** `onSession` is called with each session. */
export function startTally(taskQueue: string, onSession: ((session: CheckedSession) => void) | undefined): Tally {
  const counts = { replays: 0, breaks: 0, unread: 0, closed: 0 }
  const problems: CheckedSession[] = []
  const sums = new Map<string, WarningSum>()
  let stopped = false

  function addWarnings({ sessionId, warnings }: CheckedSession): void {
    // Several calls of a session may have the same warning.
    const mine = new Map(warnings.map((warning) => [JSON.stringify([warning.code, warning.agent, warning.tool]), warning]))
    for (const [kind, { callId: _, ...warning }] of mine) {
      const sum = sums.get(kind) ?? { ...warning, sessions: 0, examples: [] }
      sums.set(kind, sum)
      sum.sessions += 1
      if (sum.examples.length < EXAMPLES) sum.examples.push(sessionId)
    }
  }

  return {
    add(session) {
      counts[session.outcome] += 1
      if (session.problem) problems.push(session)
      addWarnings(session)
      onSession?.(session)
    },
    stop() {
      stopped = true
    },
    report: (more) => ({
      taskQueue,
      sessions: counts.replays + counts.breaks + counts.unread + counts.closed,
      ...counts,
      problems,
      warnings: [...sums.values()].sort((one, other) => other.sessions - one.sessions),
      ...more,
      stopped,
    }),
  }
}
