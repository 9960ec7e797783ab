// How the doctor judges its measurements.
import { describe, expect, it } from 'vitest'
import {
  judgeAgents,
  judgeBacklog,
  judgeClocks,
  judgeEffects,
  judgePostgres,
  judgeSchema,
  judgeSessions,
  judgeSteps,
  judgeTemporal,
  judgeFeed,
  judgeGates,
  judgeStorage,
  judgeWebhooks,
  judgeWorkers,
  judgeWorkflows,
} from '../../../src/client/doctor/judgements.ts'
import type { HealthCheck } from '../../../src/client/doctor/report.ts'
import { judgeBudgets, judgeRules, judgeSchedules } from '../../../src/client/doctor/shared-judgements.ts'
import type { Poller, QueueFacts } from '../../../src/client/doctor/temporal-facts.ts'

const NOW = 10_000_000
const ALICE: Poller = { identity: 'pawl:host:1', build: 'pawl@1.0.0+aaaa', at: NOW - 1_000 }

/** The three queues, with these pollers. */
function polledBy(pollers: Poller[], ...others: Poller[][]): QueueFacts[] {
  const [activities = pollers, own = pollers] = others
  const queue = (name: string, type: QueueFacts['type'], by: Poller[]): QueueFacts => ({
    name,
    type,
    pollers: by,
    backlog: { tasks: 0, ageMs: 0 },
  })
  return [queue('q', 'workflow', pollers), queue('q', 'activity', activities), queue('q:pawl', 'activity', own)]
}

function waitingFor(ageMs: number, pollers = [ALICE]): QueueFacts[] {
  const [workflows, ...others] = polledBy(pollers)
  return workflows ? [{ ...workflows, backlog: { tasks: 3, ageMs } }, ...others] : []
}

/** Polled 40 s ago. */
const LATE = { ...ALICE, at: NOW - 40_000 }

const SCHEMA = { applied: 2, missing: [], breaking: [], newer: [], namespace: 'default' }
const SERVER = { version: '18.4', address: 'db:5432/app', roundTripMs: 1, clock: { theirs: 0, ours: 0 }, isReadOnly: false }
const NEEDS = {
  recovery: 0,
  resolution: 0,
  approval: 0,
  unpausing: 0,
  resuming: 0,
  worker: 0,
  automatic: 0,
  look: 0,
  answer: 0,
  plan: 0,
  nothing: 0,
}
const HOOK = {
  id: 'wh_1',
  host: 'hooks.example',
  paused: false,
  pausedBy: null,
  lastError: null,
  waiting: 0,
  waitingMs: 0,
  givenUp: 0,
  unattendedMs: 0,
}
const GATE = { key: 'anthropic 1f2e', forMs: 420_000, by: 'pawl:host:1', refusedAgoMs: 180_000, openedAgoMs: null }
const TEMPORAL = { version: '1.29.1', namespace: 'default', retentionMs: 30 * 86_400_000, roundTripMs: 1 }
const FAILING = {
  context: 'model',
  model: 'claude-x',
  agent: 'support',
  failed: 1,
  failedAt: NOW - 4_000,
  newest: 'overloaded_error: Busy.',
  isFault: true,
  succeeded: 9,
  succeededAt: NOW - 1_000,
}
const TOOL = { ...FAILING, context: 'tool:refund', model: null, agent: null, newest: 'ToolError: No such order.' }
const AGENT = { agent: 'support', unserved: 0, unservedSince: null, unservedReason: null, answeredAt: NOW - 5_000, active: 2 }
const QUIET = { quiet: { sessionIds: [], count: 0, longestMs: 0 }, strayEvents: 0, unprojected: 0, heldUp: null }
const HOLDER = { pid: 41, program: 'pawl', client: '10.0.0.3', openMs: 15_000, waitsFor: 'Lock: relation', blockedBy: [99] }

