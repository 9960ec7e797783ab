// The slice values that an executor hands over at checkpoints: only those that changed since the previous checkpoint.
import type { EventOf, LogEntry } from '../session/events.ts'
import type { SliceRules, SliceSnapshot, SliceValues } from '../session/slices/slices.ts'

/** Bytes of JSON of a value that is handed over. A larger value is folded from the events whenever it is needed. */
const MAX_BYTES = 1_000_000

/** By slice: the value at the newest checkpoint, and its JSON. */
export type SnapshotMarks = ReadonlyMap<string, { value: unknown; json: string | undefined }>

export function noMarks(rules: readonly SliceRules[]): SnapshotMarks {
  return new Map(rules.map(({ name, initial }) => [name, { value: initial, json: jsonOf(initial) }]))
}

/** What a checkpoint adds, and the marks from then on. */
export function atCheckpoint(
  { rules, values }: { rules: readonly SliceRules[]; values: SliceValues },
  before: SnapshotMarks,
  { version: checkpoint, at }: EventOf<'checkpoint_made'>,
  { seq, digest }: Pick<LogEntry, 'seq' | 'digest'>,
): { marks: SnapshotMarks; snapshots: SliceSnapshot[] } {
  const marks = new Map(before)
  const snapshots: SliceSnapshot[] = []
  for (const { name: slice, version } of rules) {
    const value = values[slice]
    const marked = before.get(slice)
    if (marked?.value === value) continue
    const json = jsonOf(value)
    marks.set(slice, { value, json })
    if (json === undefined || json === marked?.json) continue
    snapshots.push({ slice, version, checkpoint, seq, digest, at, json })
  }
  return { marks, snapshots }
}

export function newestOf(snapshots: readonly SliceSnapshot[]): SliceSnapshot[] {
  return [...new Map(snapshots.map((one) => [one.slice, one])).values()]
}

/** Undefined for a value that has no JSON or is too large. */
function jsonOf(value: unknown): string | undefined {
  try {
    const json = JSON.stringify(value) as string | undefined
    return json !== undefined && Buffer.byteLength(json) <= MAX_BYTES ? json : undefined
  } catch {
    return undefined
  }
}
