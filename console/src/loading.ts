// Data that a view reads, and reads again while somebody looks at it.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { Refused } from './api/client.ts'

/** The most rows that one request returns. */
export const MOST = 1_000

export interface Loaded<T> {
  data?: T
  /** Why the newest reading failed; what was read before stays. */
  problem?: string
  again(): void
}

/** Reads at once, when `key` changes, and every `everyMs` while the page is visible. */
export function useLoaded<T>(key: string, read: (signal: AbortSignal) => Promise<T>, everyMs = 0): Loaded<T> {
  const [loaded, setLoaded] = useState<{ key: string; data?: T; problem?: string }>({ key })
  const [round, setRound] = useState(0)
  const reader = useRef(read)
  reader.current = read
  useEffect(() => {
    const stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const readNow = async (): Promise<void> => {
      try {
        if (document.visibilityState === 'visible') {
          const data = await reader.current(stop.signal)
          setLoaded({ key, data })
        }
      } catch (error) {
        if (stop.signal.aborted) return
        setLoaded((before) => ({ ...(before.key === key ? before : { key }), problem: wordsFor(error, everyMs > 0 ? AGAIN : '') }))
      }
      if (everyMs > 0 && !stop.signal.aborted) timer = setTimeout(() => void readNow(), everyMs)
    }
    void readNow()
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [key, everyMs, round])
  const again = useCallback(() => setRound((before) => before + 1), [])
  return { ...(loaded.key === key ? loaded : {}), again }
}

/** The first rows of a list. */
export interface Listed<T> {
  items: T[]
  /** The list has more rows. */
  hasMore: boolean
}

interface Paging<T> {
  /** How many rows more a click shows. */
  size: number
  /** How often one page is read again; the more pages, the less often. */
  everyMs: number
  /** Identifies a row: several pages may have it, because rows that have come in the meantime move the others to later pages. */
  idOf(row: T): string
}

export interface LoadedPages<T> extends Loaded<Listed<T>> {
  /** Shows the next page, too. Undefined while there is none, and while it is read. */
  more?: () => void
}

/** Reads a list page by page, and what the page shows of it again while somebody looks at it. */
export function useListed<T>(
  key: string,
  read: (page: { limit: number; cursor?: string }, signal: AbortSignal) => Promise<{ items: readonly unknown[]; cursor?: string }>,
  { size, everyMs, idOf }: Paging<T>,
): LoadedPages<T> {
  const [asked, setAsked] = useState({ key, pages: 1 })
  const pages = asked.key === key ? asked.pages : 1
  const readAll = async (signal: AbortSignal): Promise<Listed<T> & { pages: number }> => {
    const rows = new Map<string, T>()
    let cursor: string | undefined
    // A page of large rows has fewer than its limit: each click costs one request at most.
    for (let request = 0; request === 0 || (cursor !== undefined && request < pages && rows.size < pages * size); request++) {
      const limit = Math.min(MOST, pages * size - rows.size)
      const page = await read({ limit, ...(cursor !== undefined && { cursor }) }, signal)
      for (const row of page.items as T[]) rows.set(idOf(row), row)
      cursor = page.cursor
    }
    return { items: [...rows.values()], hasMore: cursor !== undefined, pages }
  }
  const loaded = useLoaded(key, readAll, everyMs * pages)
  const canGrow = loaded.data?.hasMore === true && loaded.data.pages === pages
  return { ...loaded, ...(canGrow && { more: () => setAsked({ key, pages: pages + 1 }) }) }
}

/** What follows when there is no connection: for what the console reads again, and for a request that may have arrived. */
export const AGAIN = ' The console tries again.'
const MAYBE_DONE = ' It may have carried out the request: look before you repeat it.'

/** An error in words for people. `unreached`: what follows if there is no connection. */
export function wordsFor(error: unknown, unreached = ''): string {
  if (error instanceof Refused) return error.message
  if (error instanceof TypeError) return `The server cannot be reached.${unreached}`
  return error instanceof Error ? error.message : String(error)
}

/** Why a request that changes something has failed. */
export const whyNotDone = (error: unknown): string => wordsFor(error, MAYBE_DONE)
