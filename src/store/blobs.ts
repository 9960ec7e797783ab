// Values too large for history: stored by the SHA-256 of their JSON text, once per session, and restored into rows by readers.
import { createHash } from 'node:crypto'
import type { AssistantBlock, Message, UserBlock } from '../session/content.ts'
import type { Blob } from '../session/blobs.ts'
import type { BlobRef, ResultContent } from '../session/call-facts.ts'
import type { Json } from '../session/json.ts'
import { withBlocks } from '../session/provider-blocks.ts'
import { resultText } from '../session/transcript/results.ts'
import { numberIn } from './postgres/columns.ts'
import type { Database, Queryable } from './postgres/database.ts'
import type { BlobPlace } from './rows.ts'
import type { PostgresSchema } from './postgres/schema.ts'
import type { MessageRow, ToolCallRow } from './rows.ts'
import { safeKey } from './postgres/sanitise.ts'
import { excludeErasure, wasErased } from './write/erased.ts'

/** Maximum bytes that one statement reads. */
const READ_BYTES = 16_000_000

/** The large values of the store. Every method rejects with `StoreError` (`store_unavailable`, `schema_behind`, …). */
export interface Blobs {
  /**
   * Stores a value for a session, whether or not the session has a row yet. Idempotent. `executionId`: the execution whose call made it;
   * nothing is stored if that was erased.
   */
  put(sessionId: string, blob: Blob, executionId?: string): Promise<void>
  /** The stored JSON texts, by sha256; a text that does not match its sha256 counts as missing. */
  get(sessionId: string, refs: readonly Pick<BlobRef, 'sha256' | 'bytes'>[]): Promise<Map<string, string>>
  /** The bytes of a stored JSON text; undefined if it is missing. */
  size(sessionId: string, sha256: string): Promise<number | undefined>
  /** Up to `bytes` of a stored JSON text, from a byte of its UTF-8 on, as Latin-1: a character for each byte. Undefined if it is missing. */
  piece(sessionId: string, sha256: string, from: number, bytes: number): Promise<string | undefined>
  /** Copies the existing values to another session. `executionId`: the execution that began it; nothing is copied if that was erased. */
  copy(from: string, to: string, sha256s: readonly string[], executionId: string): Promise<void>
}

/** SHA-256 of UTF-8 text, in hex. */
export function sha256Of(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}

/** The blobs in a schema; `prepared` and `reading` prepare the store for each call. */
export function blobsOf(
  database: Database,
  schema: PostgresSchema,
  prepared: <T>(work: () => Promise<T>) => Promise<T>,
  reading: <T>(work: () => Promise<T>) => Promise<T>,
): Blobs {
  return {
    put: (sessionId, blob, executionId) =>
      prepared(() =>
        executionId === undefined
          ? putBlob(database, schema, sessionId, blob)
          : database.transaction((tx) => putUnlessErased(tx, schema, { sessionId, blob, executionId })),
      ),
    get: (sessionId, refs) => reading(() => getBlobs(database, schema, sessionId, refs)),
    size: (sessionId, sha256) =>
      reading(async () => {
        const [row] = await database.query(`select bytes from ${schema.table('blobs')} where session_id = $1 and sha256 = $2`, [
          safeKey(sessionId),
          sha256,
        ])
        return (row && numberIn(row, 'bytes')) ?? undefined
      }),
    piece: (sessionId, sha256, from, bytes) =>
      reading(async () => {
        // To find a position in characters, Postgres counts those before it: half a second for the last piece of a large file.
        const piece = `convert_from(substr(convert_to(content, 'UTF8'), $3::int + 1, $4::int), 'LATIN1')`
        const [row] = await database.query(`select ${piece} as piece from ${schema.table('blobs')} where session_id = $1 and sha256 = $2`, [
          safeKey(sessionId),
          sha256,
          from,
          bytes,
        ])
        return row?.piece ?? undefined
      }),
    copy: (from, to, sha256s, executionId) =>
      prepared(async () => {
        if (sha256s.length > 0) await database.transaction((tx) => copyUnlessErased(tx, schema, { from, to, sha256s, executionId }))
      }),
  }
}

async function putBlob(database: Queryable, schema: PostgresSchema, sessionId: string, { ref, json }: Blob): Promise<void> {
  // Resets the age, because pruning spares recent values that a new event may refer to.
  await database.query(
    `insert into ${schema.table('blobs')} (session_id, sha256, bytes, content) values ($1, $2, $3, $4)
     on conflict (session_id, sha256) do update set created_at = now()`,
    [safeKey(sessionId), ref.sha256, ref.bytes, json],
  )
}

async function putUnlessErased(
  tx: Queryable,
  schema: PostgresSchema,
  { sessionId, blob, executionId }: { sessionId: string; blob: Blob; executionId: string },
): Promise<void> {
  if (await mayStore(tx, schema, sessionId, executionId)) await putBlob(tx, schema, sessionId, blob)
}

