// Writes the state of a running call before its events are stored.
import type { Json } from '../../session/json.ts'
import { safeKey, sanitiser } from '../postgres/sanitise.ts'
import { breakingMigrations } from '../postgres/too-new.ts'
import type { WriteNeeds } from './apply.ts'

/** See `Store.markProgress`. Ignored for abandoned attempts. */
export async function markProgress(
  { database, schema, known }: Pick<WriteNeeds, 'database' | 'schema' | 'known'>,
  { sessionId, callId, attempt, value }: { sessionId: string; callId: string; attempt: number; value: Json },
): Promise<void> {
  const safe = sanitiser()
  const progress = safe.json(value)
  await database.query(
    `update ${schema.table('tool_calls')} set progress = $3::jsonb, raw_progress = $4
     where session_id = $1 and call_id = $2 and status = 'running' and attempt <= $5 and (${breakingMigrations(schema, '$6')}) is null`,
    [safeKey(sessionId), safeKey(callId), progress, safe.raw(value), attempt, (await known()) ?? null],
  )
}

/** See `Store.markRunning`. Ignored for abandoned attempts. */
export async function markRunning(
  { database, schema, known }: WriteNeeds,
  call: { sessionId: string; callId: string; attempt: number; worker: string },
): Promise<void> {
  await database.query(
    `update ${schema.table('tool_calls')} set status = 'running', attempt = $3, worker = $4, started_at = now()
     where session_id = $1 and call_id = $2 and status in ('issued', 'running') and attempt <= $3
       and (${breakingMigrations(schema, '$5')}) is null`,
    [safeKey(call.sessionId), safeKey(call.callId), call.attempt, safeKey(call.worker), (await known()) ?? null],
  )
}
