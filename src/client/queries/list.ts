// A list for backends: one page if awaited, all pages if iterated. Its cursor is opaque.
import { shortHash } from '../../session/digest.ts'
import { isAboutValues } from '../../store/errors.ts'
import type { Key, Rows } from '../../store/read/lists/index.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import { beginningOf } from '../../session/beginning.ts'

/** A page of a list. */
export interface Page<T> {
  /** The items of this page. */
  items: T[]
  /** Pass it as `cursor`, with the same other options, to get the next page; absent on the last page. */
  cursor?: string
}

/** A list: `await` returns the page at `cursor`; `for await` yields all items from there on, page by page. */
export interface List<T> extends PromiseLike<Page<T>>, AsyncIterable<T> {}

/** What a list reads. */
export interface ListSource<T> {
  /** The list, and with `filter` the query: a cursor is valid only for the same query. */
  name: string
  filter: object
  cursor: string | undefined
  read(after: Key | undefined): Promise<Rows<T>>
}

/** The list that `prepare` describes. `prepare` is called for each `await` or iteration, when it starts. */
export function listOf<T>(prepare: () => ListSource<T>): List<T> {
  async function page(reading: ListSource<T>, cursor: string | undefined): Promise<Page<T>> {
    const tag = shortHash(`${reading.name} ${JSON.stringify(reading.filter)}`)
    const { items, next } = await readAfter(cursor === undefined ? undefined : keyOf(cursor, tag), reading.read)
    return { items, ...(next && { cursor: cursorOf(next, tag) }) }
  }
  async function first(): Promise<Page<T>> {
    const reading = prepare()
    return page(reading, reading.cursor)
  }
  return {
    // oxlint-disable-next-line unicorn/no-thenable -- a list is meant to be awaited
    then: (resolve, reject) => first().then(resolve, reject),
    async *[Symbol.asyncIterator]() {
      const reading = prepare()
      let { cursor } = reading
      do {
        const next = await page(reading, cursor)
        yield* next.items
        cursor = next.cursor
      } while (cursor !== undefined)
    },
  }
}

/**
 * Reads after a position. That of an altered cursor may be one that Postgres cannot compare with.
 * @throws InvalidOptionError `invalid_cursor`.
 */
export async function readAfter<R>(after: Key | undefined, read: (after: Key | undefined) => Promise<R>): Promise<R> {
  try {
    return await read(after)
  } catch (cause) {
    if (after === undefined || !(isAboutValues(cause) || cause instanceof RangeError || cause instanceof SyntaxError)) throw cause
    throw new InvalidOptionError('The cursor names no position in this list. Pass its latest cursor, or none to begin.', {
      code: 'invalid_cursor',
      cause,
    })
  }
}

/** The cursor for a position in a list. */
export function cursorOf(key: Key, tag: string): string {
  return Buffer.from(JSON.stringify([tag, ...key])).toString('base64url')
}

/** The position that a cursor names. @throws InvalidOptionError `invalid_cursor`. */
export function keyOf(cursor: string, tag: string): Key {
  const [found, ...key] = partsOf(cursor)
  if (found === tag) return key
  throw new InvalidOptionError(
    `${beginningOf(JSON.stringify(cursor), 80)} is not a cursor of this list with these options. Pass its latest cursor, or none to begin.`,
    { code: 'invalid_cursor' },
  )
}

function partsOf(cursor: string): Key {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    return Array.isArray(parts) && parts.every((part) => part === null || typeof part === 'string' || typeof part === 'number') ? parts : []
  } catch {
    return []
  }
}