/** Whether the session, which may have no row yet, may get values of this execution, until the transaction ends. */
async function mayStore(tx: Queryable, schema: PostgresSchema, sessionId: string, executionId: string): Promise<boolean> {
  const key = safeKey(sessionId)
  await excludeErasure(tx, schema, key)
  return !(await wasErased(tx, schema, key, executionId))
}

async function getBlobs(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  refs: readonly Pick<BlobRef, 'sha256' | 'bytes'>[],
): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for (const batch of batchesOf(refs)) {
    const rows = await database.query(
      `select sha256, content from ${schema.table('blobs')} where session_id = $1 and sha256 = any($2::text[])`,
      [safeKey(sessionId), batch],
    )
    for (const { sha256, content } of rows) if (sha256 && content && sha256Of(content) === sha256) found.set(sha256, content)
  }
  return found
}

/** Each sha256 once, in batches that one statement can read. */
function batchesOf(refs: readonly Pick<BlobRef, 'sha256' | 'bytes'>[]): string[][] {
  const batches: string[][] = []
  let room = 0
  for (const [sha256, bytes] of new Map(refs.map((ref) => [ref.sha256, ref.bytes]))) {
    if (bytes > room || batches.length === 0) {
      batches.push([])
      room = READ_BYTES
    }
    batches.at(-1)?.push(sha256)
    room -= Math.max(0, bytes)
  }
  return batches
}

async function copyUnlessErased(
  tx: Queryable,
  schema: PostgresSchema,
  { from, to, sha256s, executionId }: { from: string; to: string; sha256s: readonly string[]; executionId: string },
): Promise<void> {
  if (!(await mayStore(tx, schema, to, executionId))) return
  const blobs = schema.table('blobs')
  await tx.query(
    `insert into ${blobs} (session_id, sha256, bytes, content)
     select $2, sha256, bytes, content from ${blobs} where session_id = $1 and sha256 = any($3::text[])
     on conflict (session_id, sha256) do update set created_at = now()`,
    [safeKey(from), safeKey(to), sha256s],
  )
}

/** The rows with their large values restored; missing values stay placeholders. `places`: the positions of the values in a row. */
export async function hydrateMessageRows<R extends Pick<MessageRow, 'content' | 'kind'>>(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  rows: readonly { row: R; places: readonly BlobPlace[] }[],
): Promise<R[]> {
  const places = rows.flatMap((one) => one.places)
  if (places.length === 0) return rows.map(({ row }) => row)
  const texts = await getBlobs(database, schema, sessionId, places)
  return rows.map(({ row, places: own }) => (own.length === 0 ? row : { ...row, content: withValues(row, own, texts) }))
}

function withValues(
  { content, kind }: Pick<MessageRow, 'content' | 'kind'>,
  places: readonly BlobPlace[],
  texts: ReadonlyMap<string, string>,
): Message['content'] {
  let hydrated = content
  for (const { block: index, sha256 } of places) {
    const json = texts.get(sha256)
    if (json === undefined) continue
    const value = JSON.parse(json) as Json
    if (kind === 'assistant') hydrated = withBlocks(hydrated as AssistantBlock[], value)
    else if (index === null) hydrated = value as unknown as string | UserBlock[]
    else if (typeof hydrated !== 'string') {
      hydrated = hydrated.map((block, at) =>
        at === index && block.type === 'tool_result' ? { ...block, content: resultContent(block.content, value as LargeResult) } : block,
      ) as Message['content']
    }
  }
  return hydrated
}

/** The stored form of a tool result. */
interface LargeResult {
  value?: Json
  content?: ResultContent
}

const REPLAY_NOTE = /^\[idempotent replay of [^\]\n]*\](?=\n)/

/** The result as the model sees it; the note of a replay stays before it. */
function resultContent(placeholder: unknown, { value = null, content }: LargeResult): ResultContent {
  const whole = content ?? resultText(value)
  const [note] = typeof placeholder === 'string' ? (REPLAY_NOTE.exec(placeholder) ?? []) : []
  if (note === undefined) return whole
  return typeof whole === 'string' ? (whole ? `${note}\n${whole}` : note) : [{ type: 'text', text: note }, ...whole]
}

/** The calls with their large results restored; if a value is missing, the result is null and `resultBlob` has its SHA-256. */
export async function hydrateCalls<C extends Pick<ToolCallRow, 'result'>>(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  calls: readonly { row: C; sha256: string | null }[],
): Promise<C[]> {
  const wanted = calls.flatMap(({ sha256 }) => (sha256 === null ? [] : [{ sha256, bytes: READ_BYTES }]))
  if (wanted.length === 0) return calls.map(({ row }) => row)
  const texts = await getBlobs(database, schema, sessionId, wanted)
  return calls.map(({ row, sha256 }) => {
    const json = sha256 === null ? undefined : texts.get(sha256)
    return json === undefined ? row : { ...row, result: (JSON.parse(json) as LargeResult).value ?? null }
  })
}
