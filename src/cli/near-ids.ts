// Suggests sessions whose ids resemble the one given to a command.
import type { StoreQueries } from '../client/queries/queries.ts'
import { PawlError } from '../session/errors.ts'
import { CliError } from './errors.ts'

/** An id with more differences is not suggested. */
const MAX_TYPOS = 2
const MAX_NAMED = 3

/** The error, with similar ids if it says that the session does not exist. Never throws. */
export async function withNearIds(error: unknown, queries: Pick<StoreQueries, 'neighbours'>): Promise<unknown> {
  if (!(error instanceof PawlError) || error.code !== 'session_not_found') return error
  const { sessionId, erasedAt } = error as { sessionId?: string; erasedAt?: number }
  if (sessionId === undefined || erasedAt !== undefined) return error
  const near = nearest(sessionId, await queries.neighbours(sessionId).catch(() => []))
  return near.length === 0 ? error : new CliError(error.code, `${error.message} Did you mean ${near.join(' or ')}?`, { cause: error.cause })
}

/** The ids that differ from `id` in one or two letters, nearest first. */
export function nearest(id: string, ids: readonly string[]): string[] {
  return ids
    .map((other) => ({ other, typos: typosBetween(id, other) }))
    .filter(({ typos }) => typos <= MAX_TYPOS && typos * 2 < id.length)
    .sort((one, other) => one.typos - other.typos)
    .slice(0, MAX_NAMED)
    .map(({ other }) => other)
}

/** The edit distance, in letters added, omitted or replaced. */
function typosBetween(one: string, other: string): number {
  if (Math.abs(one.length - other.length) > MAX_TYPOS) return MAX_TYPOS + 1
  let above = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let row = 1; row <= one.length; row++) {
    const here = [row]
    for (let at = 1; at <= other.length; at++) {
      const replaced = (above[at - 1] ?? 0) + (one[row - 1] === other[at - 1] ? 0 : 1)
      here.push(Math.min(replaced, (above[at] ?? 0) + 1, (here[at - 1] ?? 0) + 1))
    }
    above = here
  }
  return above[other.length] ?? 0
}
