// Turns the doctor's measurements into findings. Pure, so that every finding can be tested.
import { durationText } from '../../session/duration.ts'
import type {
  AgentActivity,
  FailingStep,
  SchemaFacts,
  ServerFacts,
  StorageFacts,
  UnverifiedCalls,
  WebhookFacts,
} from '../../store/maintenance/health.ts'
import type { FeedHoldUp } from '../../store/postgres/commit-order.ts'
import { whyHeldUp } from '../../store/read/held-up.ts'
import type { StatusOverview } from '../../store/sums.ts'
import type { StoredGate } from '../../store/write/gates.ts'
import type { HeldUpSession } from './open-sessions.ts'
import { fail, type HealthCheck, ok, warn } from './report.ts'
import type { Poller, QueueFacts, TemporalFacts } from './temporal-facts.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { counted } from '../../session/counted.ts'

/** What Temporal says about the sessions: how many are open, how many were examined, and which of those do not continue. */
export interface WorkflowFacts {
  open: number
  examined: number
  heldUp: readonly HeldUpSession[]
  /** The sessions whose workflow has ended although they are unfinished in the store. */
  ended: readonly string[]
}

/** The time on another clock, and the local time when it was read. */
export interface ClockReading {
  theirs: number
  ours: number
}

/** A poll lasts a minute at most, so a process that has not polled for longer has stopped. The server forgets it after five minutes. */
const POLLS_WITHIN_MS = 75_000
/** A worker picks up a task within milliseconds; the server may report its age late. */
const UNATTENDED_MS = 5_000
const POLLED_BEFORE_MS = 2_000
const SAID_FROM_MS = 10_000
/** Expiries and event times come from the server; people and caches on this machine compare them with the local time. */
const SKEW_MS = 2_000
const BACKLOG_MS = { warn: 10_000, fail: 60_000 }
/** docs/workers.md recommends a month; a week outlasts an outage over holidays. */
const RETENTION_MS = 7 * 24 * 60 * 60_000
/** Chance rarely causes this many failed attempts. */
const MANY_FAILURES = 3
/** Providers often ask for a few seconds. */
const LONG_GATE_MS = 60_000
/** A sender is renewed or replaced within seconds, and a target may be restarted. */
const UNSENT_MS = { unattended: 60_000, waiting: 5 * 60_000 }
/** How many names one line lists. */
const NAMED = 5

/** Temporal itself. */
export function judgeTemporal({ version, namespace, retentionMs, roundTripMs }: TemporalFacts, address: string): HealthCheck {
  const measured = `server ${version} at ${address}, namespace "${namespace}" keeps histories for ${durationText(retentionMs)}; ${roundTripMs} ms`
  const details = { version, namespace, retentionMs, roundTripMs }
  if (retentionMs >= RETENTION_MS) return ok('temporal', { measured, details })
  return warn('temporal', {
    measured,
    advice: `Keep them for 30 days: \`temporal operator namespace update --namespace ${namespace} --retention 720h\`. After an outage or a restored backup, only the history of a closed session has the events that Postgres lacks.`,
    details,
  })
}

/** Postgres itself. */
export function judgePostgres({ version, address, roundTripMs, isReadOnly }: ServerFacts): HealthCheck {
  const measured = `server ${version} at ${address}; ${roundTripMs} ms`
  const details = { version, roundTripMs, isReadOnly }
  if (!isReadOnly) return ok('postgres', { measured, details })
  return fail('postgres', {
    measured: `${measured}, and it accepts no writes`,
    advice: 'Point DATABASE_URL at the primary: workers cannot store events on a replica. Sessions continue in the meantime.',
    details,
  })
}

