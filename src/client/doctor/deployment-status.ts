// Which sessions of a deployment need a person or are stuck, from the side store and Temporal together. Reports what it could not check.
import type { Client } from '@temporalio/client'
import { defined } from '../../session/defined.ts'
import { durationText } from '../../session/duration.ts'
import { PawlError } from '../../session/errors.ts'
import { reasonOf } from '../../store/errors.ts'
import { concurrently } from '../../waiting/concurrently.ts'
import { inTime } from '../../waiting/in-time.ts'
import { counted } from '../../session/counted.ts'
import { waitPhrase } from '../../session/watching/wait-text.ts'
import type { SessionWait } from '../../session/watching/waits.ts'
import { openStore, type OverviewFilter, type StatusOverview, type Store } from '../../store/index.ts'
import { checkConnect, type ConnectOptions } from '../connect-options.ts'
import { temporalClient } from '../connecting.ts'
import { overviewFilter, type OverviewOptions } from '../queries/list-options.ts'
import { readReport } from '../session/status.ts'
import { isQuiet, pollingAt } from './judgements.ts'
import { endedAmong, heldUpAmong, type OpenSession, openSessions } from './open-sessions.ts'
import { findDeployment, type DeploymentPlace } from './place.ts'
import { type ShutGate, shutGatesIn } from './shut-gates.ts'
import { queueFacts } from './temporal-facts.ts'

/** Which sessions need a person or are stuck, as far as pawl can tell. */
export interface DeploymentStatus {
  /** The sessions that the side store knows; null if it does not answer, or there is none. */
  overview: StatusOverview | null
  /**
   * Open sessions that the side store does not know, or knows as closed: no worker has opened them or stored their events. Null if unknown.
   */
  unopened: UnopenedSession[] | null
  /**
   * What sessions wait for, by their ids: those among Temporal's newest open ones that cannot take their next step, and running ones that
   * have stored nothing for minutes, or that pawl is retrying.
   */
  heldUp: Record<string, string>
  /** The rate gates that are shut: the calls of those accounts wait. Empty if the side store does not answer. */
  gates: ShutGate[]
  /** Open sessions of the task queue, by Temporal's count; null if unknown. */
  open: number | null
  /** The task queue. */
  taskQueue: string
  /** How many worker processes poll the task queue; null if unknown. Without any, no session continues. */
  workers: number | null
  /**
   * When one of them last polled, in milliseconds since 1970, if that is 10 s ago or more; otherwise null. An idle worker polls once a
   * minute, and one that dies while idle is still counted for up to 75 s after its last poll, unless a task waits.
   */
  quietSince: number | null
  /** What could not be checked, and why, in sentences; empty if everything was checked. */
  notSeen: string[]
}

/** An open session that the side store does not know, or knows as closed: a message has reopened it. */
export interface UnopenedSession {
  /** Its id. */
  sessionId: string
  /** When it was opened. */
  since: Date
  /** What it waits for, such as `a worker on task queue "pawl"`. */
  waitsFor: string
}

/** How many of the newest open sessions are compared with the side store, and how many of them pawl asks Temporal about. */
const COMPARED = 1_000
const EXAMINED = 50
/** How many of the sessions that seem quiet are asked at a time what they wait for, and for how long in all. */
const ASKED_AT_ONCE = 20
const ASKING_MS = 8_000
/** A worker opens a session and stores its first events within this time. */
const OPENED_WITHIN_MS = 3_000

/**
 * The open sessions by what they need, as `pawl status` shows them. `pawl.overview` reads the side store alone; this also asks Temporal
 * which sessions wait for a worker, and which ones no worker has opened yet. Servers that do not answer are reported in `notSeen`.
 *
 * @throws InvalidOptionError `invalid_option`.
 */
export async function deploymentStatus(given: ConnectOptions = {}, list: OverviewOptions = {}): Promise<DeploymentStatus> {
  const filter = overviewFilter(list)
  const place = await findDeployment(checkConnect(given))
  const seen = await seenOnTemporal(place)
  try {
    return await withStored(place, filter, seen)
  } finally {
    if (!('error' in seen)) await seen.close()
  }
}

async function withStored(
  place: DeploymentPlace,
  filter: OverviewFilter,
  seen: DeploymentFacts | { error: unknown },
): Promise<DeploymentStatus> {
  const stored = await seenInStore(place, filter, seen)
  const { taskQueue } = place
  const isSeen = !('error' in seen)
  const { open, workers, quietSince } = isSeen ? seen : { open: null, workers: null, quietSince: null }
  const heldUp = { ...(isSeen ? Object.fromEntries(seen.heldUp) : {}), ...stored.heldUp }
  return { ...stored, heldUp, open, taskQueue, workers, quietSince, notSeen: [...notSeenOn(seen, filter), ...stored.notSeen] }
}

