// The write side: a flush stores a session's events and their rows. Events are stored whatever they contain: if a transaction fails because
// of their content, it is split in half until the refused event is alone.
import type { Logger } from '../../agent/tool.ts'
import type { LogEntry, SessionEvent } from '../../session/events.ts'
import { type TransactionOutcome, applyFlush, type Flush, type FlushOutcome, type Manner, type WriteNeeds } from './apply.ts'
import { touchesCheckpoints } from './checkpoints.ts'
import { parsed } from './entries.ts'
import { isAboutValues, isTooSlow, StoreError } from '../errors.ts'
import { joinWriters } from '../postgres/commit-order.ts'
import type { StoredHead } from '../rows.ts'
import type { FlushOptions } from '../store.ts'
import { safeKey } from '../postgres/sanitise.ts'

/** The steps of a run: none of these starts or ends a run, or requests anything from a person. */
const STEPS: ReadonlySet<SessionEvent['type']> = new Set([
  'turn_started',
  'model_completed',
  'tool_issued',
  'tool_completed',
  'checkpoint_made',
])

/** See `Store.flush`. */
export async function flush(
  needs: WriteNeeds,
  sessionId: string,
  epoch: string,
  entries: readonly LogEntry[],
  options: FlushOptions = {},
): Promise<StoredHead> {
  const { head, strays } = await flushOrHalve(needs, { sessionId, key: safeKey(sessionId), epoch, entries, options })
  if (strays.length > 0) {
    throw new StoreError(
      'foreign_epoch',
      `Events ${strays[0]?.seq} to ${strays.at(-1)?.seq} of session ${sessionId} come from execution chain ${epoch}, ` +
        `but the store holds chain ${head.epoch} up to ${head.seq}. They were set aside in stray_events. Check which chain is right.`,
    )
  }
  return head
}

/** If the events are refused or exceed a statement's time limit, flushes the halves separately. */
async function flushOrHalve(needs: WriteNeeds, flush: Flush): Promise<FlushOutcome> {
  const { entries } = flush
  try {
    return await flushAtOnce(needs, flush)
  } catch (error) {
    if (entries.length > 1 && (isAboutValues(error) || isTooSlow(error))) {
      const half = Math.ceil(entries.length / 2)
      const first = await flushOrHalve(needs, { ...flush, entries: entries.slice(0, half) })
      const second = await flushOrHalve(needs, { ...flush, entries: entries.slice(half) })
      return { head: second.head, strays: [...first.strays, ...second.strays] }
    }
    if (!isAboutValues(error)) throw error
    // The event itself is stored, so that nothing is lost and later events are not blocked.
    return transact(needs, flush, { guarded: true, problem: (error as Error).message })
  }
}

async function flushAtOnce(needs: WriteNeeds, flush: Flush): Promise<FlushOutcome> {
  try {
    return await transact(needs, flush, { guarded: false })
  } catch (error) {
    if (mayBeCheckpoints(error, flush.entries)) return transact(needs, flush, { guarded: true })
    throw error
  }
}

/** Whether a failed flush may succeed without checkpoints in its statements. */
function mayBeCheckpoints(error: unknown, entries: readonly LogEntry[]): boolean {
  const codes = ['store_failed', 'permission_denied', 'schema_behind']
  return error instanceof StoreError && codes.includes(error.code) && entries.some((entry) => touchesCheckpoints(parsed(entry).event))
}

async function transact(needs: WriteNeeds, flush: Flush, manner: Manner): Promise<FlushOutcome> {
  const writer = { known: await needs.known(), namespace: needs.namespace }
  const first = joinWriters(needs.schema)
  const applied = await needs.database.transaction((tx) => applyFlush(tx, needs, writer, flush, manner), { first })
  applied.folding?.keep(applied.head.digest)
  if (applied.entries.length > 0) needs.notifier.notify(flush.key, !applied.entries.every(({ event }) => STEPS.has(event.type)))
  warnOf(needs.logger, flush.sessionId, applied)
  const { agent, entries, endings } = applied
  if (agent !== undefined && flush.options.inherited === undefined) {
    needs.onStored?.({ sessionId: flush.sessionId, agent, events: entries.map(({ event }) => event), endings })
  }
  return applied
}

function warnOf(logger: Logger | undefined, sessionId: string, { folding, failures, entries }: TransactionOutcome): void {
  for (const warning of folding?.warnings ?? []) logger?.warn({ session: sessionId }, warning)
  for (const { event, error } of failures) {
    logger?.warn({ session: sessionId, checkpoint: event.version, err: error }, 'a checkpoint was not written; the next one covers it')
  }
  const adjusted = entries.filter((entry) => entry.adjusted.length > 0)
  const [first] = adjusted
  if (!first) return
  const about = { session: sessionId, seq: first.seq, type: first.event.type, adjusted: first.adjusted, events: adjusted.length }
  logger?.warn(about, 'events contain values that their rows cannot hold: `events.adjusted` has the stored values')
}
