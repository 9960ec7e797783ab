// The checkpoints of a session, newest first.
import { dateIn, exactOr, ms, numberIn, textIn } from '../../postgres/columns.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { PLAN_COLUMNS, planIn } from '../reader.ts'
import { equal, type StoredList } from './page.ts'
import type { ListedCheckpoint } from '../../listed.ts'

const COLUMNS = `session_id, version, agent, run, turn, seq, up_to_seq, last_message_id, to_json(reasons) as reasons, "by", state_version, archived_seq, raw,
  ${PLAN_COLUMNS}, spent_tokens, spent_usd, ${ms('created_at')}`

/** See `Lists.checkpoints`. */
export const CHECKPOINTS: StoredList<string, ListedCheckpoint> = {
  select: (schema) => `select ${COLUMNS} from ${schema.table('checkpoints')}`,
  order: 'version desc',
  where: (query, sessionId) => equal(query, { session_id: sessionId }),
  key: ['number'],
  after: (query, [version]) => `version < ${query.value(version)}::integer`,
  item: checkpointOf,
  keyOf: (row) => [Number(row.version)],
}

/** See `Lists.latestCheckpoint`. */
export async function findLatestCheckpoint(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
): Promise<ListedCheckpoint | null> {
  const [row] = await database.query(
    `select ${COLUMNS} from ${schema.table('checkpoints')} where session_id = $1 and archived_seq is null order by version desc limit 1`,
    [safeKey(sessionId)],
  )
  return row ? checkpointOf(row) : null
}

function checkpointOf(row: TextRow): ListedCheckpoint {
  return {
    sessionId: textIn(row, 'session_id'),
    version: Number(row.version),
    agent: textIn(row, 'agent'),
    run: numberIn(row, 'run'),
    turn: numberIn(row, 'turn'),
    seq: Number(row.seq),
    upToSeq: Number(row.up_to_seq),
    ...exactOr<Pick<ListedCheckpoint, 'lastMessageId' | 'reasons' | 'by'>>(row.raw, () => ({
      lastMessageId: row.last_message_id ?? null,
      reasons: JSON.parse(row.reasons ?? '[]') as string[],
      by: row.by ?? null,
    })),
    stateVersion: Number(row.state_version),
    createdAt: dateIn(row, 'created_at'),
    plan: planIn(row),
    spent: row.spent_tokens == null ? null : { tokens: Number(row.spent_tokens), usd: Number(row.spent_usd) },
    archivedSeq: numberIn(row, 'archived_seq'),
  }
}