/** The tables, and whose sessions they hold. `ours`: the Temporal namespace of this deployment. */
export function judgeSchema({ applied, missing, breaking, newer, namespace }: SchemaFacts, name: string, ours: string): HealthCheck {
  const details = { applied, missing, breaking, newer, namespace }
  if (breaking.length > 0) {
    const measured = `schema "${name}" was migrated by a newer release (${breaking.join(', ')})`
    return fail('schema', { measured, advice: 'Update pawl. This release must not write to that schema.', details })
  }
  if (applied === 0) {
    const measured = `schema "${name}" has no tables`
    return fail('schema', { measured, advice: `Run \`${SUGGESTIONS.migrate()}\`, or start a worker, which creates them.`, details })
  }
  if (missing.length > 0) {
    return fail('schema', {
      measured: `schema "${name}" lacks ${missing.join(', ')}`,
      advice: `Run \`${SUGGESTIONS.migrate()}\`.`,
      details,
    })
  }
  if (namespace !== null && namespace !== ours) {
    return fail('schema', {
      measured: `the sessions in schema "${name}" belong to the Temporal namespace "${namespace}", not to "${ours}"`,
      advice: `Use another Postgres schema for "${ours}". If it has replaced "${namespace}", run \`${SUGGESTIONS.moveNamespace(ours)}\`.`,
      details,
    })
  }
  const newerText = newer.length === 0 ? '' : `; ${newer.length} of a newer release`
  return ok('schema', {
    measured: `schema "${name}"${namespace === null ? '' : ` of namespace "${namespace}"`}, ${counted(applied, 'migration')} applied, none missing${newerText}`,
    details,
  })
}

/** The servers' clocks compared with this machine's. */
export function judgeClocks(clocks: Partial<Record<'Postgres' | 'Temporal', ClockReading>>): HealthCheck | undefined {
  const skews = Object.entries(clocks).map(([name, { theirs, ours }]) => ({ name, skewMs: Math.round(theirs - ours) }))
  if (skews.length === 0) return undefined
  const texts = skews.map(({ name, skewMs }) => `${name} ${skewMs < 0 ? '-' : '+'}${durationText(Math.abs(skewMs))}`)
  const measured = `against this machine: ${texts.join(', ')}`
  const details = Object.fromEntries(skews.map(({ name, skewMs }) => [name, skewMs]))
  if (skews.every(({ skewMs }) => Math.abs(skewMs) < SKEW_MS)) return ok('clocks', { measured, details })
  return warn('clocks', {
    measured,
    advice: 'Synchronise the clocks (NTP). Sessions do not depend on them, but times in events, expiries and reports are off by that much.',
    details,
  })
}

/**
 * The queues, each with only the pollers that still poll, as far as that is known. `now`: the server's time. While a workflow task waits, a
 * process that has not polled for one since then is gone or frozen, because workflow tasks never keep a worker busy for long.
 */
export function pollingAt(queues: readonly QueueFacts[], now: number): QueueFacts[] {
  const unattended = queues.filter((queue) => queue.type === 'workflow' && isUnattended(queue, now))
  const gone = new Set(unattended.flatMap(({ pollers }) => pollers.map(({ identity }) => identity)))
  return queues.map((queue) => ({
    ...queue,
    pollers: queue.pollers.filter(({ identity, at }) => now - at <= POLLS_WITHIN_MS && !gone.has(identity)),
  }))
}

/** Whether a task has waited for some time and no process has polled since: a poll that was open, or came later, would have received it. */
function isUnattended({ pollers, backlog }: QueueFacts, now: number): boolean {
  if (!backlog || backlog.tasks === 0 || backlog.ageMs < UNATTENDED_MS) return false
  return pollers.every(({ at }) => at < now - backlog.ageMs - POLLED_BEFORE_MS)
}

/** Whether a process has not polled for so long that a reader should know: an idle one polls once a minute, and may have died since. */
export const isQuiet = (at: number, now: number): boolean => now - at >= SAID_FROM_MS

function lastPollText({ at }: Poller, now: number): string {
  return isQuiet(at, now) ? `, last polled ${durationText(now - at)} ago` : ''
}

