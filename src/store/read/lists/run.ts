// One run of a session: its turns, calls and failures.
import { dateIn, ms, numberIn, textIn } from '../../postgres/columns.ts'
import type { Queryable } from '../../postgres/database.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import type { ListedRun } from '../../listed.ts'
import { ERRORS } from './errors.ts'
import { readList } from './page.ts'
import { listRunCalls } from './tool-calls.ts'

/** Maximum failures that are read for one run: the newest. */
const FAILURES = 1_000

/** See `Lists.run`. */
export async function findRun(database: Queryable, schema: PostgresSchema, sessionId: string, run: number): Promise<ListedRun | null> {
  const ofRun = [safeKey(sessionId), run]
  const events = await database.query(
    `select type, ${ms('at')} from ${schema.table('events')}
     where session_id = $1 and run = $2 and type in ('run_started', 'run_completed', 'run_interrupted') order by seq`,
    ofRun,
  )
  const calls = await listRunCalls(database, schema, sessionId, run)
  const failures = await readList(database, schema, ERRORS, { session: sessionId, run }, { limit: FAILURES })
  const answers = await database.query(
    `select turn, model, ${ms('at')} from ${schema.table('token_usage')} where session_id = $1 and run = $2 and purpose is null order by seq`,
    ofRun,
  )
  const archived = await database.query(
    `select distinct turn from ${schema.table('archived_messages')} where session_id = $1 and run = $2 and kind = 'assistant'`,
    ofRun,
  )
  const started = events.find(({ type }) => type === 'run_started')
  if (!started) return null
  const ended = events.findLast(({ type }) => type !== 'run_started')
  return {
    run,
    startedAt: dateIn(started, 'at'),
    end: ended ? { how: textIn(ended, 'type') === 'run_completed' ? 'completed' : 'interrupted', at: dateIn(ended, 'at') } : null,
    calls,
    failures: failures.items.reverse(),
    answers: answers.map((row) => ({ turn: Number(row.turn), model: textIn(row, 'model'), at: dateIn(row, 'at') })),
    archivedTurns: archived.flatMap((row) => numberIn(row, 'turn') ?? []),
  }
}
