// The commands that pawl suggests to people, by purpose. test/integration/suggestions.test.ts runs each command in the situation in which
// it is printed, and test/unit/suggestions.test.ts fails if any text of pawl names another command.
import type { RecoveryStrategy } from './agent-facts.ts'
import type { SessionError } from './state.ts'
import type { BudgetRaise } from './spending/spend.ts'

interface OfCall {
  session: string
  callId: string
}

const raiseOf = (session: string, { scope, maxUsd, maxTotalTokens }: BudgetRaise): string =>
  [
    `pawl raise ${session} --scope ${scope}`,
    ...(maxUsd === undefined ? [] : [`--max-usd ${maxUsd}`]),
    ...(maxTotalTokens === undefined ? [] : [`--max-tokens ${maxTotalTokens}`]),
  ].join(' ')

/** The commands, by purpose. `<…>`: placeholders. */
export const SUGGESTIONS = {
  // A deployment.
  develop: () => 'pawl dev <module>',
  startWorker: () => 'pawl worker <module>',
  examine: () => 'pawl doctor',
  migrate: () => 'pawl migrate',
  moveNamespace: (namespace: string) => `pawl migrate --namespace ${namespace}`,
  grantRole: () => 'pawl migrate --app-role <role>',
  listKeys: () => 'pawl keys list',
  listGates: () => 'pawl gates',
  listRules: () => 'pawl approvals rules',
  openGate: (account: string) => `pawl gates open '${account.replaceAll("'", "'\\''")}'`,
  listWorkers: () => 'pawl agents',
  createKey: () => 'pawl keys create <name>',
  listWebhooks: () => 'pawl webhooks list',
  createWebhook: () => 'pawl webhooks create <url>',
  resumeWebhook: (id: string) => `pawl webhooks resume ${id}`,
  redeliver: (id: string) => `pawl webhooks redeliver ${id}`,
  listErrors: (of: 'all' | 'model') => `pawl errors${of === 'model' ? ' --context model' : ''} --since 1h`,
  listSchedules: () => 'pawl schedules list',
  listBudgets: () => 'pawl budgets',
  // Sessions.
  listSessions: () => 'pawl status',
  show: (session: string) => `pawl show ${session}`,
  statusOf: (session?: string) => `pawl status ${session ?? '<session>'}`,
  chat: () => 'pawl chat <agent>',
  chatWithContext: (agent: string) => `pawl chat ${agent} --context '<JSON>'`,
  resumeChat: ({ agent, session }: { agent?: string; session: string }) =>
    `pawl chat ${agent === undefined ? '' : `${agent} `}--resume ${session}`,
  listCheckpoints: () => 'pawl checkpoints <session>',
  listArchived: (session: string) => `pawl messages ${session} --archived`,
  rollback: ({ session, checkpoint }: { session: string; checkpoint: number }) => `pawl rollback ${session} --checkpoint ${checkpoint}`,
  close: (session: string) => `pawl close ${session}`,
  interrupt: (session: string) => `pawl interrupt ${session}`,
  resume: (session: string) => `pawl resume ${session}`,
  scheduled: ({ session }: { session: string }) => `pawl scheduled ${session}`,
  unpause: (session: string) => `pawl unpause ${session}`,
  // Calls.
  listCalls: (session: string) => `pawl tools ${session}`,
  listPending: () => 'pawl pending',
  approve: ({ session, callId, digest }: OfCall & { digest?: string | undefined }) =>
    `pawl approve ${session} ${callId}${digest === undefined ? '' : ` --digest ${digest}`}`,
  deny: ({ session, callId, digest }: OfCall & { digest?: string | undefined }) =>
    `pawl deny ${session} ${callId}${digest === undefined ? '' : ` --digest ${digest}`}`,
  answer: ({ session, callId }: OfCall) => `pawl answer ${session} ${callId} '<answer as JSON>'`,
  resolveHappened: ({ session, callId }: OfCall) =>
    `pawl resolve ${session} ${callId} --happened '<what the tool would have returned, as JSON>'`,
  resolveNotHappened: ({ session, callId }: OfCall) => `pawl resolve ${session} ${callId} --not-happened`,
  resolveRetry: ({ session, callId }: OfCall) => `pawl resolve ${session} ${callId} --retry`,
  resolveSkip: ({ session, callId }: OfCall) => `pawl resolve ${session} ${callId} --skip`,
  // Failed runs.
  raise: ({ session, ...raise }: BudgetRaise & { session: string }) => raiseOf(session, raise),
  recover: ({ session, strategy }: { session: string; strategy?: RecoveryStrategy }) =>
    `pawl recover ${session}${strategy === undefined ? '' : ` --strategy ${strategy}`}`,
  recoverCalls: (session: string) => `pawl recover ${session} --keep '<calls>' --skip '<calls>' --redo '<calls>'`,
  preview: ({ session, run }: { session: string; run: number }) => `pawl run ${session} ${run}`,
} as const satisfies Record<string, (of: never) => string>

/** A way out of an error. */
export interface WayOut {
  command: string
  isSuggested: boolean
}

/** The commands that take a session out of its error, the best one first; none if it leaves the error automatically. */
export function waysOut(session: string, error: Pick<SessionError, 'code' | 'strategy' | 'options' | 'raise'>): WayOut[] {
  const { code, strategy, options = [], raise = [] } = error
  if (strategy === 'automatic') return []
  // Without a higher limit, or with the same context, any attempt would fail again.
  if (raise.length > 0) return [...raise.map((one) => suggested(SUGGESTIONS.raise({ session, ...one }))), abandoned(session)]
  if (code === 'invalid_context') return [suggested(SUGGESTIONS.recover({ session, strategy: 'abandon' }))]
  return options
    .filter((option) => option !== 'manual')
    .sort((one, other) => Number(other === strategy) - Number(one === strategy))
    .map((option) => ({
      command: option === 'selective' ? SUGGESTIONS.recoverCalls(session) : SUGGESTIONS.recover({ session, strategy: option }),
      isSuggested: option === strategy,
    }))
}

const suggested = (command: string): WayOut => ({ command, isSuggested: true })
const abandoned = (session: string): WayOut => ({
  command: SUGGESTIONS.recover({ session, strategy: 'abandon' }),
  isSuggested: false,
})