/** The workers that poll the task queues. `now`: the server's time. */
export function judgeWorkers(queues: readonly QueueFacts[], now: number): HealthCheck {
  const alive = pollingAt(queues, now)
  const pollers = newestPolls(alive.flatMap((queue) => queue.pollers))
  const [workflows] = alive
  const builds = [...new Set((workflows?.pollers ?? []).map(({ build }) => build))].sort()
  const strangers = pollers.filter(({ identity }) => !identity.startsWith('pawl:')).map(({ identity }) => identity)
  const details = {
    orchestrators: (workflows?.pollers ?? []).map(({ identity, build, at }) => ({ identity, build, at })),
    builds,
    strangers,
  }
  const unpolled = alive.filter((queue) => queue.pollers.length === 0).map(({ name, type }) => `"${name}" (${type} tasks)`)
  if (unpolled.length > 0) {
    const gone = newestPolls(queues.flatMap((queue) => queue.pollers)).map(
      ({ identity, at }) => `${identity} ${durationText(now - at)} ago`,
    )
    return fail('workers', {
      measured: `no worker polls ${unpolled.join(', ')}${gone.length === 0 ? '' : `; the last to poll: ${named(gone)}`}`,
      advice: `Start one (\`${SUGGESTIONS.startWorker()}\`), or check the task queue's name. Messages are kept in the meantime.`,
      details,
    })
  }
  const measured = `${counted(details.orchestrators.length, 'orchestrator')}: ${named((workflows?.pollers ?? []).map((poller) => `${poller.identity} (${poller.build})${lastPollText(poller, now)}`))}`
  if (strangers.length > 0) {
    const advice = 'Another program polls this task queue. Give that program a task queue of its own.'
    return warn('workers', { measured: `${measured}; and ${named(strangers)}`, advice, details })
  }
  if (builds.length < 2) return ok('workers', { measured, details })
  return warn('workers', {
    measured,
    advice: `${builds.length} builds have polled within a minute. Wait for the deploy to end, or stop the old workers.`,
    details,
  })
}

/** The tasks that wait in the task queues. */
export function judgeBacklog(queues: readonly QueueFacts[], now: number): HealthCheck {
  const known = queues.flatMap((queue) =>
    queue.backlog ? [{ name: queue.name, type: queue.type, unattended: unattendedText(queue, now), ...queue.backlog }] : [],
  )
  const details = known.map(({ name, type, tasks, ageMs }) => ({ name, type, tasks, ageMs }))
  if (known.length === 0) return ok('backlog', { measured: 'this Temporal server does not report a backlog' })
  const waiting = known.filter(({ tasks }) => tasks > 0)
  const oldest = Math.max(0, ...waiting.map(({ ageMs }) => ageMs))
  const texts = waiting.map(
    ({ name, type, tasks, ageMs, unattended }) =>
      `${counted(tasks, `${type} task`)} on "${name}", the oldest for ${durationText(ageMs)}${unattended}`,
  )
  const measured = waiting.length === 0 ? 'no task waits for a worker' : texts.join('; ')
  const isPolled = waiting.every(({ unattended }) => unattended === '')
  if (oldest < BACKLOG_MS.warn && isPolled) return ok('backlog', { measured, details })
  const advice = isPolled
    ? 'Start more workers, or check what keeps the current ones busy.'
    : `Start a worker (\`${SUGGESTIONS.startWorker()}\`) if none is running. A running one is frozen, or fully occupied by other calls.`
  return (oldest < BACKLOG_MS.fail ? warn : fail)('backlog', { measured, advice, details })
}

/** Says that no process has polled since the oldest task was queued; empty if one has. */
function unattendedText(queue: QueueFacts, now: number): string {
  if (!isUnattended(queue, now)) return ''
  const last = Math.max(...queue.pollers.map(({ at }) => at))
  return queue.pollers.length === 0 ? ', and no worker polls it' : `, and no worker has polled it for ${durationText(now - last)}`
}

