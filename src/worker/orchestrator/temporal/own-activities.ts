// pawl's own activities, and those that run user code.
import type { OwnActivity, PawlActivities } from '../../../calls/activities.ts'

/** A record, so that the compiler reports a missing one. */
const OWN: Record<OwnActivity, true> = {
  useContextRule: true,
  releaseWaiting: true,
  findPlace: true,
  findCalls: true,
  findKept: true,
  flush: true,
  loadSession: true,
  loadCalls: true,
  loadFork: true,
  askChildren: true,
  reportToCaller: true,
  sendOccurrence: true,
}

export function isOwnActivity(name: string): name is OwnActivity {
  return Object.hasOwn(OWN, name)
}

/** The activities for the workers of each task queue. */
export function byTaskQueue(activities: PawlActivities): { own: Partial<PawlActivities>; userCode: Partial<PawlActivities> } {
  const entries = Object.entries(activities)
  return {
    own: Object.fromEntries(entries.filter(([name]) => isOwnActivity(name))),
    userCode: Object.fromEntries(entries.filter(([name]) => !isOwnActivity(name))),
  }
}
