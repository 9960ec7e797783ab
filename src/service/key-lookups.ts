// Lookups of API keys in the side store: many at once in one statement, and one statement at a time.
import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiKey, ApiKeys } from '../client/admin/api-keys.ts'
import { ServiceError } from './errors.ts'

/** Looks a key up; null: it is not valid. @throws ServiceError `rate_limited`; StoreError. */
export type Lookup = (text: string) => Promise<ApiKey | null>

const MAX_WAITING = 1_000

/**
 * Lookups that share statements: those that arrive while one runs wait for the next. `pauseMs`: the shortest time between two statements.
 * However many unknown keys a client sends, Postgres has one statement at a time to answer.
 */
export function sharedLookups(keys: Pick<ApiKeys, 'findAll'>, pauseMs: number): Lookup {
  let next: { texts: Set<string>; found: Promise<Map<string, ApiKey>> } | undefined
  let running: Promise<unknown> = Promise.resolve()

  function begin(): NonNullable<typeof next> {
    const texts = new Set<string>()
    const found = running.then(async () => {
      next = undefined
      return keys.findAll([...texts])
    })
    running = found.catch(() => undefined).then(() => (pauseMs > 0 ? sleep(pauseMs, undefined, { ref: false }) : undefined))
    return { texts, found }
  }

  return async (text) => {
    next ??= begin()
    const { texts, found } = next
    if (texts.size >= MAX_WAITING) throw tooManyUnknown()
    texts.add(text)
    return (await found).get(text) ?? null
  }
}

function tooManyUnknown(): ServiceError {
  return new ServiceError(
    'rate_limited',
    429,
    'Too many unknown keys were sent from your address. Send the request again in a few seconds.',
    {
      headers: { 'retry-after': '5' },
    },
  )
}
