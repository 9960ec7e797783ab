// Due times in the workflow. One has come when its timer has fired, which history records, and never because the clock says so: a
// replay may be given another time than the task had.
import { CancellationScope, sleep } from '@temporalio/workflow'
import { checkpointAt } from '../session/checkpointing.ts'
import { deadlineOf, type Due, expiryOf, isGoingOn } from '../session/decide.ts'
import { isWaiting } from '../session/fold-calls.ts'
import type { CallState, RunState, SessionState } from '../session/state.ts'
import type { Journal } from './journal.ts'
import type { Stopping } from './stopping.ts'

/** Longer than that a timer of the server need not be. */
const LONGEST_MS = 10 * 365 * 24 * 3_600_000

/** The alarms of one execution. */
export interface Alarms {
  readonly due: Due
  /** Sets the alarms that the state asks for now, and takes back those that it does not any more. To be called before each decision. */
  follow(): void
  /** Whether the body of an unknown call, which nobody saw die, cannot be at work any more. */
  isDead(callId: string): boolean
  /** Whether an alarm is set that has not gone off. */
  areSet(): boolean
}

/** A moment that a state waits for: in milliseconds since 1970, or so long after it was first waited for. */
type Moment = ({ at: number } | { forMs: number }) & {
  /** What is to be done when it has come. */
  come?: () => void
}

interface Alarm {
  scope: CancellationScope
  hasGoneOff: boolean
}

/** The alarms of one execution. */
export function startAlarms(journal: Journal, stopping: Stopping): Alarms {
  const alarms = new Map<string, Alarm>()
  const hasGoneOff = (name: string): boolean => alarms.get(name)?.hasGoneOff ?? false

  function follow(): void {
    const wanted = momentsOf(journal.state)
    for (const [name, { scope }] of alarms) {
      if (wanted.has(name)) continue
      alarms.delete(name)
      scope.cancel()
    }
    for (const [name, moment] of wanted) if (!alarms.has(name)) set(name, moment)
  }

  /** Only how long the timer is depends on the clock. */
  function set(name: string, moment: Moment): void {
    const leftMs = 'at' in moment ? moment.at - Date.now() : moment.forMs
    const alarm: Alarm = { scope: new CancellationScope(), hasGoneOff: false }
    alarms.set(name, alarm)
    alarm.scope
      .run(() => sleep(Math.min(Math.max(1, leftMs), LONGEST_MS)))
      .then(
        () => {
          alarm.hasGoneOff = true
          // Nobody may wait for it any more, in the very task that brings it.
          if (momentsOf(journal.state).has(name)) moment.come?.()
        },
        () => undefined,
      )
  }

  /** What the state waits for. Names tell one moment from any other: times do not, for they may differ on a replay. */
  function momentsOf(state: SessionState): Map<string, Moment> {
    const moments = new Map<string, Moment>()
    // Each execution waits anew: how long ago the call was lost would be a matter of clocks.
    for (const [callId, { aliveForMs }] of Object.entries(state.unknown)) {
      if (aliveForMs !== undefined) moments.set(life(callId), { forMs: aliveForMs })
    }
    const run = isGoingOn(state) ? state.current : null
    if (!run) return moments
    const limitMs = run.limits?.deadlineMs
    if (limitMs !== undefined) {
      moments.set(deadline(run), { at: deadlineOf(run), come: () => stopping.request({ why: 'deadline', limitMs }) })
    }
    for (const call of run.calls.filter((one) => isWaiting(one) && one.asked?.expiresAt !== undefined)) {
      moments.set(expiry(call), { at: expiryOf(call) })
    }
    const at = checkpointAt(state)
    if (at !== undefined) {
      const version = state.checkpoint?.version ?? 0
      moments.set(`checkpoint ${version}`, { at, come: () => journal.checkpointTime(version) })
    }
    return moments
  }

  return {
    due: { call: (call) => hasGoneOff(expiry(call)), run: (run) => hasGoneOff(deadline(run)) },
    follow,
    isDead: (callId) => hasGoneOff(life(callId)),
    areSet: () => [...alarms.values()].some((alarm) => !alarm.hasGoneOff),
  }
}

const deadline = ({ run, limits }: RunState): string => `deadline ${run} ${limits?.deadlineMs}`
const life = (callId: string): string => `life ${callId}`
const expiry = ({ callId }: CallState): string => `expiry ${callId}`
