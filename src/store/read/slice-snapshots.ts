// Reads a slice's value at a checkpoint.
import type { Json } from '../../session/json.ts'
import { exactOr, jsonIn } from '../postgres/columns.ts'
import type { Queryable } from '../postgres/database.ts'
import { safeKey } from '../postgres/sanitise.ts'
import type { PostgresSchema } from '../postgres/schema.ts'

/** See `Store.snapshot`. */
export async function readSnapshot(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  { slice, version, checkpoint }: { slice: string; version: number; checkpoint: number },
): Promise<{ version: number; value: Json } | null> {
  const [row] = await database.query(
    `select version, value, raw from ${schema.table('slices')}
     where session_id = $1 and slice = $2 and checkpoint = $3 order by (version = $4) desc, version desc limit 1`,
    [safeKey(sessionId), safeKey(slice), checkpoint, version],
  )
  if (!row) return null
  return { version: Number(row.version), ...exactOr<{ value: Json }>(row.raw, () => ({ value: jsonIn(row, 'value') })) }
}
