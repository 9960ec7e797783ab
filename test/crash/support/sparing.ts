// Which processes a test may kill next: pawl gives up a call that was lost with five executors.
import type { LostCall, Rig, Supervised } from './rig.ts'

/** Losses after which a call is spared. */
const SPARED_AFTER = 3

/** Executors that serve. */
export function readyIn({ supervisor, events }: Supervised): number[] {
  return supervisor.pids().filter((pid) => events.some((event) => event.event === 'worker_ready' && event.pid === pid))
}

/** Whether a call that has not ended was lost three times with its executor. */
export async function isAnyInDanger(rig: Pick<Rig, 'hasEnded'>, workers: readonly Supervised[]): Promise<boolean> {
  const losses = new Map<string, { call: LostCall; count: number }>()
  for (const call of workers.flatMap(({ events }) => events.flatMap((event) => (event.event === 'worker_died' ? event.calls : [])))) {
    const key = `${call.sessionId} ${call.call}`
    losses.set(key, { call, count: (losses.get(key)?.count ?? 0) + 1 })
  }
  const inDoubt = [...losses.values()].filter(({ count }) => count >= SPARED_AFTER)
  return (await Promise.all(inDoubt.map(({ call }) => rig.hasEnded(call)))).includes(false)
}
