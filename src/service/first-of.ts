// A page of a sequence: as many items as its limit allows, and as fit into its size.

/** Characters of JSON in a page, approximately; it has at least one item. */
const PAGE_CHARACTERS = 2_000_000

/** The first items, at most `limit`. */
export async function firstOf<T>(sequence: AsyncIterable<T>, limit: number): Promise<T[]> {
  const items: T[] = []
  let characters = 0
  for await (const item of sequence) {
    characters += JSON.stringify(item).length
    if (items.length > 0 && characters > PAGE_CHARACTERS) break
    items.push(item)
    if (items.length === limit) break
  }
  return items
}
