// Watches this process's Postgres statements: the flushes of the side store, which are boundaries, and the statements of tools.
import pg from 'pg'
import type { MarkWriter } from '../marks.ts'
import type { ResponseReports } from './answers.ts'

/** The statement that writes a session's events to the store. */
const WRITES_EVENTS = /\binsert into "[^"]+"\.events /

/** A transaction that has written events of the session. */
interface OpenFlush {
  sessionId: string
  place: string
}

/** Watches the statements of every connection of this process. */
export function watchPostgres(marks: MarkWriter, answers: ResponseReports): void {
  const flushing = new WeakMap<object, OpenFlush>()
  const query = pg.Client.prototype.query as (this: pg.Client, ...args: unknown[]) => unknown

  function watched(this: pg.Client, ...args: unknown[]): unknown {
    const { text, values } = statementOf(args)
    const reach = (step: string): void => {
      const flush = flushing.get(this)
      if (flush) marks.reach(flush.sessionId, { id: `${flush.place}/${step}` })
    }
    const sessionId = WRITES_EVENTS.test(text) ? marks.session() : undefined
    if (sessionId !== undefined && values.includes(sessionId)) {
      if (!flushing.has(this)) {
        flushing.set(this, { sessionId, place: `flush:${marks.next('flush')}` })
        reach('before')
      }
    } else if (text === 'commit') reach('during')
    const asker = answers.asker()
    return whenAnswered(query.bind(this), args, () => {
      if (text === 'commit') reach('after')
      if (text === 'commit' || text === 'rollback') flushing.delete(this)
      asker?.()
    })
  }
  pg.Client.prototype.query = watched as typeof pg.Client.prototype.query
}

/** Runs the statement; calls `then` before the caller gets the result. */
function whenAnswered(ask: (...args: unknown[]) => unknown, args: unknown[], then: () => void): unknown {
  const callback = args.at(-1)
  if (typeof callback === 'function') {
    return ask(...args.slice(0, -1), (error: unknown, ...more: unknown[]) => {
      if (!error) then()
      callback(error, ...more)
    })
  }
  const asked = ask(...args)
  if (!(asked instanceof Promise)) return asked
  return asked.then((answer) => {
    then()
    return answer as unknown
  })
}

function statementOf([query, values]: unknown[]): { text: string; values: readonly unknown[] } {
  if (typeof query === 'string') return { text: query, values: Array.isArray(values) ? values : [] }
  const given = query as { text?: unknown; values?: unknown } | null | undefined
  return { text: typeof given?.text === 'string' ? given.text : '', values: Array.isArray(given?.values) ? given.values : [] }
}
