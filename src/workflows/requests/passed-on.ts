// Requests that an earlier execution had received, and that the store does not show to be done: this execution carries them out, once, in
// their order, before what it received itself.
import { allHandlersFinished, currentUpdateInfo, log } from '@temporalio/workflow'
import type { PriorRequest } from '../../calls/activities.ts'
import { opened } from '../opening/opened.ts'
import type { Session } from '../open-session.ts'
import { cancel, type CurrentExecution, receiveSignal } from '../signals.ts'

/** What carries out an update. */
export type UpdateAction<A, R> = (open: Session, raw: A) => R | Promise<R>

/** By name. */
export type Updates = Map<string, UpdateAction<unknown, unknown>>

// Each workflow has its own instance of this module.
const outcomes = new Map<string, Promise<unknown>>()
let inProgress = 0

/** Whether every update of this execution is done, and everything that was passed on to it. */
export function requestsFinished(): boolean {
  return inProgress === 0 && allHandlersFinished()
}

/** Carries out what was passed on. What the session refuses now is only logged, because no client waits for it. */
export function carryOutPassedOn(execution: CurrentExecution, session: Session, updates: Updates, requests: readonly PriorRequest[]): void {
  for (const one of requests) {
    if (one.kind === 'update') carryOutUpdate(session, updates, one)
    else if (one.kind === 'cancellation') cancel(execution)
    else receiveSignal(execution, one.name, one.details)
  }
}

function carryOutUpdate(session: Session, updates: Updates, { id, name, details }: PriorRequest & { kind: 'update' }): void {
  const outcome = begin(() => updates.get(name)?.(session, details))
  outcomes.set(id, outcome)
  outcome.catch((error: unknown) => log.warn('a request that an execution had accepted was not carried out', { update: name, error }))
}

async function begin(carryOut: () => unknown): Promise<unknown> {
  inProgress += 1
  try {
    return await carryOut()
  } finally {
    inProgress -= 1
  }
}

/** Carries out an update of a client once the session is open. One that was passed on, and is sent again, is not carried out twice. */
export async function carryOutOnce<A, R>(execution: CurrentExecution, raw: A, carryOut: UpdateAction<A, R>): Promise<R> {
  const id = currentUpdateInfo()?.id ?? ''
  const open = await opened(execution)
  const outcome = outcomes.get(id)
  return outcome ? (outcome as Promise<R>) : carryOut(open, raw)
}
