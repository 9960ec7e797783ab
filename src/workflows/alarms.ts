// Due times in the workflow. A due time has passed when its timer has fired, which history records. The clock must not decide, because a
// replay may see a different time than the original task.
import { CancellationScope, sleep } from '@temporalio/workflow'
import { checkpointAt } from '../session/checkpointing.ts'
import { deadlinesInInbox, deadlinesOf } from '../session/deadlines.ts'
import { type Due, expiryOf, isRunInProgress } from '../session/decide.ts'
import { scheduledIn } from '../session/fold/scheduled.ts'
import { dueSummary } from '../session/protocol/due-timer.ts'
import { isWaiting } from '../session/past/call-status.ts'
import type { CallState, ScheduledEntry, SessionState } from '../session/state.ts'
import type { Journal } from './journal.ts'
import type { Stopping } from './stopping.ts'
import { defined } from '../session/defined.ts'

const LONGEST_MS = 10 * 365 * 24 * 3_600_000

export interface Alarms {
  readonly due: Due
  /**
   * Sets the alarms that the state needs now, and removes the others. Call this before each decision, and when a step learns of a deadline.
   */
  follow(): void
  /** Whether enough time has passed that the body of an unknown call without a confirmed death can no longer be running. */
  isDead(callId: string): boolean
  /** Whether any alarm is set and has not fired. */
  areSet(): boolean
}

/** A moment that the state waits for: milliseconds since 1970, or a duration from the start of the wait. */
type AlarmTime = ({ at: number } | { forMs: number }) & {
  onDue?: () => void
  /** Names the timer in history. */
  summary?: string
}

interface Alarm {
  scope: CancellationScope
  hasGoneOff: boolean
}

/** `hasCaughtUp`: whether a time that has passed may end a run or a call yet. `onMessageDue`: scheduled messages are due. */
export function startAlarms(
  journal: Journal,
  stopping: Stopping,
  hasCaughtUp: () => boolean,
  onMessageDue: (dueAt: number) => void,
): Alarms {
  const alarms = new Map<string, Alarm>()
  let home: CancellationScope | undefined
  const hasGoneOff = (name: string): boolean => alarms.get(name)?.hasGoneOff ?? false

  function follow(): void {
    // Runs outside the scope of the step that learns of a deadline, because alarms outlive that step.
    home ??= CancellationScope.current()
    const wanted = momentsOf(journal.state)
    for (const [name, { scope }] of alarms) {
      if (wanted.has(name)) continue
      alarms.delete(name)
      scope.cancel()
    }
    for (const [name, moment] of wanted) if (!alarms.has(name)) set(name, moment)
  }

  /** Only the length of the timer depends on the clock. */
  function set(name: string, moment: AlarmTime): void {
    const leftMs = 'at' in moment ? moment.at - Date.now() : moment.forMs
    const alarm: Alarm = { scope: new CancellationScope({ cancellable: true, ...defined({ parent: home }) }), hasGoneOff: false }
    alarms.set(name, alarm)
    alarm.scope
      .run(() => sleep(Math.min(Math.max(1, leftMs), LONGEST_MS), moment.summary === undefined ? undefined : { summary: moment.summary }))
      .then(
        () => {
          alarm.hasGoneOff = true
          // The task that fires the timer may have removed its alarm, and a run may meanwhile have accepted the message.
          momentsOf(journal.state).get(name)?.onDue?.()
        },
        () => undefined,
      )
  }

  function dueMoment({ messageId, dueAt }: ScheduledEntry): AlarmTime {
    return { at: dueAt, onDue: () => onMessageDue(dueAt), summary: dueSummary(messageId) }
  }

  /** The moments that the state waits for, by name. Their times may differ on a replay, so a time cannot identify a moment. */
  function momentsOf(state: SessionState): Map<string, AlarmTime> {
    const moments = new Map<string, AlarmTime>()
    // Each execution measures this from its own start, because the time since the loss would depend on clocks.
    for (const [callId, { aliveForMs }] of Object.entries(state.unknown)) {
      if (aliveForMs !== undefined) moments.set(life(callId), { forMs: aliveForMs })
    }
    for (const { name, at } of deadlinesInInbox(state)) moments.set(name, { at })
    const [earliest] = scheduledIn(state)
    if (earliest) moments.set(`message ${earliest.seq}`, dueMoment(earliest))
    const run = isRunInProgress(state) ? state.current : null
    if (!run) return moments
    const next = state.error?.nextAttemptAt
    if (next !== undefined) moments.set(recovery(state), { at: next })
    for (const { name, at, reason } of state.paused ? [] : deadlinesOf(state, run)) {
      moments.set(name, { at, onDue: () => stopping.requestOnce(hasCaughtUp, { why: 'deadline', reason }) })
    }
    for (const call of run.calls.filter((one) => isWaiting(one) && one.asked?.expiresAt !== undefined)) {
      moments.set(expiry(call), { at: expiryOf(call) })
    }
    const at = checkpointAt(state)
    if (at !== undefined) {
      const version = state.checkpoint?.version ?? 0
      moments.set(`checkpoint ${version}`, { at, onDue: () => journal.checkpointTime(version) })
    }
    return moments
  }

  return {
    due: {
      call: (call) => hasGoneOff(expiry(call)) && hasCaughtUp(),
      deadline: ({ name }) => hasGoneOff(name),
      recovery: () => hasGoneOff(recovery(journal.state)),
      endsRuns: hasCaughtUp,
    },
    follow,
    isDead: (callId) => hasGoneOff(life(callId)),
    areSet: () => [...alarms.values()].some((alarm) => !alarm.hasGoneOff),
  }
}

const recovery = ({ run, recovered }: SessionState): string => `recovery ${run} ${recovered?.inARow ?? 0}`
const life = (callId: string): string => `life ${callId}`
const expiry = ({ callId }: CallState): string => `expiry ${callId}`
