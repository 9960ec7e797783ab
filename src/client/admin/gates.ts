// The rate gates of a deployment: lists the accounts that wait because their provider refused a call, and opens them early.
import type { StoredGate } from '../../store/write/gates.ts'
import type { QueriesOptions } from '../queries/queries-options.ts'
import { openStoreAlone } from './store-alone.ts'

/** The rate gates. Every method rejects with `StoreError` (`store_unavailable`, …). */
export interface RateGateAdmin {
  /** The gates that are shut. */
  list(): Promise<StoredGate[]>
  /** Opens a gate on all workers. Returns whether it was shut. */
  open(key: string, by: string): Promise<boolean>
  close(): Promise<void>
}

/** Opens the store. @throws InvalidOptionError `invalid_option`; StoreError `no_store`, `invalid_store_options`, `invalid_postgres_url`. */
export function openGates(given: QueriesOptions): RateGateAdmin {
  const store = openStoreAlone(given, 'rate gates')
  return {
    list: async () => (await store.shutGates()).filter(({ forMs }) => forMs > 0),
    open: (key, by) => store.openGate(key, by),
    close: () => store.close(),
  }
}
