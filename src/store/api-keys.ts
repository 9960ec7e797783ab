// Keys of the HTTP service, as rows. The key itself is never stored, only its digest.
import type { JsonObject } from '../session/json.ts'
import { dateIn, dateOrNull, jsonIn, ms, textIn } from './postgres/columns.ts'
import type { Queryable, TextRow } from './postgres/database.ts'
import { safeKey } from './postgres/sanitise.ts'
import type { PostgresSchema } from './postgres/schema.ts'

/** A key, without its secret. */
export interface StoredKey {
  id: string
  digest: string
  name: string
  scopes: string[]
  roles: string[]
  tenant: string | null
  context: JsonObject | null
  createdAt: Date
  createdBy: string | null
  revokedAt: Date | null
  revokedBy: string | null
}

/** The keys. Every method rejects with `StoreError`. */
export interface StoredKeys {
  put(key: Omit<StoredKey, 'createdAt' | 'revokedAt' | 'revokedBy'>): Promise<StoredKey>
  /** Newest first. */
  list(): Promise<StoredKey[]>
  /** The keys with these ids that exist. */
  find(ids: readonly string[]): Promise<StoredKey[]>
  /** Returns the revoked key, even if it was already revoked; null if no key has this id. */
  revoke(id: string, by: string | undefined): Promise<StoredKey | null>
}

type Run = <T>(work: () => Promise<T>) => Promise<T>

const COLUMNS = `id, digest, name, to_json(scopes) as scopes, to_json(roles) as roles, tenant, context, ${ms('created_at')}, created_by, ${ms('revoked_at')}, revoked_by`

export function storedKeysOf(database: Queryable, schema: PostgresSchema, writing: Run, reading: Run): StoredKeys {
  const table = schema.table('api_keys')
  return {
    put: ({ id, digest, name, scopes, roles, tenant, context, createdBy }) =>
      writing(async () => {
        const [row] = await database.query(
          `insert into ${table} (id, digest, name, scopes, roles, tenant, context, created_by)
           values ($1, $2, $3, $4::text[], $5::text[], $6, $7::jsonb, $8) returning ${COLUMNS}`,
          [id, digest, name, scopes, roles, tenant, context && JSON.stringify(context), createdBy && safeKey(createdBy)],
        )
        return keyOf(row as TextRow)
      }),
    list: () => reading(async () => (await database.query(`select ${COLUMNS} from ${table} order by created_at desc, id`)).map(keyOf)),
    find: (ids) =>
      reading(async () =>
        (await database.query(`select ${COLUMNS} from ${table} where id = any($1::text[])`, [ids.map(safeKey)])).map(keyOf),
      ),
    revoke: (id, by) =>
      writing(async () =>
        oneOf(
          await database.query(
            `update ${table} set revoked_at = coalesce(revoked_at, now()),
               revoked_by = case when revoked_at is null then $2::text else revoked_by end
             where id = $1 returning ${COLUMNS}`,
            [safeKey(id), by === undefined ? null : safeKey(by)],
          ),
        ),
      ),
  }
}

function oneOf(rows: readonly TextRow[]): StoredKey | null {
  return rows[0] ? keyOf(rows[0]) : null
}

function keyOf(row: TextRow): StoredKey {
  return {
    id: textIn(row, 'id'),
    digest: textIn(row, 'digest'),
    name: textIn(row, 'name'),
    scopes: jsonIn(row, 'scopes') as string[],
    roles: jsonIn(row, 'roles') as string[],
    tenant: row.tenant ?? null,
    context: jsonIn(row, 'context') as JsonObject | null,
    createdAt: dateIn(row, 'created_at'),
    createdBy: row.created_by ?? null,
    revokedAt: dateOrNull(row, 'revoked_at'),
    revokedBy: row.revoked_by ?? null,
  }
}
