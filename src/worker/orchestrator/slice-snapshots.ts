// Snapshots of slices at checkpoints: asks an executor for those that no job would soon produce, and stores each one after its events.
import type { ReadTarget } from '../../calls/reads.ts'
import { LRUCache } from 'lru-cache'
import type { SliceSnapshot } from '../../session/slices/slices.ts'
import type { Logger } from '../../agent/tool.ts'
import type { LogEntry, SessionEvent } from '../../session/events.ts'
import type { Store } from '../../store/store.ts'
import { type Executor, viewKeyOf } from './executors/executor-state.ts'

/**
 * How many sessions may have snapshots that wait for their events, and how many each may have. Snapshots are a cache, so the rest may be
 * dropped.
 */
const SESSIONS_WAITING = 500
const WAITING_EACH = 50

export interface SliceSnapshots {
  /** An executor has handed over snapshots. */
  arrived(sessionId: string, snapshots: readonly SliceSnapshot[]): void
  /** Events were stored. */
  stored(target: ReadTarget, entries: readonly LogEntry[]): void
}

/** Handles the snapshots of the current executors and saves them to a store. */
export function snapshotsInto(store: Pick<Store, 'saveSnapshots'>, executors: () => Iterable<Executor>, logger: Logger): SliceSnapshots {
  const waiting = new LRUCache<string, readonly SliceSnapshot[]>({ max: SESSIONS_WAITING })

  async function save(sessionId: string): Promise<void> {
    const snapshots = waiting.get(sessionId)
    if (!snapshots) return
    waiting.delete(sessionId)
    try {
      const head = await store.saveSnapshots(sessionId, snapshots)
      wait(
        sessionId,
        snapshots.filter(({ seq }) => seq > head),
      )
    } catch (err) {
      logger.debug({ session: sessionId, err }, 'the slices of a checkpoint could not be stored; the next flush tries again')
      wait(sessionId, snapshots)
    }
  }

  function wait(sessionId: string, snapshots: readonly SliceSnapshot[]): void {
    const all = [...(waiting.get(sessionId) ?? []), ...snapshots].sort((one, other) => one.seq - other.seq).slice(-WAITING_EACH)
    if (all.length > 0) waiting.set(sessionId, all)
  }

  function askFor(target: ReadTarget, checkpoint: LogEntry): void {
    const key = viewKeyOf(target.sessionId, target.epoch)
    const { seq, digest } = checkpoint
    for (const { channel, views, hasSlices } of executors()) {
      if (!hasSlices || !views.has(key)) continue
      channel.send({ type: 'checkpoint', target: { ...target, watermark: { seq, digest } } })
      return
    }
  }

  return {
    arrived(sessionId, snapshots) {
      wait(sessionId, snapshots)
      void save(sessionId)
    },
    stored(target, entries) {
      void save(target.sessionId)
      const newest = entries.findLast(isCheckpoint)
      if (newest) askFor(target, newest)
    },
  }
}

function isCheckpoint({ json }: LogEntry): boolean {
  // Most events are of other types, so only those that may match are parsed.
  return json.includes('"checkpoint_made"') && (JSON.parse(json) as SessionEvent).type === 'checkpoint_made'
}
