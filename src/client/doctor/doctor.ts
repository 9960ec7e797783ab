// Examines a deployment: its servers, its workers, and its sessions. Works even if some of them do not answer.
import { findDevDeployment } from '../../connect/dev-stack.ts'
import { DEFAULT_TASK_QUEUE } from '../../session/protocol/protocol.ts'
import { defined } from '../../session/defined.ts'
import { checkConnect, type ConnectOptions } from '../connect-options.ts'
import { namespaceOf, namesTemporal } from '../connecting.ts'
import { examineStore } from './examine-store.ts'
import { examineTemporal } from './examine-temporal.ts'
import { judgeClocks } from './judgements.ts'
import type { HealthCheck, HealthReport } from './report.ts'

/** The order of the checks: each after those that it depends on. */
const ORDER = ['temporal', 'postgres', 'schema', 'clocks', 'workers', 'backlog', 'agents', 'sessions', 'workflows', 'storage', 'feed']

/**
 * Examines a deployment: Temporal, Postgres, the schema, the clocks, the workers that poll the task queues, their backlog, which agents are
 * served, and which sessions are stuck. A server that does not answer is a finding, not an error; checks that depend on it are left out.
 *
 * @throws InvalidOption `invalid_option`.
 */
export async function doctor(given: ConnectOptions = {}): Promise<HealthReport> {
  const options = checkConnect(given)
  const found = namesTemporal(options) ? {} : await findDevDeployment()
  const { taskQueue = found.taskQueue ?? DEFAULT_TASK_QUEUE } = options
  const side = examineStore(options.postgres ?? process.env.DATABASE_URL ?? found.postgres, options, namespaceOf(options, found.temporal))
  const quiet = side.then((examined) => examined.quiet)
  const [store, temporal] = await Promise.all([side, examineTemporal(options, { found: found.temporal, taskQueue, quiet })])
  const clocks = judgeClocks(defined({ Temporal: temporal.clock, Postgres: store.clock }))
  return reportOf([...temporal.checks, ...store.checks, ...(clocks ? [clocks] : [])])
}

function reportOf(checks: HealthCheck[]): HealthReport {
  const ordered = checks.sort((one, other) => ORDER.indexOf(one.check) - ORDER.indexOf(other.check))
  return { ok: ordered.every(({ level }) => level !== 'fail'), checks: ordered }
}