interface DeploymentFacts {
  open: number
  workers: number
  quietSince: number | null
  newest: OpenSession[]
  heldUp: ReadonlyMap<string, string>
  client: Client
  close(): Promise<void>
}

async function seenOnTemporal({ options, found, taskQueue }: DeploymentPlace): Promise<DeploymentFacts | { error: unknown }> {
  let opened: Awaited<ReturnType<typeof temporalClient>> | undefined
  try {
    opened = await temporalClient(options, found)
    return { ...(await askTemporal(opened.client, taskQueue)), ...opened }
  } catch (error) {
    await opened?.close()
    return { error }
  }
}

async function askTemporal(client: Client, taskQueue: string): Promise<Omit<DeploymentFacts, 'client' | 'close'>> {
  const [queues, { count, newest }] = await Promise.all([queueFacts(client, taskQueue), openSessions(client, taskQueue, COMPARED)])
  const [workflows] = pollingAt(queues, Date.now())
  const workers = workflows?.pollers.length ?? 0
  const polledAt = Math.max(0, ...(workflows?.pollers ?? []).map(({ at }) => at))
  const heldUp = await heldUpAmong(
    client,
    newest.slice(0, EXAMINED).map(({ sessionId }) => sessionId),
  )
  const quietSince = workers > 0 && isQuiet(polledAt, Date.now()) ? polledAt : null
  return { open: count, workers, quietSince, newest, heldUp: new Map(heldUp.map(({ sessionId, waitsFor }) => [sessionId, waitsFor])) }
}

type InStore = Pick<DeploymentStatus, 'overview' | 'unopened' | 'heldUp' | 'gates' | 'notSeen'>

async function seenInStore(
  { options, taskQueue, postgres }: DeploymentPlace,
  filter: OverviewFilter,
  seen: DeploymentFacts | { error: unknown },
): Promise<InStore> {
  if (!postgres) return { ...NOTHING, notSeen: [`${WITHOUT_STORE} DATABASE_URL is not set.`] }
  let store: Store | undefined
  try {
    store = openStore({ postgres, migrate: 'off', ...defined({ schema: options.schema, onWait: options.onWait }) })
    const { ended, notSeen } = await endedIn(store, filter, seen)
    const about = { ...filter, ended, ...defined({ heldUp: heldUpOf(seen) }) }
    const first = await store.lists.overview(about)
    const { quiet, notAsked } = 'error' in seen ? NOBODY_ASKED : await waitsAmong(store, seen.client, first)
    const later = quiet.flatMap(({ sessionId, wait }) => (isDueLater(wait) ? [sessionId] : []))
    const overview = later.length === 0 ? first : await store.lists.overview({ ...about, later })
    return {
      overview,
      unopened: await unopenedIn(store, filter, seen, taskQueue),
      heldUp: Object.fromEntries(quiet.map(({ sessionId, wait }) => [sessionId, waitText(wait)])),
      gates: await shutGatesIn(store),
      notSeen: [...notSeen, ...notAsked],
    }
  } catch (error) {
    return { ...NOTHING, notSeen: [`${WITHOUT_STORE} ${saidBy(error)}`] }
  } finally {
    await store?.close()
  }
}

const NOTHING = { overview: null, unopened: null, heldUp: {}, gates: [] } satisfies Partial<InStore>

interface QuietSession {
  sessionId: string
  wait: SessionWait
}

interface QuietSessions {
  quiet: QuietSession[]
  /** How many were not asked, in a sentence; empty if all were. */
  notAsked: string[]
}

const NOBODY_ASKED: QuietSessions = { quiet: [], notAsked: [] }

/**
 * What running sessions wait for that have stored nothing for minutes, or that are being retried. Only their workflows know, and each may
 * take seconds to answer.
 */
