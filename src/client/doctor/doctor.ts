// Examines a deployment: its servers, its workers, and its sessions. Works even if some of them do not answer.
import { defined } from '../../session/defined.ts'
import { checkConnect, type ConnectOptions } from '../connect-options.ts'
import { namespaceOf } from '../connecting.ts'
import { examineStore } from './examine-store.ts'
import { examineTemporal } from './examine-temporal.ts'
import { judgeClocks } from './judgements.ts'
import { findDeployment } from './place.ts'
import type { HealthCheck, HealthReport } from './report.ts'

/** The order of the checks: each after those that it depends on. */
const ORDER = [
  'temporal',
  'postgres',
  'schema',
  'clocks',
  'workers',
  'backlog',
  'agents',
  'models',
  'gates',
  'tools',
  'effects',
  'sessions',
  'workflows',
  'storage',
  'feed',
  'webhooks',
  'budgets',
  'rules',
  'schedules',
]

/**
 * Examines a deployment: Temporal, Postgres, the schema, the clocks, the workers that poll the task queues, their backlog, which agents are
 * served, which models and tools fail, which providers limit the rate, which sessions are stuck, which webhooks do not
 * deliver, which shared budgets are exhausted, which standing approvals are void, and which schedules do not send. A server that does not answer is a
 * finding, not an error; checks that depend on it are skipped.
 * @throws InvalidOptionError `invalid_option`.
 */
export async function doctor(given: ConnectOptions = {}): Promise<HealthReport> {
  const { options, found, taskQueue, postgres } = await findDeployment(checkConnect(given))
  const side = examineStore(postgres, options, namespaceOf(options, found))
  const unfinished = side.then((examined) => examined.unfinished)
  const [store, temporal] = await Promise.all([side, examineTemporal(options, { found, taskQueue, unfinished })])
  const clocks = judgeClocks(defined({ Temporal: temporal.clock, Postgres: store.clock }))
  return reportOf([...temporal.checks, ...store.checks, ...(clocks ? [clocks] : [])])
}

function reportOf(checks: HealthCheck[]): HealthReport {
  const ordered = checks.sort((one, other) => ORDER.indexOf(one.check) - ORDER.indexOf(other.check))
  const notExamined = ORDER.filter((name) => !checks.some(({ check }) => check === name))
  return { ok: ordered.every(({ level }) => level !== 'fail'), checks: ordered, notExamined }
}
