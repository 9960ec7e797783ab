// Recovers what executions did not store before they were ended: their events or, if they never opened or no worker can replay them, the
// requests that they received and the results of their activities.
import { type Client, isGrpcServiceError, QueryNotRegisteredError } from '@temporalio/client'
import { getGrpcStatusDetails } from '@temporalio/client/lib/helpers.js'
import type { Logger } from '../agent/tool.ts'
import { queryEvents } from '../connect/session-queries.ts'
import type { Unreplayable } from '../session/events.ts'
import { newestAnswered } from '../session/protocol/answered.ts'
import type { AnsweredRequest, EventsPage } from '../session/protocol/protocol.ts'
import { defined } from '../session/defined.ts'
import { isErased, isForeignPast, StoreError } from '../store/errors.ts'
import type { StoredHead } from '../store/rows.ts'
import type { Store } from '../store/store.ts'
import { StaleWatermark } from '../calls/errors.ts'
import type { EventsInStore } from './already-stored.ts'
import { answeredBy, cutOffBefore } from './earlier-executions.ts'
import { CannotLoad } from './loading.ts'
import type { SessionReader } from './session-reader.ts'
import type { RepeatedRequests, Succession } from '../calls/activities.ts'
import { endOf, hasLoaded, readAnswered, readForNew, readLeft, readRepeated, readUnstored, type Reset } from './raw-histories.ts'

/** A query of a history of maximum size takes some seconds, because the history is replayed. */
const QUERY_TIMEOUT_MS = 30_000
/** Shorter than the time after which `loading` reports what it waits for. */
const BROKEN_QUERY_TIMEOUT_MS = 4_000

const NOTHING = { seq: 0, digest: '' }

interface Needs {
  store: Store
  reader: SessionReader
  client: Client
  logger: Logger
  /** A person decided to continue without the events of unreadable executions. */
  abandoned: boolean
}

/** Executions that precede this one, in addition to those that the store and the server know. */
interface NamedExecutions {
  /** The execution that was reset. */
  after?: string
  /** The execution that no worker could replay. */
  unreplayable?: Unreplayable
}

/**
 * Stores the unstored events of the reset execution, if there is one, and of executions before `own`, if they continue the stored ones. For
 * an execution that no worker can replay, returns what it received and what its activities returned.
 * @throws CannotLoad `execution_unreadable`; StoreError.
 */
export async function storeCutOffExecutions(sessionId: string, own: string, needs: Needs, named: NamedExecutions): Promise<Succession> {
  const succession: Succession = {}
  if (named.after !== undefined) {
    const { requests = [], ...rest } = await storeEventsOf(sessionId, named.after, needs)
    Object.assign(succession, rest)
    // The server has sent the requests again, but signals before updates.
    if (rest.unreplayable && requests.length > 0) succession.requests = requests
  }
  const { executionId: last, erasedAt } = await needs.store.lastExecution(sessionId)
  const { cutOff, closed } = await cutOffBefore(sessionId, { own, last, erasedAt }, needs.client)
  const answered = closed === undefined ? [] : await orNone(answeredBy(sessionId, closed, needs.client), needs.logger)
  const others = cutOff.filter((id) => id !== named.after)
  for (const executionId of await sinceLoaded(sessionId, others, needs)) {
    const known = named.unreplayable?.executionId === executionId ? named.unreplayable.reason : undefined
    const { unreplayable, answers = [], requests = [] } = await storeEventsOf(sessionId, executionId, needs, known)
    if (unreplayable) succession.unreplayable = unreplayable
    if (answers.length > 0) succession.answers = [...(succession.answers ?? []), ...answers]
    if (requests.length > 0) succession.requests = [...(succession.requests ?? []), ...requests]
    answered.push(...(await orNone(readAnswered(sessionId, executionId, requests, needs.client), needs.logger)))
  }
  return { ...succession, ...(answered.length > 0 && { answered: newestAnswered(answered) }) }
}

