// Forks: a new session that begins with another session's past.
import { randomUUID } from 'node:crypto'
import { type Client, WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from '@temporalio/client'
import { lightOf } from '../../session/light.ts'
import { nextDigest } from '../../session/digest.ts'
import type { SessionEvent, Target } from '../../session/events.ts'
import {
  type ForkPoint,
  type ForkRequest,
  type ForkStart,
  type SessionStart,
  UPDATES,
  workflowIdOf,
} from '../../session/protocol/protocol.ts'
import { REUSED } from '../../session/protocol/request-names.ts'
import { canonicalJson } from '../../session/canonical.ts'
import { movedBy, movedText } from '../../session/recovery/moved.ts'
import { checkTarget, effectsAfter, locate, TargetRefused } from '../../session/recovery/targets.ts'
import { beginningOf } from '../admin/executions.ts'
import { type UpdateTarget, refusable, sendUpdate, startFor, updateIdOf } from './updates.ts'
import { RequestRefusedError, SessionNotFoundError } from '../errors.ts'
import { checkSessionId, uuidOf } from './session-id.ts'
import { executionStateOf } from './hold-ups.ts'
import { checkOpening } from './large-content.ts'
import type { ForkOptions } from '../types.ts'
import { defined } from '../../session/defined.ts'

/**
 * Forks the session of `asked` and returns the new session's id. `events`: all its known events, oldest first. `isStored`: whether the side
 * store has a session with that id.
 */
export async function fork(
  asked: UpdateTarget,
  options: ForkOptions,
  events: () => AsyncIterable<SessionEvent>,
  isStored: (id: string) => Promise<boolean>,
): Promise<string> {
  const { requestId, keys = 'carried', tags, by } = options
  const ownId = requestId === undefined ? undefined : forkIdOf(asked.sessionId, requestId)
  const { id = ownId ?? randomUUID() } = options
  /** Only this request makes a fork with this id; before it, the id may have a tenant's prefix. */
  const isOwn = ownId !== undefined && id.endsWith(ownId)
  checkSessionId(id)
  checkOpening({ tags })
  const target = targetOf(options)
  // Checked before a run is interrupted, because a refusal must change nothing.
  if ((options.id ?? requestId) !== undefined && ((await isOpen(asked, id)) || (await isStored(id)))) {
    if (!isOwn) throw exists(id)
    await requireSameFork(asked.client, { from: asked.sessionId, id, target, keys, ...defined({ tags }) })
    return id
  }
  const { toSeq: seq, digest } = await forkPoint(asked, target, options, events)
  const start: SessionStart = {
    sessionId: id,
    ...(tags && { tags }),
    ...(asked.settings && { settings: asked.settings }),
    fork: { from: asked.sessionId, seq, digest, keys, ...(target && { target }), ...defined({ by }) },
  }
  try {
    await refusable(id, () => startFor(asked, UPDATES.resume, [], start, 'FAIL'))
  } catch (cause) {
    if (!isTaken(cause)) throw cause
    if (!isOwn) throw exists(id, cause)
    await requireSameFork(asked.client, { from: asked.sessionId, id, target, keys, ...defined({ tags }) })
  }
  return id
}

/** The id of the fork that a named request makes of a session. */
export function forkIdOf(sessionId: string, requestId: string): string {
  return uuidOf(`${sessionId}\n${requestId}`)
}

interface WantedFork extends Pick<ForkStart, 'from' | 'keys'>, Pick<SessionStart, 'tags'> {
  id: string
  target: Target | undefined
}

/**
 * Refuses a request whose id has made another fork, as far as the fork's newest execution says so: it has been continued, or its history may
 * no longer exist. @throws RequestRefusedError `request_id_reused`.
 */
async function requireSameFork(client: Client, { id, ...wanted }: WantedFork): Promise<void> {
  const { fork: made, tags } = (await beginningOf(client, id, ''))?.start ?? {}
  if (!made) return
  const { from, target, keys } = made
  if (canonicalJson({ from, target, keys, tags }) !== canonicalJson(wanted)) throw new RequestRefusedError(REUSED.code, REUSED.reason)
}

function exists(id: string, cause?: unknown): RequestRefusedError {
  return new RequestRefusedError('session_exists', `A session "${id}" already exists: choose another id for the fork.`, { cause })
}

/** Whether the session has an open workflow; false if that cannot be determined now. */
async function isOpen({ client }: UpdateTarget, id: string): Promise<boolean> {
  return executionStateOf(client, id).then(
    ({ open }) => open,
    () => false,
  )
}

function isTaken(error: unknown): boolean {
  if (error instanceof WorkflowExecutionAlreadyStartedError) return true
  return error instanceof Error && error.cause !== undefined && isTaken(error.cause)
}

/** The target in the options; undefined for the head. @throws RequestRefusedError `invalid_target`. */
export function targetOf({ checkpoint, message, run }: Partial<Record<'checkpoint' | 'message' | 'run', unknown>>): Target | undefined {
  if (checkpoint === undefined && message === undefined && run === undefined) return undefined
  try {
    return checkTarget({ checkpoint, message, run })
  } catch (cause) {
    throw cause instanceof TargetRefused ? new RequestRefusedError(cause.code, cause.message, { cause }) : cause
  }
}

/** Where the fork begins. The workflow answers, and interrupts its run first; if it has closed, the events are searched instead. */
async function forkPoint(
  asked: UpdateTarget,
  target: Target | undefined,
  { interrupt, seenSeq, by, requestId }: ForkOptions,
  events: () => AsyncIterable<SessionEvent>,
): Promise<ForkPoint> {
  const { client, sessionId } = asked
  const request: ForkRequest = { ...(target && { target }), ...defined({ interrupt, seenSeq, by }) }
  const updateId = updateIdOf(UPDATES.fork, requestId, request)
  try {
    const workflow = client.workflow.getHandle(workflowIdOf(sessionId))
    return await refusable(sessionId, () =>
      sendUpdate(asked, () =>
        workflow.startUpdate<ForkPoint, [ForkRequest]>(UPDATES.fork, { updateId, args: [request], waitForStage: 'ACCEPTED' }),
      ),
    )
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error
    return pointAmong(sessionId, target, { seenSeq, past: events() })
  }
}

async function pointAmong(
  sessionId: string,
  target: Target | undefined,
  { seenSeq, past }: { seenSeq: number | undefined; past: AsyncIterable<SessionEvent> },
): Promise<ForkPoint> {
  const entries: { event: SessionEvent; digest: string }[] = []
  let digest = ''
  for await (const event of past) {
    // The digest is over the event's own JSON text, which parsing and printing preserve.
    digest = nextDigest(digest, JSON.stringify(event))
    entries.push({ event: lightOf(event), digest })
  }
  if (entries.length === 0) throw new SessionNotFoundError(sessionId)
  const events = entries.map(({ event }) => event)
  const moved = seenSeq === undefined ? undefined : movedBy(events, seenSeq)
  if (seenSeq !== undefined && moved) throw new RequestRefusedError('session_moved', movedText(seenSeq, moved))
  try {
    const place = locate(entries, target, { archived: true })
    const { effects, more } = effectsAfter(
      entries.map(({ event }) => event),
      place.seq,
    )
    return { toSeq: place.seq, digest: place.digest, effects, moreEffects: more }
  } catch (cause) {
    throw cause instanceof TargetRefused ? new RequestRefusedError(cause.code, cause.message, { cause }) : cause
  }
}