/** Which agents are served, judging by their sessions. `now`: the local time. */
export function judgeAgents(agents: readonly AgentActivity[], now: number): HealthCheck {
  const details = agents.map((agent) => ({ ...agent }))
  const unserved = agents.filter((agent) => agent.unserved > 0)
  if (unserved.length > 0) {
    const texts = unserved.map(
      ({ agent, unserved: count, unservedSince, unservedReason }) =>
        `${agent} (${counted(count, 'session')}, for ${durationText(now - (unservedSince ?? now))}${unservedReason === null ? '' : `: ${unservedReason}`})`,
    )
    const advice =
      'Start a worker whose module has what the sessions lack: the agent, or the tool of an open call, as the build before had it. They then continue automatically.'
    return fail('agents', { measured: `no worker serves ${named(texts)}`, advice, details })
  }
  if (agents.length === 0) return ok('agents', { measured: 'no session is active, and no model has answered within the hour' })
  const texts = agents.map(({ agent, answeredAt, active }) => {
    const answered = answeredAt === null ? 'no answer within the hour' : `answered ${durationText(now - answeredAt)} ago`
    return `${agent} ${answered}, ${active} active`
  })
  return ok('agents', { measured: named(texts), details })
}

/** Models, or tools, by their attempts of the last hour. `now`: the local time. */
export function judgeSteps(check: 'models' | 'tools', all: readonly FailingStep[], now: number): HealthCheck {
  const steps = all.filter(({ context }) => context.startsWith('tool:') === (check === 'tools'))
  const details = steps.map((step) => ({ ...step }))
  const failing = steps.filter(isFailing)
  if (failing.length === 0) {
    const passing = steps.map((step) => `${nameOf(step)} ${step.failed} of ${step.failed + step.succeeded}`)
    const measured = passing.length === 0 ? 'no attempt failed within the hour' : `failed attempts within the hour: ${named(passing)}`
    return ok(check, { measured, details })
  }
  const level = failing.some(({ failed, succeeded }) => succeeded === 0 && failed >= MANY_FAILURES) ? fail : warn
  return level(check, {
    measured: failing
      .map((step) => failureText(step, now))
      .slice(0, NAMED)
      .join('; '),
    advice:
      check === 'models'
        ? `Check the provider and its account, or give the agents a \`fallback\`. \`${SUGGESTIONS.listErrors('model')}\` lists the attempts.`
        : toolAdvice(failing),
    details,
  })
}

function toolAdvice(failing: readonly FailingStep[]): string {
  const died = failing.every(({ newest }) => newest.startsWith('WorkerDied'))
  const lists = `\`${SUGGESTIONS.listErrors('all')}\` lists the attempts`
  if (died) return `An executor died during these calls: its log says why. ${lists}.`
  return `Check what the tools call. ${lists}, and \`--json\` has their stack traces.`
}

/** Whether the newest attempt failed, or most attempts did. A single ToolError may be an ordinary answer, such as an unknown order. */
function isFailing({ failed, failedAt, succeeded, succeededAt, isFault, context }: FailingStep): boolean {
  if (failed >= MANY_FAILURES && failed >= succeeded) return true
  return failedAt > (succeededAt ?? 0) && (isFault || failed >= MANY_FAILURES || !context.startsWith('tool:'))
}

function nameOf({ context, model, agent }: FailingStep): string {
  if (context.startsWith('tool:')) return context.slice('tool:'.length)
  const of = agent === null ? [] : [`for ${agent}`]
  return [model ?? 'the choice of a model', ...of, ...(context === 'compaction' ? ['(compaction)'] : [])].join(' ')
}

function failureText(step: FailingStep, now: number): string {
  const { failed, succeeded, failedAt, newest } = step
  const ago = durationText(Math.max(0, now - failedAt))
  return `${nameOf(step)}: ${counted(failed, 'attempt')} failed within the hour, ${succeeded} succeeded; the last failed ${ago} ago (${newest})`
}

