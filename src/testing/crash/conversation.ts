// Runs a script in its own session and reports the outcome.
import { setTimeout as sleep } from 'node:timers/promises'
import { messageRowsOf } from '../../client/session/message-rows.ts'
import type { Pawl } from '../../client/pawl.ts'
import type { RunHandle, SessionHandle } from '../../client/types.ts'
import { blobOf, withBlob } from '../../session/blobs.ts'
import type { SessionEvent } from '../../session/events.ts'
import type { Json } from '../../session/json.ts'
import type { MessageRow } from '../../store/rows.ts'
import type { Mark } from './boundaries.ts'
import { firstDifference, type ConversationOutcome, withoutNames } from './compare.ts'
import type { CrashConversation, CrashStep, CrashTestOptions, CrashWorld } from './types.ts'
import { until } from './until.ts'
import { ownPartOf } from '../../session/agents/agent-calls.ts'
import { defined } from '../../session/defined.ts'
import { unlessAborted } from '../../waiting/unless-aborted.ts'

/** How long the side store may take to catch up once the conversation has ended. */
const STORE_MS = 30_000
/** How long to wait for the world to settle after the conversation: a dead process's request may still be in flight. */
const WORLD_RESTS_MS = 5_000
const WORLD_LOOK_MS = 50
const WAITING_LOOK_MS = 1_000
const SEND_AGAIN_MS = 250

/** The parts of a conversation. */
export interface TestConversationOptions extends Pick<CrashTestOptions, 'context' | 'tags' | 'script'> {
  pawl: Pawl
  sessionId: string
  agent: string
  timeoutMs: number
}

/** How a conversation ended. The rest of the outcome is read when all servers are running again. */
export interface Conversation {
  ends: Json[]
  /** Messages whose run failed, and why. */
  failed: string[]
  /** Why the conversation did not finish. */
  stuck?: string
}

/** Runs the script. Never rejects: a failed step or a timeout is part of the result. */
export async function converse(options: TestConversationOptions): Promise<Conversation> {
  const { pawl, agent, context, tags, timeoutMs } = options
  const session = pawl.session(options.sessionId, { agent, ...defined({ context }), ...(tags && { tags }) })
  const over = new AbortController()
  const timer = setTimeout(() => over.abort(new Error(`it did not end within ${timeoutMs / 1_000} s`)), timeoutMs)
  const sent: RunHandle[] = []
  const send: CrashConversation['send'] = async (content, more = {}) => {
    const messageId = `message-${sent.length + 1}`
    const run = await again(() => session.send(content, { ...more, messageId, isNew: sent.length === 0 }), over.signal)
    sent.push(run)
    return run
  }
  const ends: Json[] = []
  const failed: string[] = []
  try {
    for (const [index, step] of options.script.entries()) {
      const { end, failure } = await unlessAborted(over.signal, carryOut(step, { pawl, session, send }, over.signal))
      ends.push(end)
      if (failure !== undefined) failed.push(`step ${index + 1} of the script ${failure}`)
    }
    return { ends, failed }
  } catch (error) {
    const status = await session.state().then(
      (state) => `${state.status}${state.error ? ` (${state.error.code}: ${state.error.reason})` : ''}`,
      () => 'not available',
    )
    return { ends, failed, stuck: `step ${ends.length + 1} of the script failed: ${messageOf(error)}; the session's status is ${status}` }
  } finally {
    clearTimeout(timer)
    over.abort()
  }
}

/** The conversation's outcome: its transcript, world and effects. */
export async function outcomeOf(
  { ends, failed, stuck }: Conversation,
  { session, world, marks }: { session: SessionHandle; world: CrashWorld; marks: readonly Mark[] },
): Promise<ConversationOutcome> {
  const unstable = [...new Set(marks.flatMap(({ problem }) => (problem === undefined ? [] : [problem])))]
  const problems = stuck === undefined ? [] : [stuck]
  const events = await eventsOf(session).catch((error: unknown) => {
    problems.push(`the session's events cannot be read: ${messageOf(error)}`)
    return undefined
  })
  const transcript = messageRowsOf(events ?? []).map(said)
  const missing = events && (await missingInStore(session, transcript))
  if (missing !== undefined) problems.push(`the side store differs from the session: ${missing}`)
  const rest = await worldAtRest(world)
  const names = namesIn(session.id, marks, events ?? [])
  return withoutNames(
    {
      ends,
      failed,
      transcript,
      ...rest,
      unknown: unknownTools(events ?? []),
      unstable,
      notes: notExecuted(events ?? []),
      problems,
    } as unknown as Json,
    names,
  ) as unknown as ConversationOutcome
}