async function waitsAmong(store: Store, client: Client, { items, needs }: StatusOverview): Promise<QuietSessions> {
  const listed = items.filter((item) => item.status === 'running' && (item.needs === 'look' || item.needs === 'automatic'))
  const quiet: QuietSession[] = []
  let asked = 0
  const until = performance.now() + ASKING_MS
  await concurrently(listed, ASKED_AT_ONCE, async ({ sessionId }) => {
    const leftMs = until - performance.now()
    if (leftMs <= 0) return
    const report = await inTime(
      readReport({ sessionId, client, store }).catch(() => null),
      leftMs,
    )
    if (report === undefined) return
    asked += 1
    const [wait] = report?.status === 'running' ? report.waitsFor : []
    if (wait) quiet.push({ sessionId, wait })
  })
  const all = listed.length + Math.max(0, needs.look - items.filter((item) => item.needs === 'look').length)
  const text = `Of ${counted(all, 'quiet running session')}, only ${asked} said what they wait for: the others may be waiting for a long call, or continue by themselves.`
  return { quiet, notAsked: asked < all ? [text] : [] }
}

/** Whether the session continues by itself: at a known time, or when it is its turn at a limit. */
function isDueLater({ for: who, until = 0 }: SessionWait): boolean {
  return who === 'limit' || ((who === 'gate' || who === 'next_attempt' || who === 'verification') && until > Date.now())
}

function waitText(wait: SessionWait): string {
  const { reason, worker, attempt = 1, until = 0 } = wait
  const now = Date.now()
  const time = new Date(until).toISOString().replace(/\.\d+Z$/, 'Z')
  const details = [
    // The name of a gate says why.
    wait.for !== 'gate' && reason,
    until > now && `${wait.for === 'next_attempt' ? 'at' : 'until'} ${time} (in ${durationText(until - now)})`,
    attempt > 1 && `attempt ${attempt}`,
    worker && `on ${worker}`,
  ]
  return [waitPhrase(wait), ...details].filter(Boolean).join(', ')
}

/** Sessions that are unfinished in the store but not in Temporal's list of open ones, and whose workflow has ended. */
async function endedIn(
  store: Store,
  { agent, idPrefix }: OverviewFilter,
  seen: DeploymentFacts | { error: unknown },
): Promise<{ ended: string[]; notSeen: string[] }> {
  if ('error' in seen) return { ended: [], notSeen: [] }
  const besides = seen.newest.map(({ sessionId }) => sessionId)
  const { sessionIds, count } = await store.lists.unfinished({ besides, limit: EXAMINED, ...defined({ agent, idPrefix }) })
  const more = `Of ${count} other unfinished sessions, only the ${sessionIds.length} that have stored nothing for the longest time were looked up in Temporal.`
  return { ended: await endedAmong(seen.client, sessionIds), notSeen: count > sessionIds.length ? [more] : [] }
}

/** Without Temporal, or without a worker, no running session continues. */
function heldUpOf(seen: DeploymentFacts | { error: unknown }): OverviewFilter['heldUp'] {
  if ('error' in seen) return { running: 'all', any: [] }
  return { running: seen.workers > 0 ? [] : seen.newest.map(({ sessionId }) => sessionId), any: [...seen.heldUp.keys()] }
}

async function unopenedIn(
  store: Store,
  { agent, idPrefix = '' }: OverviewFilter,
  seen: DeploymentFacts | { error: unknown },
  taskQueue: string,
): Promise<UnopenedSession[] | null> {
  if ('error' in seen || agent !== undefined) return null
  const before = Date.now() - OPENED_WITHIN_MS
  const old = seen.newest.filter(({ sessionId, startedAt }) => startedAt.getTime() < before && sessionId.startsWith(idPrefix))
  const known = new Set(await store.lists.storedAmong(old))
  const worker = seen.workers > 0 ? 'its first events to be stored' : `a worker on task queue "${taskQueue}"`
  return old.flatMap(({ sessionId, startedAt: since }) =>
    known.has(sessionId) ? [] : { sessionId, since, waitsFor: seen.heldUp.get(sessionId) ?? worker },
  )
}

const WITHOUT_STORE = 'Could not check which sessions need a person or are in error:'

function notSeenOn(seen: DeploymentFacts | { error: unknown }, { agent }: OverviewFilter): string[] {
  if ('error' in seen) {
    return [
      `Could not check which sessions wait for a worker, or which ones no worker has opened: ${saidBy(seen.error)} No session continues until Temporal answers.`,
    ]
  }
  const { open, newest } = seen
  return [
    ...(open > newest.length ? [`Only the newest ${newest.length} of ${open} open sessions were compared with the side store.`] : []),
    ...(agent === undefined ? [] : ['Sessions that no worker has opened yet are not shown, because their agent is not known.']),
  ]
}

function saidBy(error: unknown): string {
  return `${error instanceof PawlError ? `${error.code}: ` : ''}${reasonOf(error)}`
}