/** The accounts whose calls wait because their provider limits the rate, longest wait first. */
export function judgeGates(gates: readonly StoredGate[]): HealthCheck {
  const details = gates.map(({ key: account, forMs, refusedAgoMs, by }) => ({ account, forMs, refusedAgoMs, by }))
  const [longest] = gates
  if (!longest) return ok('gates', { measured: 'no provider limits the rate', details })
  const texts = gates.map(
    ({ key, forMs, refusedAgoMs }) => `calls to ${key} wait for another ${durationText(forMs)} (refused ${durationText(refusedAgoMs)} ago)`,
  )
  const measured = named(texts)
  if (longest.forMs < LONG_GATE_MS) return ok('gates', { measured, details })
  const advice = `The sessions then continue automatically. If the provider accepts calls sooner: \`${SUGGESTIONS.openGate(longest.key)}\`.`
  return warn('gates', { measured, advice, details })
}

/** The tools for whose interrupted calls only a person can answer. That is a decision of their authors, so it is never a warning. */
export function judgeEffects(unverified: readonly UnverifiedCalls[]): HealthCheck {
  const details = unverified.map((one) => ({ ...one }))
  if (unverified.length === 0) return ok('effects', { measured: 'every external tool that was called within a week has a verify', details })
  const measured = `external, without verify: ${named(unverified.map(({ tool, agent }) => `${tool} (${agent})`))}`
  return ok('effects', { measured, details })
}

/** What sessions need. */
export function judgeSessions(needs: StatusOverview['needs']): HealthCheck {
  const people = needs.recovery + needs.resolution + needs.approval + needs.unpausing
  const measured = `${counted(people, 'needs a person', 'need a person')} (${needs.recovery} to recover, ${needs.resolution} to resolve, ${needs.approval} to approve, ${needs.unpausing} paused), ${needs.automatic} in an error that ends by itself`
  const details = { ...needs }
  if (needs.recovery + needs.resolution + needs.automatic === 0) return ok('sessions', { measured, details })
  return warn('sessions', { measured, advice: `\`${SUGGESTIONS.listSessions()}\` lists them.`, details })
}

/** Open sessions whose workflow is stuck. */
export function judgeWorkflows({ open, examined, heldUp, ended }: WorkflowFacts): HealthCheck {
  const details = { open, examined, heldUp: heldUp.map((one) => ({ ...one })), ended: [...ended] }
  const stuck = [
    ...heldUp.map(({ sessionId, waitsFor }) => `${sessionId} waits for ${waitsFor}`),
    ...ended.map((sessionId) => `the workflow of ${sessionId} has ended during the run`),
  ]
  if (stuck.length === 0) return ok('workflows', { measured: `${open} open, ${examined} examined, none held up`, details })
  return fail('workflows', {
    measured: `${open} open, ${stuck.length} of ${examined} examined held up: ${named(stuck)}`,
    advice: heldUp.some(({ waitsFor }) => waitsFor.startsWith('a worker'))
      ? `Start a worker whose module has the missing agent or tool. If one is running, its log says why it does not accept them; \`${SUGGESTIONS.statusOf()}\` names what is missing.`
      : `Run \`${SUGGESTIONS.statusOf()}\` for details. If a step keeps failing, the worker logs say why.`,
    details,
  })
}

/** Whether workers store the events of running sessions. */
export function judgeStorage({ quiet, strayEvents, unprojected }: StorageFacts): HealthCheck {
  const parts = [
    ...(quiet.count > 0
      ? [
          `nothing stored for up to ${durationText(quiet.longestMs)} by ${counted(quiet.count, 'running session')}: ${named(quiet.sessionIds)}`,
        ]
      : []),
    ...(strayEvents > 0 ? [`${counted(strayEvents, 'event')} of other chains of executions in stray_events`] : []),
    ...(unprojected > 0 ? [`${counted(unprojected, 'event')} of the last day without rows (events.adjusted)`] : []),
  ]
  const details = { quiet: { ...quiet }, strayEvents, unprojected }
  if (parts.length === 0)
    return ok('storage', { measured: 'no running session has been quiet for 5 minutes, no event was set aside', details })
  const advice =
    quiet.count > 0
      ? `\`${SUGGESTIONS.statusOf()}\` says whether the cause is a long call, a shut rate gate, a missing worker or a failing flush.`
      : 'Report them as a bug.'
  return warn('storage', { measured: parts.join('; '), advice, details })
}

