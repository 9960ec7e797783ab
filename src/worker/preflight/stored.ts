// What the side store adds to a preflight: missing migrations, and which event of a session would differ. Only reads.
import type { LogEntry } from '../../session/events.ts'
import type { JsonObject } from '../../session/json.ts'
import { PawlError } from '../../session/errors.ts'
import { openStore, type Store } from '../../store/index.ts'
import { migrateStore } from '../../store/postgres/migrating.ts'
import type { PreflightProblem, StoreCheck } from '../preflight-report.ts'

export interface StoredSide {
  readonly found: StoreCheck
  /** Names the first event that differs, for a problem `other_events`. */
  narrow(sessionId: string, problem: PreflightProblem, made: readonly LogEntry[]): Promise<PreflightProblem>
  close(): Promise<void>
}

/** Compares the store's migrations with this build's. @throws StoreError `invalid_postgres_url`, `invalid_store_options`. */
export async function openStored({ postgres, schema = 'pawl' }: { postgres: string; schema?: string }): Promise<StoredSide> {
  const store = openStore({ postgres, schema, migrate: 'off' })
  try {
    const found = await checkStore(postgres, schema)
    return {
      found,
      narrow: async (sessionId, problem, made) =>
        found.error ? problem : ((await firstDifference(store, sessionId, problem, made).catch(() => undefined)) ?? problem),
      close: () => store.close(),
    }
  } catch (error) {
    await store.close()
    throw error
  }
}

const INVALID: ReadonlySet<string> = new Set(['invalid_postgres_url', 'invalid_store_options'])

async function checkStore(postgres: string, schema: string): Promise<StoreCheck> {
  try {
    const { pending: missing, tooNew } = await migrateStore({ postgres, schema, check: true })
    return { schema, missing, tooNew }
  } catch (error) {
    if (!(error instanceof PawlError) || INVALID.has(error.code)) throw error
    return { schema, missing: [], tooNew: [], error: { code: error.code, message: error.message } }
  }
}

async function firstDifference(
  store: Store,
  sessionId: string,
  problem: PreflightProblem,
  made: readonly LogEntry[],
): Promise<PreflightProblem | undefined> {
  const { fromSeq, toSeq } = problem
  if (fromSeq === undefined || toSeq === undefined) return undefined
  const bySeq = new Map(made.map((entry) => [entry.seq, entry]))
  for (const stored of await store.entries(sessionId, { after: fromSeq - 1, limit: toSeq - fromSeq + 1 })) {
    const mine = bySeq.get(stored.seq)
    if (mine?.digest === stored.digest) continue
    return { ...problem, message: `${problem.message} ${inWords(stored, mine)}`, fromSeq: stored.seq, toSeq: stored.seq }
  }
  return undefined
}

type EventJson = JsonObject & { type: string }

/** Names members but not their values, because more people may read a report than a session. */
function inWords(stored: LogEntry, made: LogEntry | undefined): string {
  const theirs = JSON.parse(stored.json) as EventJson
  if (!made) return `Event ${stored.seq} (${theirs.type}) is missing.`
  const mine = JSON.parse(made.json) as EventJson
  if (theirs.type !== mine.type) return `Event ${stored.seq} is stored as ${theirs.type} and would be ${mine.type}.`
  const names = [...new Set([...Object.keys(theirs), ...Object.keys(mine)])]
  const different = names.filter((name) => name !== 'at' && JSON.stringify(theirs[name]) !== JSON.stringify(mine[name]))
  return `Event ${stored.seq} (${theirs.type}) differs in: ${different.join(', ')}.`
}
