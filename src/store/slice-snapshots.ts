// Stores slice values at checkpoints. The user's reducers folded them, so a rebuild cannot make them.
import type { SliceSnapshot } from '../session/slices/slices.ts'
import { safeKey, sanitiser } from './postgres/sanitise.ts'
import { newStatement, recordset } from './postgres/insert-rows.ts'
import type { Json } from '../session/json.ts'
import { type RowOf, SLICES } from './postgres/tables.ts'
import { lockSession } from './write/head.ts'
import type { WriteNeeds } from './write/apply.ts'
import { exactOr, jsonIn } from './postgres/columns.ts'
import type { Queryable } from './postgres/database.ts'
import type { PostgresSchema } from './postgres/schema.ts'

/** See `Store.saveSnapshots`. */
export async function saveSnapshots(
  { database, schema, known, namespace }: Pick<WriteNeeds, 'database' | 'schema' | 'known' | 'namespace'>,
  sessionId: string,
  snapshots: readonly SliceSnapshot[],
): Promise<number> {
  const writer = { known: await known(), namespace }
  return database.transaction(async (tx) => {
    const key = safeKey(sessionId)
    // Content that is erased in the meantime must not be written afterwards.
    const session = await lockSession(tx, schema, key, writer)
    if (!session) return 0
    const statement = newStatement()
    const id = statement.value(key)
    const given = recordset(statement, SLICES, snapshots.map(rowOf))
    await tx.query(
      `insert into ${schema.table('slices')} (session_id, agent, tags, ${Object.keys(SLICES).join(', ')})
       select session_id, agent, tags, ${Object.entries(SLICES)
         .map(([name, type]) => (type === 'jsonb' ? `given.${name}::jsonb` : `given.${name}`))
         .join(', ')}
       from ${schema.table('sessions')} join ${given} on true
       where session_id = ${id} and exists (
         select from ${schema.table('events')} as stored
         where stored.session_id = ${id} and stored.seq = given.seq and stored.digest = given.digest)
       on conflict do nothing`,
      [...statement.values],
    )
    return session.head.seq
  })
}

function rowOf({ slice, version, checkpoint, seq, digest, at, json }: SliceSnapshot): RowOf<typeof SLICES> {
  const safe = sanitiser()
  const value = JSON.parse(json) as Json
  return {
    slice: safe.key(slice),
    version,
    checkpoint,
    seq,
    digest,
    value: safe.json(value),
    raw: safe.raw({ value }),
    created_at: new Date(at).toISOString(),
  }
}

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
