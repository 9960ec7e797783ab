// What a session's history says about its events: the states from which the session was opened, and the watermarks in activity inputs.
import type { LoadedDataConverter, Payload } from '@temporalio/common'
import { decoded } from '../../connect/decoded.ts'
import type { Watermark } from '../../session/events.ts'
import { isObject } from '../../session/json.ts'
import { checkStart, type Start } from '../../session/protocol/start.ts'
import type { CallState, SessionState } from '../../session/state.ts'
import { Undecodable } from '../../session/protocol/undecodable.ts'
import { type HistoryEvent, watermarkIn } from '../../connect/histories.ts'
import type { History } from './open-sessions.ts'

export interface StateSnapshot {
  state: SessionState
  digest: string
}

/** What the build that wrote the history recorded about the session's events. */
export interface RecordedHistory {
  start: Start
  /** States from which the session was opened: carried by continue-as-new, or loaded from the side store. */
  opened: StateSnapshot[]
  /** Calls that did not fit into these states and were loaded from the events. */
  calls: CallState[]
  /** For each activity, in order: the history event that scheduled it, and the last session event at that time. */
  watermarks: { historyEvent: number; activity: string; at: Watermark }[]
}

export function idOf({ eventId }: HistoryEvent): number {
  return Number(String(eventId))
}

/** Reads a history. Rejects if a payload of an activity cannot be decoded, because only pawl's workers write these. */
export async function readRecorded({ events }: History, converter: LoadedDataConverter): Promise<RecordedHistory> {
  const [first] = events ?? []
  const started = first?.workflowExecutionStartedEventAttributes
  const argument = started?.input?.payloads?.[0]
  // Any client can start a session, even with an argument that cannot be decoded.
  const given = argument && (await decoded(converter, argument).catch((error: unknown) => new Undecodable(String(error))))
  const start = checkStart(given, started?.continuedExecutionRunId || undefined)
  const recorded: RecordedHistory = { start, opened: start.carried ? [start.carried] : [], calls: [], watermarks: [] }
  const scheduledAs = new Map<string, string>()
  for (const event of events ?? []) {
    const { activityTaskScheduledEventAttributes: scheduled, activityTaskCompletedEventAttributes: completed } = event
    if (scheduled) {
      const activity = scheduled.activityType?.name ?? ''
      scheduledAs.set(String(event.eventId), activity)
      const at = watermarkIn(await ownPayload(converter, scheduled.input?.payloads?.[0]))
      if (at) recorded.watermarks.push({ historyEvent: idOf(event), activity, at })
    }
    if (completed && LOADING.has(scheduledAs.get(String(completed.scheduledEventId)) ?? ''))
      noteLoaded(recorded, await ownPayload(converter, completed.result?.payloads?.[0]))
  }
  return recorded
}

const LOADING: ReadonlySet<string> = new Set(['loadSession', 'loadFork', 'loadCalls'])

/** Notes the result of an activity that loads. One that could not load returns neither state nor calls. */
function noteLoaded({ opened, calls }: RecordedHistory, answer: unknown): void {
  const { state, digest, calls: more } = (isObject(answer) ? answer : {}) as Partial<StateSnapshot> & { calls?: CallState[] }
  if (state && digest !== undefined) opened.push({ state, digest })
  if (more) calls.push(...more)
}

async function ownPayload(converter: LoadedDataConverter, payload: Payload | null | undefined): Promise<unknown> {
  const value = await decoded(converter, payload)
  if (value instanceof Undecodable) throw new Error(value.reason)
  return value
}