async function carryOut(step: CrashStep, conversation: CrashConversation, signal: AbortSignal): Promise<End> {
  if (typeof step === 'function') {
    await step(conversation)
    return { end: 'done' }
  }
  const { send: content, ...more } = typeof step === 'string' ? { send: step } : step
  const run = await conversation.send(content, more)
  const stop = new AbortController()
  const either = AbortSignal.any([signal, stop.signal])
  try {
    return await Promise.race([endOf(run, either), waits(conversation.session, either)])
  } finally {
    stop.abort()
  }
}

/** How a step ended. */
interface End {
  end: Json
  failure?: string
}

async function endOf(run: RunHandle, signal: AbortSignal): Promise<End> {
  const settled = await run.settled({ signal })
  const { status } = settled
  if (settled.status === 'completed')
    return { end: { status, text: settled.text, ...defined({ output: settled.output as Json | undefined }) } }
  if (!('code' in settled)) return { end: { status } }
  return { end: { status, code: settled.code }, failure: `ended as ${status} (${settled.code}: ${settled.reason})` }
}

/** Resolves if the session waits for a person, because its run then cannot end on its own. */
async function waits(session: SessionHandle, signal: AbortSignal): Promise<End> {
  for (;;) {
    await sleep(WAITING_LOOK_MS, undefined, { signal }).catch(() => new Promise<never>(() => undefined))
    const status = await session.state().then(
      (state) => state.status,
      () => undefined,
    )
    if (status === 'waiting') return { end: { status } }
  }
}

/** Repeats `act` only while the server is unavailable, because it would refuse a refused request again. */
async function again<T>(act: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await act()
    } catch (error) {
      if (!isAway(error)) throw error
      await sleep(SEND_AGAIN_MS, undefined, { signal })
    }
  }
}

/** gRPC's UNAVAILABLE, DEADLINE_EXCEEDED and CANCELLED, wrapped by the SDK or not. */
function isAway(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (/\b(UNAVAILABLE|DEADLINE_EXCEEDED|CANCELLED|ECONNREFUSED|ECONNRESET)\b/.test(at.message)) return true
  }
  return false
}

/** The session's events with their large values. */
async function eventsOf(session: SessionHandle): Promise<SessionEvent[]> {
  const events: SessionEvent[] = []
  for await (const event of session.events()) {
    const blob = blobOf(event)
    const json = blob && (await session.blob(blob.sha256))
    events.push(json == null ? event : withBlob(event, JSON.parse(json) as Json))
  }
  return events
}

/** How the side store differs from the transcript once it has had time to catch up. */
async function missingInStore(session: SessionHandle, transcript: Json[]): Promise<string | undefined> {
  let difference: string | undefined
  const look = async (): Promise<boolean> => {
    difference = firstDifference(transcript, (await session.messages()).map(said))
    return difference === undefined
  }
  return until(look, STORE_MS).then(
    () => undefined,
    (error: Error) => difference ?? messageOf(error.cause),
  )
}

/** Snapshot and effects, once they stop changing. If they never do, the comparison finds that runs differ. */
async function worldAtRest(world: CrashWorld): Promise<{ world: Json; effects: Json[] }> {
  const giveUpAt = Date.now() + WORLD_RESTS_MS
  let before: string | undefined
  for (;;) {
    const rest = { world: await world.snapshot(), effects: [...(await world.effects())] }
    const now = JSON.stringify(rest)
    if (now === before || Date.now() > giveUpAt) return rest
    before = now
    await sleep(WORLD_LOOK_MS)
  }
}

function said({ messageId, role, content }: MessageRow): Json {
  return { messageId, role, content } as unknown as Json
}

function unknownTools(events: readonly SessionEvent[]): string[] {
  const open = new Map<string, string>()
  for (const event of events) {
    if (event.type === 'tool_unknown') open.set(event.callId, event.tool)
    if (event.type === 'tool_resolved') open.delete(event.callId)
  }
  return [...open.values()]
}

function notExecuted(events: readonly SessionEvent[]): string[] {
  const texts = events.flatMap((event) =>
    event.type === 'tool_failed' && event.attempt === 0 ? [`a call of ${event.tool} was not executed: ${event.message}`] : [],
  )
  return [...new Set(texts)]
}

/** Placeholders for the session, its keys and its children, which differ between sessions. */
function namesIn(sessionId: string, marks: readonly Mark[], events: readonly SessionEvent[]): Map<string, string> {
  const names = new Map([[sessionId, '<session>']])
  for (const event of events) {
    if (event.type === 'answer_requested' && event.child) names.set(ownPartOf(event.child.session), `<child of ${event.callId}>`)
  }
  for (const { key, id } of marks) {
    const call = id.split('/')[0]?.replace(/^((?:child\d+>)?)tool:/, '$1')
    if (key !== undefined && !names.has(key)) names.set(key, `<key of ${call}>`)
  }
  return names
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
