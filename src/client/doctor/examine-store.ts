// The doctor's examination of the side store.
import { reasonOf } from '../../store/errors.ts'
import { type StoreHealth, storeHealth } from '../../store/maintenance/health.ts'
import { PawlError } from '../../session/errors.ts'
import { defined } from '../../session/defined.ts'
import type { ConnectOptions } from '../connect-options.ts'
import {
  type ClockReading,
  judgeAgents,
  judgeEffects,
  judgeFeed,
  judgeGates,
  judgePostgres,
  judgeSchema,
  judgeSessions,
  judgeSteps,
  judgeStorage,
  judgeWebhooks,
} from './judgements.ts'
import { fail, type HealthCheck } from './report.ts'
import { judgeBudgets, judgeRules } from './shared-judgements.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

/** The findings about the store. */
export interface ExaminedStore {
  checks: HealthCheck[]
  clock?: ClockReading
  /** Sessions that should be open in Temporal; those that have stored nothing for the longest time come first. */
  unfinished: string[]
}

const NOT_EXAMINED = 'The schema, agents, sessions and storage were not examined.'

/** Examines the store at `postgres`; `false`: the deployment has no store. */
export async function examineStore(
  postgres: ConnectOptions['postgres'],
  { schema, onWait }: ConnectOptions,
  namespace: string,
): Promise<ExaminedStore> {
  if (postgres === false) return { checks: [], unfinished: [] }
  if (!postgres) {
    const advice = `Set DATABASE_URL, or run the command in the folder of a running \`${SUGGESTIONS.develop()}\`. ${NOT_EXAMINED}`
    return { checks: [fail('postgres', { measured: 'no Postgres is configured', advice })], unfinished: [] }
  }
  let health: StoreHealth | undefined
  try {
    health = storeHealth(postgres, defined({ schema, onWait }))
    return await examine(health, schema ?? 'pawl', namespace)
  } catch (error) {
    const code = error instanceof PawlError ? `${error.code}: ` : ''
    const advice = `Sessions continue in the meantime, and their events are stored once Postgres is back. ${NOT_EXAMINED}`
    return { checks: [fail('postgres', { measured: `${code}${reasonOf(error)}`, advice })], unfinished: [] }
  } finally {
    await health?.close()
  }
}

async function examine(health: StoreHealth, schemaName: string, namespace: string): Promise<ExaminedStore> {
  const server = await health.server()
  const schema = judgeSchema(await health.schema(), schemaName, namespace)
  const checks = [judgePostgres(server), schema]
  if (schema.level === 'fail') return { checks, clock: server.clock, unfinished: [] }
  const [needs, storage, agents, failing, unverified, gates, webhooks, budgets, rules, unfinished] = await Promise.all([
    health.needs(),
    health.storage(),
    health.agents(),
    health.failing(),
    health.unverified(),
    health.gates(),
    health.webhooks(),
    health.budgets(),
    health.rules(),
    health.unfinished(),
  ])
  const now = Date.now()
  checks.push(judgeSessions(needs), judgeStorage(storage), judgeFeed(storage.heldUp), judgeWebhooks(webhooks), judgeAgents(agents, now))
  checks.push(judgeSteps('models', failing, now), judgeGates(gates), judgeSteps('tools', failing, now), judgeEffects(unverified))
  checks.push(judgeBudgets(budgets), judgeRules(rules.changed, rules.holding))
  return { checks, clock: server.clock, unfinished }
}
