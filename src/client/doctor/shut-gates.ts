// The rate gates that are shut.
import type { Store } from '../../store/index.ts'

/** An account whose calls wait, because its provider has refused one and asked to wait. */
export interface ShutGate {
  /** The account: the name of its gate. */
  account: string
  /** When the gate opens, unless the provider accepts a call sooner. */
  until: Date
}

export async function shutGatesIn(store: Pick<Store, 'shutGates'>): Promise<ShutGate[]> {
  const known = await store.shutGates()
  return known.filter(({ forMs }) => forMs > 0).map(({ key: account, forMs }) => ({ account, until: new Date(Date.now() + forMs) }))
}
