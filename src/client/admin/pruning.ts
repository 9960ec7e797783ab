// Prunes batch by batch, until no old session remains or the signal aborts.
import type { Store } from '../../store/index.ts'
import { checkPrune, type PruneOptions, type PruneReport } from './upkeep-options.ts'
import { defined } from '../../session/defined.ts'

const BATCH = 20
/** Archived messages deleted per transaction. */
const ARCHIVE_BATCH = 1_000

/** See `Upkeep.prune`. */
export async function prune(store: Store, options: PruneOptions): Promise<PruneReport> {
  const { olderThan, archiveRetention, batch = BATCH, dryRun } = checkPrune(options)
  const before = new Date(Date.now() - olderThan)
  const archiveBefore = archiveRetention === undefined ? undefined : new Date(Date.now() - archiveRetention)
  if (dryRun) return countOnly(store, before, archiveBefore)
  const report: PruneReport = {
    before,
    sessions: 0,
    rows: {},
    ...(archiveBefore && { archive: { before: archiveBefore, messages: 0, blobs: 0 } }),
    stopped: false,
  }
  await pruneSessions(store, report, batch, options)
  if (report.archive) await pruneArchive(store, report, report.archive, options)
  return report
}

async function pruneSessions(store: Store, report: PruneReport, limit: number, { by, onBatch, signal }: PruneOptions): Promise<void> {
  await repeat(report, signal, async () => {
    const { sessions, rows } = await store.upkeep.prune({ before: report.before, limit, ...defined({ by }) })
    report.sessions += sessions.length
    for (const [table, n] of Object.entries(rows)) report.rows[table] = (report.rows[table] ?? 0) + n
    if (sessions.length > 0) onBatch?.(report)
    return sessions.length === limit
  })
}

async function pruneArchive(
  store: Store,
  report: PruneReport,
  archive: NonNullable<PruneReport['archive']>,
  { onBatch, signal }: PruneOptions,
): Promise<void> {
  await repeat(report, signal, async () => {
    const { messages, blobs } = await store.upkeep.pruneArchive({ before: archive.before, limit: ARCHIVE_BATCH })
    archive.messages += messages
    archive.blobs += blobs
    if (messages > 0) onBatch?.(report)
    return messages === ARCHIVE_BATCH
  })
}

async function countOnly(store: Store, before: Date, archiveBefore: Date | undefined): Promise<PruneReport> {
  const { sessions, rows, archive } = await store.upkeep.prunable(before, archiveBefore)
  return { before, sessions, rows, ...(archiveBefore && { archive: { before: archiveBefore, ...archive } }), stopped: false }
}

/** Runs batch after batch while there is more to do. */
async function repeat(report: PruneReport, signal: AbortSignal | undefined, batch: () => Promise<boolean>): Promise<void> {
  for (let more = true; more; ) {
    if (signal?.aborted) {
      report.stopped = true
      return
    }
    more = await batch()
  }
}
