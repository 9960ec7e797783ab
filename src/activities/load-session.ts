// The activity `loadSession`: loads what a session resumes from after its workflow has closed.
import { defined } from '../session/defined.ts'
import { snapshotOf } from '../session/fold/snapshot.ts'
import { jsonBytes } from '../session/json.ts'
import { workflowIdOf } from '../session/protocol/protocol.ts'
import type { LoadSessionInput, LoadSessionResult, NotYet, PriorRequest, Succession } from '../calls/activities.ts'
import { repeatedAfterReset, storeCutOffExecutions } from './cut-off-executions.ts'
import { currentSession } from './current-session.ts'
import { CannotLoad, loading } from './loading.ts'
import type { ActivityNeeds } from './needs.ts'
import { readMistaken } from './raw-histories.ts'
import type { SessionReader } from './session-reader.ts'

/** An activity's result is limited to 2 MB, and the session's state is part of it. */
const MAX_PASSED_ON_BYTES = 1_700_000

export function loadSessionActivity(needs: ActivityNeeds, reader: SessionReader) {
  return function loadSession(input: LoadSessionInput): Promise<(LoadSessionResult & { executionId: string }) | NotYet> {
    const { executionId } = currentSession()
    return loading(input, async () => ({ ...(await load(needs, reader, input)), executionId }))
  }
}

async function load({ store, logger }: ActivityNeeds, reader: SessionReader, input: LoadSessionInput): Promise<LoadSessionResult> {
  const { client, sessionId, executionId: runId } = currentSession()
  const needs = { store, reader, client, logger, abandoned: input.abandoned === true }
  const found = await storeCutOffExecutions(sessionId, runId, needs, input)
  const mistaken = input.mistaken === undefined ? [] : await readMistaken(sessionId, input.mistaken, client)
  const { succession, again } = withinLimits({ ...found, requests: [...mistaken, ...(found.requests ?? [])] }, input.abandoned)
  // If this activity passes something on, and its worker dies now, another attempt must find it again. In that case, the store learns of
  // this execution only with its first events. Otherwise, the store knows from here on that this execution has the remaining events of
  // earlier ones.
  const { answers, requests, unreplayable, answered } = succession
  const isPassedOn = answers || requests || unreplayable || answered || again.length > 0
  const resumed = await store.resume(sessionId, isPassedOn ? undefined : runId)
  // This comes last, because each retry sends the signals again. They arrive after the others, and a repeated message changes nothing.
  for (const { name, details } of again) await client.workflow.getHandle(workflowIdOf(sessionId)).signal(name, details)
  if (!resumed) return { ...succession, found: false }
  const { warnings, ...past } = resumed
  for (const warning of warnings) logger.warn({ session: sessionId }, warning)
  // Updates that the reset execution completed are done, unless its events are lost; then everything that it received is passed on.
  const isLost = found.unreplayable !== undefined && found.unreplayable.executionId === input.after
  const reset = { sessionId, executionId: runId, ...(isLost ? { passedOn: found.requests ?? [] } : { after: input.after }) }
  const repeated = input.after === undefined ? undefined : await repeatedAfterReset(reset, store, client)
  const besides = { ...succession, ...defined({ repeated }) }
  if ('state' in past) return { ...besides, found: true, state: snapshotOf(past.state), digest: past.digest }
  return { ...besides, found: true, ...past }
}

/**
 * Splits the past into what the result has room for, and the signals to send to this execution again.
 * @throws CannotLoad `execution_unreadable` if the rest is too large, and no person has abandoned it.
 */
function withinLimits(
  { requests = [], ...rest }: Succession,
  abandoned: boolean | undefined,
): { succession: Succession; again: PriorRequest[] } {
  const kept: PriorRequest[] = []
  const again: PriorRequest[] = []
  let left = MAX_PASSED_ON_BYTES - jsonBytes(rest)
  for (const one of requests) {
    const bytes = jsonBytes(one)
    if (one.kind === 'signal' && (again.length > 0 || bytes > left)) {
      again.push(one)
      continue
    }
    left -= bytes
    kept.push(one)
  }
  if (left >= 0) return { succession: { ...rest, ...(kept.length > 0 && { requests: kept }) }, again }
  if (!abandoned) {
    const what = 'results of calls and decisions that are not stored, and together are too large to pass on'
    throw new CannotLoad('execution_unreadable', `Executions were ended with ${what}.`)
  }
  const small = requests.filter(({ kind }) => kind === 'cancellation')
  const succession = { ...defined({ unreplayable: rest.unreplayable }), ...(small.length > 0 && { requests: small }) }
  return { succession, again: requests.filter(({ kind }) => kind === 'signal') }
}