/** None if the list cannot be read, for example because a key of a codec is gone: a session must open all the same. */
async function orNone(answered: Promise<AnsweredRequest[]>, logger: Logger): Promise<AnsweredRequest[]> {
  return answered.catch((err: unknown) => {
    logger.warn({ err }, 'the requests that an ended execution carried out could not be read: one that is repeated is carried out again')
    return []
  })
}

/**
 * The newest execution that loaded the session, and all later ones. It continued without the unstored events of earlier executions, and it
 * has what they passed on.
 */
async function sinceLoaded(sessionId: string, executions: readonly string[], { client, abandoned }: Needs): Promise<readonly string[]> {
  for (let at = executions.length - 1; at > 0; at--) {
    const executionId = executions[at] ?? ''
    const isLoaded = await hasLoaded(sessionId, executionId, client).catch((error: unknown) => {
      // A codec may fail because a key is missing.
      if (!abandoned) throw unreadable(executionId, 'requests', textOf(error), error)
      return false
    })
    if (isLoaded) return executions.slice(at)
  }
  return executions
}

/** `unreplayable`: why no worker can replay the execution, if that is known. */
async function storeEventsOf(sessionId: string, executionId: string, needs: Needs, unreplayable?: string): Promise<Succession> {
  const { store, reader, client, logger } = needs
  try {
    if (unreplayable !== undefined) return await continueWithout(sessionId, executionId, unreplayable, needs)
  } catch (error) {
    // A worker of the build that wrote the history could recover what would be lost, so wait until there is one again.
    if (!(error instanceof CannotLoad)) throw error
  }
  let why: string | undefined
  const left = async () => readLeft(sessionId, executionId, storedIn(store, sessionId, await store.head(sessionId)), client)
  try {
    const ended = await endOf(sessionId, executionId, client)
    if (ended === 'unbegun' || ended === 'reset') return await passOn(sessionId, executionId, needs, ended)
    const isFailing = ended === 'failing'
    // If a worker of the build that wrote the history is running, it answers soon. Other workers never answer, or fail the query.
    const last = await lastEventOf(sessionId, executionId, client, isFailing ? BROKEN_QUERY_TIMEOUT_MS : QUERY_TIMEOUT_MS).catch(
      (error: unknown) => {
        if (!isFailing && !isRefusedForEver(error) && !(error instanceof QueryNotRegisteredError)) throw error
        why = unreplayable ?? textOf(error)
      },
    )
    if (why !== undefined) return await continueWithout(sessionId, executionId, why, needs)
    if (!last) return await passOn(sessionId, executionId, needs, 'unbegun')
    const head = (await store.head(sessionId)) ?? { ...NOTHING, epoch: last.epoch }
    const isOtherPast = last.base.seq === 0 && last.epoch !== head.epoch
    if (last.to.seq <= head.seq && !isOtherPast) return await left()
    const target = { sessionId, executionId, epoch: last.epoch, watermark: last.to }
    // If this is another past, the store sets the events aside and refuses them.
    for await (const entries of reader.parts(target, isOtherPast ? NOTHING : head, client))
      await store.flush(sessionId, last.epoch, entries, { executionId })
    logger.warn(
      { session: sessionId, execution: executionId, events: last.to.seq - head.seq },
      'stored events of an execution that was ended before it could store them',
    )
    return await left()
  } catch (error) {
    if (isPassedOver(error)) {
      logger.debug(
        { err: error, session: sessionId, execution: executionId },
        'an execution that was ended from outside does not continue the stored events',
      )
      return isForeignPast(error) ? { requests: await readForNew(sessionId, executionId, client) } : {}
    } else if (error instanceof StoreError) {
      throw error
    } else if (needs.abandoned) {
      logger.warn(
        { err: error, session: sessionId, execution: executionId },
        'the events of an unreadable execution were abandoned, as a person decided',
      )
      return left().catch(() => ({}))
    } else {
      throw error instanceof CannotLoad ? error : unreadable(executionId, 'events', textOf(error), error)
    }
  }
}

