// What holds up the feed, in words, and in the log of a process that reads it.
import type { Logger } from '../../agent/tool.ts'
import { durationText } from '../../session/duration.ts'
import type { FeedHoldUp, Holder } from '../postgres/commit-order.ts'

/** Why stored events do not appear in the feed. */
export function whyHeldUp({ forMs, holders }: FeedHoldUp): string {
  const by = holders.length === 0 ? 'a transaction on the primary of this replica' : holders.map(inWords).join(', and ')
  return `stored events have not appeared in the feed for ${durationText(forMs)}; it waits for ${by}`
}

function inWords({ pid, program, client, openMs, waitsFor, blockedBy }: Holder): string {
  if (pid === null) return 'a prepared transaction (see pg_prepared_xacts)'
  const where = [...(program ? [`"${program}"`] : []), ...(client ? [`at ${client}`] : [])].join(' ')
  const since = openMs === null ? '' : `, open for ${durationText(openMs)}`
  const wait = waitsFor === null ? '' : `, waiting for ${waitsFor}`
  const blockers = blockedBy.length === 0 ? '' : ` of process ${blockedBy.join(' and ')}`
  return `the flush of server process ${pid}${where && ` (${where})`}${since}${wait}${blockers}`
}

const REPEAT_MS = 60_000

/** Logs what holds up the feed: at once, again every minute, and when it ends. */
export function heldUpReports(logger: Logger): (heldUp: FeedHoldUp | null) => void {
  let reportedAt: number | undefined
  return (heldUp) => {
    if (!heldUp) {
      if (reportedAt !== undefined) logger.info({}, 'the feed continues')
      reportedAt = undefined
      return
    }
    const now = performance.now()
    if (reportedAt !== undefined && now - reportedAt < REPEAT_MS) return
    reportedAt = now
    logger.warn({ ...heldUp }, whyHeldUp(heldUp))
  }
}
