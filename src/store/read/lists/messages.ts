// The messages of a session: its transcript in order, and archived messages.
import { dateOrNull, jsonIn, ms, numberIn } from '../../postgres/columns.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import { MESSAGE_COLUMNS, messageOf } from '../reader.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { equal, type StoredList } from './page.ts'
import type { ArchivedMessage, ListedMessage } from '../../listed.ts'
import type { BlobPlace } from '../../rows.ts'

const COLUMNS = `session_id, agent, position, ordinal, to_json(call_ids) as call_ids, blobs, ${MESSAGE_COLUMNS}`
/** Messages that are not in a turn yet come last. */
const WAITING = '9223372036854775807'

const POSITION = `coalesce(position, ${WAITING})`

/** See `Lists.messages`. */
export const MESSAGES: StoredList<string, ListedMessage> = {
  select: (schema) => `select ${COLUMNS} from ${schema.table('messages')}`,
  order: `${POSITION}, ordinal, seq`,
  where: (query, sessionId) => equal(query, { session_id: sessionId }),
  key: ['number?', 'number', 'number'],
  after(query, [position, ordinal, seq]) {
    const place = [position ?? WAITING, ordinal, seq].map((part) => `${query.value(part)}::bigint`)
    return `(${POSITION}, ordinal, seq) > (${place.join(', ')})`
  },
  item: listedMessageOf,
  keyOf: (row) => [row.position == null ? null : Number(row.position), Number(row.ordinal), Number(row.seq)],
}

/** See `Lists.scheduled`. */
export async function readScheduled(database: Queryable, schema: PostgresSchema, sessionId: string): Promise<ListedMessage[]> {
  const rows = await database.query(
    `select ${COLUMNS} from ${schema.table('messages')} where session_id = $1 and kind = 'scheduled' order by scheduled_for, seq`,
    [safeKey(sessionId)],
  )
  return rows.map(listedMessageOf)
}

/** See `Lists.archivedMessages`. */
export async function readArchived(database: Queryable, schema: PostgresSchema, sessionId: string): Promise<ArchivedMessage[]> {
  const rows = await database.query(
    `select ${COLUMNS}, archived_seq, ${ms('archived_at')}, why from ${schema.table('archived_messages')} where session_id = $1
     order by archived_seq, position, ordinal, seq`,
    [safeKey(sessionId)],
  )
  return rows.map((row) => ({
    ...listedMessageOf(row),
    archivedSeq: numberIn(row, 'archived_seq'),
    archivedAt: dateOrNull(row, 'archived_at'),
    why: row.why as ArchivedMessage['why'],
  }))
}

function listedMessageOf(row: TextRow): ListedMessage {
  return {
    sessionId: row.session_id ?? '',
    agent: row.agent ?? '',
    ...messageOf(row),
    callIds: (jsonIn(row, 'call_ids') as string[] | null) ?? [],
    blobs: (jsonIn(row, 'blobs') as BlobPlace[] | null) ?? [],
  }
}