/** Whether stored events reach the readers of the feed. */
export function judgeFeed(heldUp: FeedHoldUp | null): HealthCheck {
  if (!heldUp) return ok('feed', { measured: 'no transaction holds up the feed', details: null })
  const details = { forMs: heldUp.forMs, holders: heldUp.holders.map((holder) => ({ ...holder })) }
  const advice =
    heldUp.holders.length === 0
      ? 'End the long transactions on the primary, or read the feed from the primary, where only flushes hold it up.'
      : 'Postgres ends a frozen flush after 20 s. If it waits for another process, end that one: `select pg_terminate_backend(<process>)`.'
  return warn('feed', { measured: whyHeldUp(heldUp), advice, details })
}

/** Webhooks whose targets do not get what happens: paused ones, failing ones, and those to which no worker sends. */
export function judgeWebhooks(webhooks: readonly WebhookFacts[]): HealthCheck {
  const details = webhooks.map((webhook) => ({ ...webhook }))
  const troubles = webhooks.flatMap((webhook) => {
    const [trouble] = troublesOf(webhook)
    return trouble ? [{ ...webhook, ...trouble }] : []
  })
  const [first] = troubles
  if (!first) {
    const waiting = webhooks.reduce((sum, one) => sum + one.waiting, 0)
    const measured = webhooks.length === 0 ? 'none' : `${webhooks.length}; ${counted(waiting, 'notification')} on the way`
    return ok('webhooks', { measured, details })
  }
  const measured = named(troubles.map(({ id, host, what }) => `${id} (${host}) ${what}`))
  return warn('webhooks', { measured, advice: first.advice, details })
}

/** What is wrong with a webhook, most serious first, and what to do. */
function troublesOf(webhook: WebhookFacts): { what: string; advice: string }[] {
  const { id, paused, pausedBy, lastError, waiting, waitingMs, givenUp, unattendedMs } = webhook
  const waits = waiting === 0 ? '' : `, ${counted(waiting, 'notification')} for up to ${durationText(waitingMs)}`
  const why = lastError === null ? '' : `: ${lastError}`
  if (paused) {
    const what = `is paused${pausedBy === null ? '' : ` by ${pausedBy}`}${waits}${why}`
    return [{ what, advice: `What happens meanwhile is kept, and sent once you resume it: \`${SUGGESTIONS.resumeWebhook(id)}\`.` }]
  }
  const troubles: { what: string; advice: string }[] = []
  if (unattendedMs > UNSENT_MS.unattended) {
    const advice =
      'Start a worker, or check why the running ones do not send: PAWL_WEBHOOKS=off turns it off, and their logs name other causes.'
    troubles.push({ what: `has had no worker that sends for ${durationText(unattendedMs)}${waits}`, advice })
  }
  if (waiting > 0 && waitingMs > UNSENT_MS.waiting) {
    const advice = `Check its target. pawl repeats requests for three days. \`${SUGGESTIONS.listWebhooks()}\` shows the state of each webhook.`
    troubles.push({ what: `waits${waits}${why}`, advice })
  }
  if (givenUp > 0) {
    const advice = `Once its target accepts requests again: \`${SUGGESTIONS.redeliver(id)}\`.`
    troubles.push({ what: `has given up ${counted(givenUp, 'notification')}${why}`, advice })
  }
  return troubles
}

/** The newest poll of each process. */
export function newestPolls(pollers: readonly Poller[]): Poller[] {
  const newest = new Map<string, Poller>()
  for (const poller of pollers) {
    const known = newest.get(poller.identity)
    if (!known || known.at < poller.at) newest.set(poller.identity, poller)
  }
  return [...newest.values()]
}

/** The first names of a list. */
export function named(names: readonly string[]): string {
  return names.length > NAMED ? `${names.slice(0, NAMED).join(', ')} and ${names.length - NAMED} more` : names.join(', ')
}
