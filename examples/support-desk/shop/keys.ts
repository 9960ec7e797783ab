// Idempotency keys as payment APIs have them: the first answer is stored in the effect's own transaction and returned again.
import { createHash } from 'node:crypto'
import type { Answer, Db } from './route.ts'
import { Refusal } from './route.ts'

/** The answer, and whether it is new or replayed. */
export interface KeyedAnswer {
  outcome: Answer['outcome'] | 'replayed'
  body: object
}

/**
 * Runs `handle` at most once for a key. Must be called within a transaction: a second request with the same key waits for
 * the first one's commit and then gets its answer. A refusal is not stored: it had no effect.
 */
export async function oncePerKey(db: Db, key: string, request: string, handle: () => Promise<Answer>): Promise<KeyedAnswer> {
  const digest = createHash('sha256').update(request).digest('hex')
  const claimed = await db.query(
    `insert into idempotency_keys (key, request_digest, status, body) values ($1, $2, 0, '{}') on conflict do nothing`,
    [key, digest],
  )
  if (claimed.rowCount === 0) {
    const { rows } = await db.query<{ request_digest: string; body: object }>('select * from idempotency_keys where key = $1', [key])
    if (rows[0]?.request_digest !== digest) throw new Refusal(422, 'key_reused', 'this Idempotency-Key belongs to another request')
    return { outcome: 'replayed', body: rows[0].body }
  }
  const answer = await handle()
  await db.query('update idempotency_keys set status = 200, body = $2 where key = $1', [key, JSON.stringify(answer.body)])
  return answer
}