/**
 * For an execution that no worker can replay: what it received after its last stored event, and what its activities did.
 * @throws CannotLoad `execution_unreadable` if something else would be lost.
 */
async function continueWithout(sessionId: string, executionId: string, reason: string, needs: Needs): Promise<Succession> {
  const { store, client, logger, abandoned } = needs
  const head = await store.head(sessionId)
  const { seq = 0 } = head ?? {}
  const { received, answers, lost } = await readUnstored(sessionId, executionId, storedIn(store, sessionId, head), client)
  if (lost !== undefined && !abandoned) throw unreadable(executionId, lost, reason)
  const about = { session: sessionId, execution: executionId, seq, received: received.length, answers: answers.length }
  if (lost === undefined) logger.debug({ ...about, reason }, 'an execution that no worker can replay was read from its history')
  else logger.warn({ ...about, reason, lost }, 'what an unreadable execution did was abandoned, as a person decided')
  // If the answers that requested the calls are lost, new calls may get the same ids.
  const usable = lost === undefined ? answers : answers.filter(({ of }) => of === 'call')
  return { unreplayable: { executionId, reason }, answers: usable, requests: received }
}

/**
 * For an execution that never opened: what it received. The store does not know of it if its predecessor could not be replayed; in that
 * case, the predecessor is read again, too. After a reset, the server had sent it requests that another execution had carried out.
 * @throws CannotLoad `execution_unreadable` if something else would be lost.
 */
async function passOn(sessionId: string, executionId: string, needs: Needs, ended: 'unbegun' | 'reset'): Promise<Succession> {
  const { store, client, abandoned } = needs
  const events = { ...storedIn(store, sessionId, await store.head(sessionId)), areOthers: ended === 'unbegun' }
  const { received, lost } = await readUnstored(sessionId, executionId, events, client)
  if (ended === 'unbegun' && lost !== undefined && !abandoned) throw unreadable(executionId, lost, 'it never opened')
  return { requests: received }
}

/**
 * Tells which of the requests that the server sent again after a reset had already been carried out. Call this once the events of the reset
 * execution are stored.
 */
export async function repeatedAfterReset(reset: Reset, store: Store, client: Client): Promise<RepeatedRequests> {
  return readRepeated(reset, storedIn(store, reset.sessionId, await store.head(reset.sessionId)), client)
}

function storedIn(store: Store, sessionId: string, head: StoredHead | null): EventsInStore {
  const { seq: upTo = 0, epoch } = head ?? {}
  return {
    upTo,
    ...defined({ epoch }),
    async *after(seq) {
      for (let from = seq; from < upTo; ) {
        const page = await store.events(sessionId, { after: from })
        yield* page
        from = page.at(-1)?.seq ?? upTo
      }
    },
    state: () => store.state(sessionId),
  }
}

/** Whether the events belong to an older chain, or were erased and must not come back. */
function isPassedOver(error: unknown): boolean {
  return error instanceof StaleWatermark || isForeignPast(error) || isErased(error)
}

function unreadable(executionId: string, lost: string, why: string, cause?: unknown): CannotLoad {
  return new CannotLoad(
    'execution_unreadable',
    `Execution ${executionId} was ended with ${lost} that are not stored, and its history cannot be read now: ${why}`,
    { cause },
  )
}

/**
 * Whether the server refuses to query a worker because three attempts of the execution's newest workflow task failed or timed out. For an
 * execution that has ended, this is final.
 */
function isRefusedForEver(error: unknown): boolean {
  if (!(error instanceof Error) || !isGrpcServiceError(error.cause)) return false
  return (getGrpcStatusDetails(error.cause) ?? []).some(({ type_url: type }) => type?.endsWith('.WorkflowNotReadyFailure'))
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The last event of the execution; undefined if it never opened. */
function lastEventOf(sessionId: string, executionId: string, client: Client, timeoutMs: number): Promise<EventsPage | undefined> {
  return queryEvents(client, { sessionId, executionId }, { after: Number.MAX_SAFE_INTEGER }, timeoutMs)
}
