// The value of a slice, folded by the client from the session's events: now, at a checkpoint, or over time.
import { isDeepStrictEqual } from 'node:util'
import type { Slice } from '../../agent/slice.ts'
import type { Logger } from '../../agent/tool.ts'
import { checkOptions, integer, options, where } from '../../options/check.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import type { EventType, SessionEvent } from '../../session/events.ts'
import { addToSlices, deepFrozen, emptySlices, type SkippedEvent, type SlicesFold } from '../../session/slices/slices.ts'
import { StoreError } from '../../store/errors.ts'
import type { SliceMoment } from '../types.ts'
import { eventsUpTo } from './at-checkpoint.ts'
import { type SessionSource, readEvents } from './events.ts'
import { withRestored } from './large-content.ts'
import { warn } from '../warning.ts'

/** Where a slice is read, and the logger for skipped events. */
export interface SliceSource extends SessionSource {
  logger: Logger | undefined
}

const OPTIONS = options({ at: integer(1).optional(), all: where<true>((value) => value === true, 'true').optional() })

/** Checks which values of a slice to read. @throws InvalidOptionError. */
export function checkReading(slice: Slice, given: unknown = {}): { at?: number | undefined; all?: true | undefined } {
  if (!slice?.on || !('initial' in slice))
    throw new InvalidOptionError('The first argument of slice() is not a slice. Create it with defineSlice.')
  const { at, all } = checkOptions(OPTIONS, given)
  if (at !== undefined && all) throw new InvalidOptionError('at and all are mutually exclusive. Pass only one of them.')
  return { at, all }
}

/** The value now, or at the checkpoint with this version. @throws RequestRefusedError `checkpoint_not_found`, `events_gone`. */
export async function readSlice<V>(source: SliceSource, slice: Slice<string, V>, at?: number): Promise<V> {
  const kept = at === undefined ? undefined : await keptValue(source, slice, at)
  if (kept) return kept.value
  const fold = emptySlices([slice])
  for await (const event of restored(source, fold, at)) add(source, fold, event)
  return valueIn(fold, slice)
}

/**
 * The values at the checkpoints where the value had changed, and the value now if it has changed since.
 * @throws RequestRefusedError `events_gone`.
 */
export async function readMoments<V>(source: SliceSource, slice: Slice<string, V>): Promise<SliceMoment<V>[]> {
  const fold = emptySlices([slice])
  const moments: SliceMoment<V>[] = []
  let tags: readonly string[] = []
  let last: SessionEvent | undefined
  const note = ({ seq, at }: SessionEvent, checkpoint: number | null): void => {
    const value = valueIn(fold, slice)
    const before = moments.at(-1)
    if (isDeepStrictEqual(value, before ? before.value : slice.initial)) return
    moments.push({ value, checkpoint, seq, createdAt: new Date(at), tags: [...tags] })
  }
  for await (const event of restored(source, fold)) {
    last = event
    if (event.type === 'session_started' || event.type === 'forked') tags = event.tags ?? tags
    add(source, fold, event)
    if (event.type === 'checkpoint_made') note(event, event.version)
  }
  if (last) note(last, null)
  return moments
}

/** The value that an executor stored for the checkpoint, if this definition can use it; folding is always correct, only slower. */
async function keptValue<V>(
  { store, sessionId, logger }: SliceSource,
  slice: Slice<string, V>,
  checkpoint: number,
): Promise<{ value: V } | undefined> {
  const { name, version } = slice
  const kept = await store?.snapshot(sessionId, { slice: name, version, checkpoint }).catch((error: unknown) => {
    if (error instanceof StoreError) return null
    throw error
  })
  if (!kept) return undefined
  const about = { session: sessionId, slice: name, checkpoint }
  if (kept.version !== version) {
    warn(logger, 'SLICE_REFOLDED', about, `the snapshot of a slice has version ${kept.version}, not ${version}: folding it again`)
    return undefined
  }
  const parsed = parse(slice, kept.value)
  if (!parsed) warn(logger, 'SLICE_REFOLDED', about, 'the snapshot of a slice does not match its schema: folding it again')
  return parsed
}

function parse<V>({ schema }: Slice<string, V>, value: unknown): { value: V } | undefined {
  try {
    // `defineSlice` refuses schemas with asynchronous checks.
    const result = schema['~standard'].validate(value)
    return result instanceof Promise || result.issues ? undefined : { value: deepFrozen(result.value) }
  } catch {
    return undefined
  }
}

/** The events, those that the slice reads with their large values, one by one. @throws StoreError; RequestRefusedError as `eventsUpTo`. */
async function* restored(source: SliceSource, { past }: SlicesFold, at?: number): AsyncGenerator<SessionEvent> {
  const { store, sessionId } = source
  const read = (after: number): Promise<SessionEvent[]> => readEvents(source, after)
  for await (const event of eventsUpTo({ sessionId, read }, at, 'its slices')) {
    yield* await withRestored(store, sessionId, [event], ({ type }) => past.reads.has(type))
  }
}

function add({ sessionId, logger }: SliceSource, fold: SlicesFold, event: SessionEvent): void {
  addToSlices(fold, event, (skipped) => tell(sessionId, logger, skipped))
}

function tell(session: string, logger: Logger | undefined, { error, ...skipped }: SkippedEvent): void {
  const { slice, seq, type }: { slice: string; seq: number; type: EventType } = skipped
  warn(logger, 'SLICE_SKIPPED_EVENT', { session, slice, seq, type }, 'a slice skipped an event: its reducer threw', error)
}

function valueIn<V>({ values }: SlicesFold, { name }: Slice<string, V>): V {
  return values[name] as V
}
