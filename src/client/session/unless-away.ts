// Reads of the store that have an alternative source.
import { StoreError } from '../../connect/errors.ts'

/** What `read` returns; undefined if the store does not answer. */
export async function unlessAway<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof StoreError && error.code === 'store_unavailable') return undefined
    throw error
  }
}
