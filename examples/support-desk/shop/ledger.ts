// The shop's ledger: every request that reached it, what it did, and whether its sender heard the answer.
import type { Pool } from 'pg'

/** A request in the ledger. */
export interface LedgerRequest {
  id: number
  method: string
  path: string
  key: string | null
  reference: string | null
  /** The sender's X-Request-Id. */
  requestId: string | null
  /** The sender's User-Agent. */
  caller: string | null
  body: object | null
}

/** What became of a request. `replayed`: answered with the first answer to its key. */
export type LedgerOutcome = 'read' | 'applied' | 'unchanged' | 'replayed' | 'refused' | 'failed'

/** Writes the ledger. */
export interface Ledger {
  received(request: LedgerRequest): Promise<void>
  done(id: number, outcome: LedgerOutcome, status: number): Promise<void>
  /** `heard`: the answer went out while its sender was still connected. */
  answered(id: number, heard: 'heard' | 'unheard'): Promise<void>
}

/** A ledger in the table `requests`. */
export function createLedger(pool: Pool): Ledger {
  return {
    async received({ id, method, path, key, reference, requestId, caller, body }) {
      const sql = `insert into requests (id, method, path, idempotency_key, reference, request_id, caller, body)
        values ($1, $2, $3, $4, $5, $6, $7, $8)`
      await pool.query(sql, [id, method, path, key, reference, requestId, caller, body && JSON.stringify(body)])
    },
    async done(id, outcome, status) {
      await pool.query('update requests set outcome = $2, status = $3, applied_at = now() where id = $1', [id, outcome, status])
    },
    async answered(id, heard) {
      await pool.query('update requests set answered_at = now(), heard = $2 where id = $1', [id, heard === 'heard'])
    },
  }
}
