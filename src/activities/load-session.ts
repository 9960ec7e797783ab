// The activity `loadSession`: loads what a session resumes from after its workflow has closed.
import { defined } from '../session/defined.ts'
import { snapshotOf } from '../session/fold/snapshot.ts'
import type { LoadSessionInput, LoadSessionResult, NotYet } from '../calls/activities.ts'
import { repeatedAfterReset, storeCutOffExecutions } from './cut-off-executions.ts'
import { currentSession } from './current-session.ts'
import { loading } from './loading.ts'
import type { ActivityNeeds } from './needs.ts'
import { resendMessages } from './resending.ts'
import type { SessionReader } from './session-reader.ts'

export function loadSessionActivity(needs: ActivityNeeds, reader: SessionReader) {
  return function loadSession(input: LoadSessionInput): Promise<(LoadSessionResult & { executionId: string }) | NotYet> {
    const { executionId } = currentSession()
    return loading(input, async () => ({ ...(await load(needs, reader, input)), executionId }))
  }
}

async function load({ store, logger }: ActivityNeeds, reader: SessionReader, input: LoadSessionInput): Promise<LoadSessionResult> {
  const { client, sessionId, executionId: runId } = currentSession()
  const needs = { store, reader, client, logger, abandoned: input.abandoned === true }
  const succession = await storeCutOffExecutions(sessionId, runId, needs, input)
  if (input.mistaken !== undefined) await resendMessages({ sessionId, executionId: input.mistaken, client })
  // From here on, the store knows that this execution has the remaining events of earlier ones. What this activity alone passes on must be
  // found again if its worker dies now: the store then learns of this execution with its first events.
  const resumed = await store.resume(sessionId, succession.answers || succession.unreplayable ? undefined : runId)
  if (!resumed) return { ...succession, found: false }
  const { warnings, ...found } = resumed
  for (const warning of warnings) logger.warn({ session: sessionId }, warning)
  const repeated = input.after === undefined ? undefined : await repeatedAfterReset(sessionId, runId, store, client)
  const besides = { ...succession, ...defined({ repeated }) }
  if ('state' in found) return { ...besides, found: true, state: snapshotOf(found.state), digest: found.digest }
  return { ...besides, found: true, ...found }
}
