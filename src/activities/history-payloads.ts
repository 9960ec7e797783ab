// Reads histories, and the payloads in them.
import type { Client } from '@temporalio/client'
import type { Payload } from '@temporalio/common'
import { decoded } from '../connect/decoded.ts'
import type { HistoryEvent } from '../connect/histories.ts'
import { isObject } from '../session/json.ts'
import { type SessionStart, workflowIdOf } from '../session/protocol/protocol.ts'
import { Undecodable } from '../session/protocol/undecodable.ts'

/** WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW. */
const RESET = 20

export async function historyOf(sessionId: string, executionId: string, client: Client): Promise<HistoryEvent[]> {
  return (await client.workflow.getHandle(workflowIdOf(sessionId), executionId).fetchHistory()).events ?? []
}

export const startedOf = ([first]: readonly HistoryEvent[]) => first?.workflowExecutionStartedEventAttributes

export async function startIn(history: readonly HistoryEvent[], client: Client): Promise<Partial<SessionStart> | undefined> {
  const start = await decodedOrNothing(client, startedOf(history)?.input?.payloads?.[0])
  return isObject(start) ? start : undefined
}

export const isReset = ({ workflowTaskFailedEventAttributes: failed }: HistoryEvent): boolean => failed?.cause === RESET

/** The index of the newest reset in the history; -1 if there is none. */
export function resetIn(history: readonly HistoryEvent[]): number {
  return history.findLastIndex(isReset)
}

/**
 * Decodes a payload that any client may have written. Returns undefined if the converter cannot read it, because the session would have
 * refused it. Rejects if a codec fails, perhaps because a key is missing: nothing may be dropped for that reason.
 */
export async function decodedOrNothing(client: Client, payload: Payload | null | undefined): Promise<unknown> {
  const { payloadCodecs, payloadConverter, ...rest } = client.options.loadedDataConverter
  const lenient: typeof payloadConverter = {
    toPayload: (value) => payloadConverter.toPayload(value),
    fromPayload<T>(one: Payload): T {
      try {
        return payloadConverter.fromPayload(one)
      } catch {
        return undefined as T
      }
    },
  }
  const value = await decoded({ ...rest, payloadCodecs, payloadConverter: lenient }, payload)
  return value instanceof Undecodable ? undefined : value
}
