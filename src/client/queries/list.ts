// A list as a backend gets it: one page when it is awaited, all pages when it is iterated; its cursor is opaque.
import { shortHash } from '../../session/digest.ts'
import type { Key, Rows } from '../../store/read/lists/index.ts'
import { InvalidOption } from '../../options/errors.ts'

/** A page of a list. */
export interface Page<T> {
  /** The items of this page. */
  items: T[]
  /** Give it as `cursor`, with the same other options, for the next page; absent on the last one. */
  cursor?: string
}

/** A list: `await` gives the page at `cursor`, `for await` all items from there on, page by page. */
export interface List<T> extends PromiseLike<Page<T>>, AsyncIterable<T> {}

/** What a list reads. */
export interface Reading<T> {
  /** Which list with which filter: a cursor is good for the same one only. */
  name: string
  filter: object
  cursor: string | undefined
  read(after: Key | undefined): Promise<Rows<T>>
}

/** The list of what `prepare` says; that is asked once, when the list is first read. */
export function listOf<T>(prepare: () => Reading<T>): List<T> {
  async function page(reading: Reading<T>, cursor: string | undefined): Promise<Page<T>> {
    const tag = shortHash(`${reading.name} ${JSON.stringify(reading.filter)}`)
    const { items, next } = await reading.read(cursor === undefined ? undefined : keyOf(cursor, tag))
    return { items, ...(next && { cursor: cursorOf(next, tag) }) }
  }
  async function first(): Promise<Page<T>> {
    const reading = prepare()
    return page(reading, reading.cursor)
  }
  return {
    // oxlint-disable-next-line unicorn/no-thenable -- to be awaited is what it is for
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

/** The text of a place in a list. */
export function cursorOf(key: Key, tag: string): string {
  return Buffer.from(JSON.stringify([tag, ...key])).toString('base64url')
}

/** The place that a cursor's text means. @throws InvalidOption `invalid_cursor`. */
export function keyOf(cursor: string, tag: string): Key {
  const [found, ...key] = partsOf(cursor)
  if (found === tag) return key
  throw new InvalidOption(
    `${JSON.stringify(cursor).slice(0, 80)} is not a cursor of this list with these options: give the one of its last page, or none to begin.`,
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
