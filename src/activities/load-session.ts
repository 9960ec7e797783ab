// The activity `loadSession`: what a session goes on from whose workflow had closed.
import { setTimeout as sleep } from 'node:timers/promises'
import { Context } from '@temporalio/activity'
import { sessionIdOf } from '../session/protocol.ts'
import { StoreError } from '../store/errors.ts'
import { beating } from './beating.ts'
import type { LoadSessionInput, LoadSessionResult } from './contract.ts'
import { storeLeftBehind } from './left-behind.ts'
import type { ActivityNeeds } from './needs.ts'
import type { SessionReader } from './session-reader.ts'

const TRIES_TO_READ = 3
const BETWEEN_TRIES_MS = 1_000

/** Makes the activity. While the store is away it throws: Temporal asks again, for ever. */
export function loadSessionActivity(needs: ActivityNeeds, reader: SessionReader) {
  return function loadSession({ after }: LoadSessionInput): Promise<LoadSessionResult & { executionId: string }> {
    const { runId: executionId = '' } = Context.current().info.workflowExecution ?? {}
    return beating(async () => ({ ...(await load(needs, reader, after)), executionId }))
  }
}

async function load({ store, logger }: ActivityNeeds, reader: SessionReader, after: string | undefined): Promise<LoadSessionResult> {
  const { info, client } = Context.current()
  const sessionId = sessionIdOf(info.workflowExecution?.workflowId ?? '')
  await readLeftBehind(
    () => storeLeftBehind(sessionId, after, { store, reader, client, logger }),
    (err) => logger.warn({ err, sessionId }, 'what an execution left behind cannot be read: the session goes on without it'),
  )
  const resumed = await store.resume(sessionId)
  if (!resumed) return { found: false }
  const { warnings, ...found } = resumed
  for (const warning of warnings) logger.warn({ sessionId }, warning)
  if ('state' in found) return { found: true, state: found.state, digest: found.digest }
  return { found: true, ...found }
}

/** An execution that cannot be read any more must not keep its session from going on; a store that is away must. */
async function readLeftBehind(read: () => Promise<void>, giveUp: (error: unknown) => void): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await read()
    } catch (error) {
      if (error instanceof StoreError) throw error
      if (tries === TRIES_TO_READ) return giveUp(error)
      await sleep(BETWEEN_TRIES_MS)
    }
  }
}