describe('the doctor', () => {
  it.each<[string, HealthCheck | undefined, HealthCheck['level'], RegExp]>([
    ['a Postgres that answers', judgePostgres(SERVER), 'ok', /18\.4 at db:5432\/app; 1 ms/],
    ['a replica', judgePostgres({ ...SERVER, isReadOnly: true }), 'fail', /accepts no writes.*primary/],
    [
      'a schema that is up to date',
      judgeSchema(SCHEMA, 'pawl', 'default'),
      'ok',
      /schema "pawl" of namespace "default", 2 migrations applied/,
    ],
    [
      'a schema without tables',
      judgeSchema({ ...SCHEMA, applied: 0, missing: ['0001'] }, 'pawl', 'default'),
      'fail',
      /no tables.*pawl migrate/,
    ],
    ['a schema that is behind', judgeSchema({ ...SCHEMA, missing: ['0003_x'] }, 'pawl', 'default'), 'fail', /lacks 0003_x.*pawl migrate/],
    ['a schema that no worker has claimed', judgeSchema({ ...SCHEMA, namespace: null }, 'pawl', 'default'), 'ok', /schema "pawl", 2/],
    [
      'a schema of another namespace',
      judgeSchema({ ...SCHEMA, namespace: 'staging' }, 'pawl', 'default'),
      'fail',
      /belong to the Temporal namespace "staging", not to "default".*pawl migrate --namespace default/,
    ],
    ['a schema of a newer release', judgeSchema({ ...SCHEMA, newer: ['0009_y'] }, 'pawl', 'default'), 'ok', /1 of a newer release/],
    [
      'a breaking migration',
      judgeSchema({ ...SCHEMA, newer: ['0009_y'], breaking: ['0009_y'] }, 'pawl', 'default'),
      'fail',
      /0009_y.*Update pawl. This release/,
    ],
    ['clocks that agree', judgeClocks({ Postgres: { theirs: NOW + 40, ours: NOW } }), 'ok', /Postgres \+40 ms/],
    ['a clock that is behind', judgeClocks({ Temporal: { theirs: NOW - 9_000, ours: NOW } }), 'warn', /Temporal -9 s.*NTP/],
    ['one orchestrator', judgeWorkers(polledBy([ALICE]), NOW), 'ok', /1 orchestrator: pawl:host:1 \(pawl@1\.0\.0\+aaaa\)/],
    ['no worker', judgeWorkers(polledBy([]), NOW), 'fail', /no worker polls "q" \(workflow tasks\).*pawl worker/],
    [
      'a worker that has stopped polling',
      judgeWorkers(polledBy([{ ...ALICE, at: NOW - 130_000 }]), NOW),
      'fail',
      /no worker polls.*the last to poll: pawl:host:1 2 min 10 s ago/,
    ],
    ['an idle worker, which polls once a minute', judgeWorkers(polledBy([LATE]), NOW), 'ok', /pawl:host:1 \(\S+\), last polled 40 s ago/],
    [
      'a worker that has not polled since a task waits',
      judgeWorkers(waitingFor(12_000, [LATE]), NOW),
      'fail',
      /no worker polls "q" \(workflow tasks\), .*the last to poll: pawl:host:1 40 s ago.*pawl worker/,
    ],
    ['a worker that has polled since', judgeWorkers(waitingFor(12_000), NOW), 'ok', /1 orchestrator/],
    [
      'a worker that may have been picking up a task when it was measured',
      judgeWorkers(waitingFor(3_000, [LATE]), NOW),
      'ok',
      /last polled 40 s ago/,
    ],
    [
      'a worker that stopped while another one polls',
      judgeWorkers(waitingFor(12_000, [LATE, { ...ALICE, identity: 'pawl:host:2' }]), NOW),
      'ok',
      /2 orchestrators: pawl:host:1 \(\S+\), last polled 40 s ago, pawl:host:2 \(\S+\) /,
    ],
    [
      'a worker that lost half of its polls',
      judgeWorkers(polledBy([ALICE], [ALICE], []), NOW),
      'fail',
      /no worker polls "q:pawl" \(activity tasks\)/,
    ],
    [
      'two builds',
      judgeWorkers(polledBy([ALICE, { ...ALICE, identity: 'pawl:host:2', build: 'pawl@1.1.0+bbbb' }]), NOW),
      'warn',
      /2 orchestrator.*2 builds/,
    ],
    ['a foreign poller', judgeWorkers(polledBy([ALICE], [ALICE, { ...ALICE, identity: '7@host' }]), NOW), 'warn', /and 7@host.*of its own/],
    ['no unverified tool', judgeEffects([]), 'ok', /every external tool .* has a verify/],
    ['an unverified tool', judgeEffects([{ tool: 'pay', agent: 'clerk', at: NOW }]), 'ok', /external, without verify: pay \(clerk\)/],
    ['no gate', judgeGates([]), 'ok', /no provider limits the rate/],
    ['a gate that opens soon', judgeGates([{ ...GATE, forMs: 2_000 }]), 'ok', /calls to anthropic 1f2e wait for another 2 s/],
    [
      'a gate that is shut for long',
      judgeGates([GATE, { ...GATE, key: 'other', forMs: 3_000 }]),
      'warn',
      /anthropic 1f2e wait for another 7 min \(refused 3 min ago\), calls to other .*`pawl gates open 'anthropic 1f2e'`/,
    ],
    ['an empty queue', judgeBacklog(polledBy([ALICE]), NOW), 'ok', /no task waits/],
    ['a moment of backlog', judgeBacklog(waitingFor(500), NOW), 'ok', /3 workflow tasks on "q"/],
    ['a backlog', judgeBacklog(waitingFor(20_000), NOW), 'warn', /the oldest for 20 s.*more workers/],
    [
      'a backlog that no worker has polled for',
      judgeBacklog(waitingFor(6_000, [LATE]), NOW),
      'warn',
      /the oldest for 6 s, and no worker has polled it for 40 s.*Start a worker \(`pawl worker <module>`\)/,
    ],
    ['a backlog that no worker polls', judgeBacklog(waitingFor(20_000, []), NOW), 'warn', /and no worker polls it/],
    ['an old backlog', judgeBacklog(waitingFor(90_000), NOW), 'fail', /the oldest for 1 min 30 s/],
    [
      'a server without figures',
      judgeBacklog([{ name: 'q', type: 'workflow', pollers: [], backlog: undefined }], NOW),
      'ok',
      /does not report/,
    ],
    ['agents that answer', judgeAgents([AGENT], NOW), 'ok', /support answered 5 s ago, 2 active/],
    ['an agent that was not asked', judgeAgents([{ ...AGENT, answeredAt: null }], NOW), 'ok', /no answer within the hour/],
    [
      'an agent that no worker serves',
      judgeAgents([{ ...AGENT, unserved: 3, unservedSince: NOW - 60_000 }, AGENT], NOW),
      'fail',
      /no worker serves support \(3 sessions, for 1 min\)/,
    ],
    [
      'a tool that no worker has any longer',
      judgeAgents([{ ...AGENT, unserved: 1, unservedSince: NOW - 60_000, unservedReason: 'No worker serves the tool "wire".' }], NOW),
      'fail',
      /support \(1 session, for 1 min: No worker serves the tool "wire"\.\).*the tool of an open call/,
    ],
    ['a long retention', judgeTemporal(TEMPORAL, 'a:1'), 'ok', /keeps histories for 30 d/],
    [
      'a retention of one day',
      judgeTemporal({ ...TEMPORAL, retentionMs: 86_400_000 }, 'a:1'),
      'warn',
      /for 1 d;.*temporal operator namespace update --namespace default --retention 720h/,
    ],
    ['models without failures', judgeSteps('models', [TOOL], NOW), 'ok', /no attempt failed within the hour/],
    ['a model that failed once, and has answered since', judgeSteps('models', [FAILING], NOW), 'ok', /claude-x for support 1 of 10/],
    [
      'a model whose newest attempt failed',
      judgeSteps('models', [{ ...FAILING, succeededAt: NOW - 9_000 }], NOW),
      'warn',
      /claude-x for support: 1 attempt failed within the hour, 9 succeeded; the last failed 4 s ago \(overloaded_error: Busy\.\).*fallback/,
    ],
    ['a model that fails as often as not', judgeSteps('models', [{ ...FAILING, failed: 9 }], NOW), 'warn', /9 attempt/],
    [
      'a model that only fails',
      judgeSteps('models', [{ ...FAILING, failed: 3, succeeded: 0, succeededAt: null }], NOW),
      'fail',
      /0 succeeded/,
    ],
    [
      'a tool that refused once',
      judgeSteps('tools', [{ ...TOOL, succeeded: 0, succeededAt: null, isFault: false }], NOW),
      'ok',
      /refund 1 of 1/,
    ],
    [
      'a tool that threw',
      judgeSteps('tools', [{ ...TOOL, succeeded: 0, succeededAt: null }, FAILING], NOW),
      'warn',
      /^refund: 1 attempt.*pawl errors --since 1h/,
    ],
    [
      'a tool whose worker died',
      judgeSteps('tools', [{ ...TOOL, succeeded: 0, succeededAt: null, newest: 'WorkerDied: Executor h:1 died.' }], NOW),
      'warn',
      /An executor died during these calls: its log says why/,
    ],
    ['sessions of which only one needs a person', judgeSessions({ ...NEEDS, nothing: 5, approval: 1 }), 'ok', /1 needs a person/],
    ['sessions that need a person', judgeSessions({ ...NEEDS, recovery: 2, resolution: 1 }), 'warn', /3 need a person.*pawl status/],
    [
      'workflows that make progress',
      judgeWorkflows({ open: 9, examined: 9, heldUp: [], ended: [] }),
      'ok',
      /9 open, 9 examined, none held up/,
    ],
    [
      'workflows that are held up or have ended',
      judgeWorkflows({ open: 9, examined: 9, heldUp: [{ sessionId: 's', waitsFor: 'a worker' }], ended: ['t'] }),
      'fail',
      /2 of 9 examined held up: s waits for a worker, the workflow of t has ended during the run.*pawl status/,
    ],
    ['a store that is written', judgeStorage(QUIET), 'ok', /no event was set aside/],
    [
      'a session that stores nothing',
      judgeStorage({ ...QUIET, quiet: { sessionIds: ['s'], count: 1, longestMs: 360_000 } }),
      'warn',
      /nothing stored for up to 6 min by 1 running session: s.*pawl status/,
    ],
    ['a feed that nothing holds up', judgeFeed(null), 'ok', /no transaction holds up the feed/],
    [
      'a feed that waits for a flush',
      judgeFeed({ forMs: 12_000, holders: [HOLDER] }),
      'warn',
      /for 12 s.*server process 41 \("pawl" at 10\.0\.0\.3\), open for 15 s, waiting for Lock: relation of process 99.*pg_terminate_backend/,
    ],
    ['a feed on a replica', judgeFeed({ forMs: 12_000, holders: [] }), 'warn', /a transaction on the primary.*from the primary/],
    ['no webhook', judgeWebhooks([]), 'ok', /none/],
    [
      'webhooks that deliver',
      judgeWebhooks([{ ...HOOK, waiting: 2, waitingMs: 4_000, lastError: 'HTTP 500' }]),
      'ok',
      /1; 2 notifications on/,
    ],
    [
      'a webhook that its target has paused',
      judgeWebhooks([
        { ...HOOK, paused: true, pausedBy: 'its target (410 Gone)', waiting: 3, waitingMs: 7_200_000, lastError: 'HTTP 410' },
      ]),
      'warn',
      /wh_1 \(hooks\.example\) is paused by its target \(410 Gone\), 3 notifications for up to 2 h: HTTP 410.*pawl webhooks resume wh_1/,
    ],
    [
      'a webhook whose target does not accept',
      judgeWebhooks([{ ...HOOK, waiting: 40, waitingMs: 600_000, lastError: 'HTTP 503' }]),
      'warn',
      /wh_1 \(hooks\.example\) waits, 40 notifications for up to 10 min: HTTP 503.*pawl webhooks list/,
    ],
    [
      'a webhook that has given up notifications',
      judgeWebhooks([{ ...HOOK, givenUp: 1 }]),
      'warn',
      /has given up 1 notification.*pawl webhooks redeliver wh_1/,
    ],
    [
      'a webhook to which no worker sends',
      judgeWebhooks([{ ...HOOK, unattendedMs: 300_000 }]),
      'warn',
      /has had no worker that sends for 5 min.*PAWL_WEBHOOKS/,
    ],
    ['no shared budget', judgeBudgets({ budgets: [], waiting: 0 }), 'ok', /^none/],
    [
      'a shared budget that is nearly spent',
      judgeBudgets({ budgets: [{ id: 'day tag a', spentUsd: 8.5, maxUsd: 10 }], waiting: 0 }),
      'ok',
      /1, none exhausted; nearly spent: day tag a \(8.50 of 10 USD\)/,
    ],
    [
      'a shared budget that is exhausted',
      judgeBudgets({ budgets: [{ id: 'day tag a', spentUsd: 9.9, maxUsd: 10 }], waiting: 1 }),
      'warn',
      /exhausted: day tag a \(9.90 of 10 USD\); 1 session waits for a budget.*`pawl budgets`/,
    ],
    ['standing approvals', judgeRules([], 2), 'ok', /2 standing approvals, none void/],
    [
      'a standing approval whose tool has changed',
      judgeRules([{ rule: 'ar_1', tool: 'pay', agent: 'a' }], 2),
      'warn',
      /void, because their tool has changed: ar_1 \(pay of a\).*pawl approvals rules/,
    ],
    [
      'an occurrence that has just begun',
      judgeSchedules({ failed: [], waiting: [{ schedule: 'weekly', at: NOW - 1_000 }] }, NOW),
      'ok',
      /every occurrence/,
    ],
    [
      'a schedule whose occurrences fail',
      judgeSchedules(
        {
          failed: [
            { schedule: 'weekly', at: NOW - 60_000 },
            { schedule: 'weekly', at: NOW - 90_000 },
          ],
          waiting: [],
        },
        NOW,
      ),
      'warn',
      /2 occurrences of the last day failed: weekly, the newest 1 min ago.*pawl schedules list/,
    ],
    [
      'a schedule whose occurrences wait for a worker',
      judgeSchedules({ failed: [], waiting: [{ schedule: 'weekly', at: NOW - 120_000 }] }, NOW),
      'warn',
      /1 occurrence wait.* for up to 2 min: weekly.*pawl worker/,
    ],
    ['stray events', judgeStorage({ ...QUIET, strayEvents: 2 }), 'warn', /2 events of other chains.*Report them/],
  ])('the doctor finds %s', (_, found, level, says) => {
    expect(found?.level).toBe(level)
    expect(`${found?.measured} ${found?.advice}`).toMatch(says)
    // A check has advice unless it is ok.
    expect(found?.advice === undefined).toBe(level === 'ok')
  })

  it('the doctor does not report on clocks that it could not read', () => {
    expect(judgeClocks({})).toBeUndefined()
  })
})
