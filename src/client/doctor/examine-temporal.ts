// The doctor's examination of Temporal: the server, the pollers, the backlog, and the sessions that are stuck.
import type { Client } from '@temporalio/client'
import type { TemporalAddress } from '../../connect/temporal.ts'
import { PawlError } from '../../session/errors.ts'
import { reasonOf } from '../../store/errors.ts'
import type { ConnectOptions } from '../connect-options.ts'
import { temporalClient } from '../connecting.ts'
import { type ClockReading, judgeBacklog, judgeTemporal, judgeWorkers, judgeWorkflows } from './judgements.ts'
import { endedAmong, heldUpAmong, openSessions } from './open-sessions.ts'
import { unsentOccurrences } from './occurrences.ts'
import { fail, type HealthCheck } from './report.ts'
import { judgeSchedules } from './shared-judgements.ts'
import { queueFacts, temporalClock, temporalFacts } from './temporal-facts.ts'

/** The findings about Temporal. */
export interface ExaminedTemporal {
  checks: HealthCheck[]
  clock?: ClockReading
}

export interface TemporalToExamine {
  /** The address of a running `pawl dev`. */
  found: TemporalAddress | undefined
  taskQueue: string
  /** Sessions to examine in any case: they are unfinished in the store, and have stored nothing for the longest time. */
  unfinished: Promise<string[]>
}

/** How many of the newest open sessions are examined, in addition to the quiet ones. */
const EXAMINED = 50

/** Examines the Temporal that the options name. */
export async function examineTemporal(
  options: ConnectOptions,
  { found, taskQueue, unfinished }: TemporalToExamine,
): Promise<ExaminedTemporal> {
  let opened: Awaited<ReturnType<typeof temporalClient>> | undefined
  try {
    opened = await temporalClient(options, found)
    const { client } = opened
    const [facts, queues, clock] = await Promise.all([
      temporalFacts(client),
      queueFacts(client, taskQueue),
      temporalClock(client).catch(() => undefined),
    ])
    const now = Date.now() + (clock ? clock.theirs - clock.ours : 0)
    const [workflows, occurrences] = await Promise.all([
      unfinished.then((ids) => examineWorkflows(client, taskQueue, ids)),
      unsentOccurrences(client, taskQueue, now),
    ])
    const checks = [judgeTemporal(facts, addressOf(client)), judgeWorkers(queues, now), judgeBacklog(queues, now), workflows]
    checks.push(judgeSchedules(occurrences, now))
    return { checks, ...(clock && { clock }) }
  } catch (error) {
    const code = error instanceof PawlError ? `${error.code}: ` : ''
    const advice = 'No session continues until Temporal answers. Workers, backlog and workflows were not examined.'
    return { checks: [fail('temporal', { measured: `${code}${reasonOf(error)}`, advice })] }
  } finally {
    await opened?.close()
  }
}

function addressOf({ connection }: Client): string {
  return (connection as { options?: { address?: string } }).options?.address ?? 'an unknown address'
}

async function examineWorkflows(client: Client, taskQueue: string, unfinished: readonly string[]): Promise<HealthCheck> {
  const { count, newest } = await openSessions(client, taskQueue, EXAMINED)
  const ids = [...new Set([...unfinished, ...newest.map(({ sessionId }) => sessionId)])]
  const [heldUp, ended] = await Promise.all([heldUpAmong(client, ids), endedAmong(client, unfinished)])
  return judgeWorkflows({ open: count, examined: ids.length, heldUp, ended })
}
