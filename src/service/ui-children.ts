// The text of agents that answer calls, inside the parts of these calls: as the preliminary output that the AI SDK knows for its own subagents.
import { storedPastOf } from '../client/session/stored-past.ts'
import { MAX_SESSIONS_WATCHED } from '../client/session/tree-watch.ts'
import { unlessAway } from '../client/session/unless-away.ts'
import type { SessionHandle, TreeItem } from '../client/types.ts'
import type { SessionEvent } from '../session/events.ts'
import { requestIdOf } from '../session/ids.ts'
import { type AgentCall, type AgentsAtWork, MAX_AGENT_CHARACTERS, startAgents, startedOutput } from '../ui/agents.ts'
import type { UiChunk, UiShow } from '../ui/protocol.ts'
import type { UiSentChunk } from '../ui/streaming.ts'
import type { ErrorTexts } from '../ui/user-texts.ts'

/** Each chunk has everything so far. The next one is sent after the time in which this many characters per second would have been sent. */
const CHARACTERS_PER_SECOND = 20_000
const LONGEST_PAUSE_MS = 2_000

/** What a stream shows of the agents that answer a session's calls. */
export interface ChildTexts {
  /** Notes an event of the session, and what was sent for it. Returns what is to be sent. `isPast`: it is from before the stream. */
  parent(event: SessionEvent, sent: readonly UiSentChunk[], isPast?: boolean): readonly UiSentChunk[]
  /** Reads what the agents at work have said so far. Returns where the watch of each session begins; `seq`: for the session itself. */
  begin(seq: number): Promise<Record<string, number>>
  /** Notes an item of a session below. */
  child(item: TreeItem): void
  /** What is to be sent now; `last`: before the stream ends. */
  due(last?: 'last'): UiSentChunk[]
  /** In how many milliseconds there will be something to be sent; undefined: not before the next item. */
  dueIn(): number | undefined
}

/** What a stream needs to show agents. */
export interface ChildTextsNeeds {
  sessionId: string
  show: UiShow
  errorTexts: ErrorTexts | undefined
  /** Its page already shows the calls in progress. */
  isResumed: boolean
  open(sessionId: string): SessionHandle
}

/** What a call has sent. */
interface SentText {
  /** Whether there is something new. */
  isDue: boolean
  /** When the next chunk may be sent. */
  from: number
}

export function startChildTexts({ sessionId, show, errorTexts, isResumed, open }: ChildTextsNeeds): ChildTexts {
  const agents = startAgents(sessionId, errorTexts)
  const texts = new Map<string, SentText>()
  /** Calls whose part the page has: it refuses the output of others. */
  const shown = new Set<string>()

  function note(session: string): void {
    const call = agents.callOf(session)
    if (!call) return
    const text = texts.get(call.session)
    if (text) text.isDue = true
    else texts.set(call.session, { isDue: true, from: 0 })
  }

  /** The calls of which something is to be sent. */
  const dueCalls = (): { call: AgentCall; text: SentText }[] =>
    agents.calls().flatMap((call) => {
      const text = texts.get(call.session)
      return text?.isDue && shown.has(call.toolCallId) ? [{ call, text }] : []
    })

  function parent(event: SessionEvent, sent: readonly UiSentChunk[], isPast = false): readonly UiSentChunk[] {
    const ended = agents.ownEvent(event).filter(({ toolCallId }) => shown.has(toolCallId))
    if (event.type === 'answer_requested' && event.child) {
      note(event.child.session)
      if (isPast && isResumed) shown.add(requestIdOf(event.callId))
    }
    for (const { chunk } of sent) if (chunk.type === 'tool-input-available') shown.add(chunk.toolCallId)
    // What the call has returned replaces what its agent has said, although the agent continues to work.
    for (const { toolCallId, session, inBackground } of agents.calls()) {
      if (inBackground && sent.some(({ chunk }) => chunk.type === 'tool-output-available' && chunk.toolCallId === toolCallId)) note(session)
    }
    const open = new Set(agents.calls().map(({ session }) => session))
    for (const session of texts.keys()) if (!open.has(session)) texts.delete(session)
    // Their parts show what the calls have returned, as they do in the history.
    return [...ended.map((call): UiSentChunk => ({ chunk: outputChunk(call, startedOutput(call)) })), ...sent]
  }

  async function begin(seq: number): Promise<Record<string, number>> {
    const read = await readAgents(agents, open)
    for (const { session } of agents.calls()) note(session)
    return { ...Object.fromEntries(agents.sessions().map((session) => [session, read.get(session) ?? 0])), [sessionId]: seq }
  }

  function child(item: TreeItem): void {
    const { sessionId } = item
    if (item.type === 'event') {
      agents.event(sessionId, item.event)
      if (SHOWN.has(item.event.type)) note(sessionId)
    } else if (item.type === 'reset') {
      agents.reset(sessionId)
      note(sessionId)
    } else if (item.type === 'delta' && show === 'pieces' && item.delta.type === 'text') {
      agents.text(sessionId, item.delta.text)
      note(sessionId)
    }
  }

  function due(last?: 'last'): UiSentChunk[] {
    const now = performance.now()
    return dueCalls().flatMap(({ call, text }) => {
      if (now < text.from && last === undefined) return []
      const chunk = workOf(agents, call)
      const size = JSON.stringify(chunk).length
      Object.assign(text, { isDue: false, from: now + Math.min(LONGEST_PAUSE_MS, (size / CHARACTERS_PER_SECOND) * 1_000) })
      return [{ chunk }]
    })
  }

  function dueIn(): number | undefined {
    const froms = dueCalls().map(({ text }) => text.from)
    return froms.length === 0 ? undefined : Math.max(0, Math.min(...froms) - performance.now())
  }

  return { parent, begin, child, due, dueIn }
}

/** Events after which something else may be shown. */
const SHOWN: ReadonlySet<SessionEvent['type']> = new Set([
  'run_started',
  'model_completed',
  'answer_requested',
  'tool_completed',
  'tool_failed',
  'tool_unknown',
  'tool_resolved',
  'message_received',
  'run_completed',
  'run_interrupted',
])

/** How many characters of texts an answer has. */
function charactersIn(event: SessionEvent): number {
  return event.type === 'model_completed'
    ? event.content.reduce((sum, block) => sum + (block.type === 'text' ? block.text.length : 0), 0)
    : 0
}

function outputChunk({ toolCallId }: AgentCall, output: unknown): UiChunk {
  return { type: 'tool-output-available', toolCallId, output }
}

/** What the agent that answers the call has said so far. */
function workOf(agents: AgentsAtWork, call: AgentCall): UiChunk {
  return { type: 'tool-output-available', toolCallId: call.toolCallId, output: agents.messageOf(call), preliminary: true }
}

/** What the agents at work have said, for a page that loads its messages. `events`: the newest of the session's events that it shows. */
export async function agentChunks(
  sessionId: string,
  events: readonly SessionEvent[],
  { open, errorTexts }: Pick<ChildTextsNeeds, 'open' | 'errorTexts'>,
): Promise<UiChunk[]> {
  const agents = startAgents(sessionId, errorTexts)
  for (const event of events) agents.ownEvent(event)
  if (agents.calls().length === 0) return []
  await readAgents(agents, open)
  return agents.calls().map((call) => workOf(agents, call))
}

/** Reads what each of the agents at work has said in its run so far, those further up first. Returns the newest event of each. */
async function readAgents(agents: AgentsAtWork, open: (sessionId: string) => SessionHandle): Promise<Map<string, number>> {
  const read = new Map<string, number>()
  while (read.size < MAX_SESSIONS_WATCHED) {
    const next = agents.sessions().find((session) => !read.has(session))
    if (next === undefined) break
    // A session that cannot be read now appears once the stream follows it.
    const { events, seq } = (await unlessAway(() => readRun(open(next)))) ?? { events: [], seq: 0 }
    for (const event of events) agents.event(next, event)
    read.set(next, seq)
  }
  return read
}

/** The events of a session's newest run that say what it shows, and the newest event of the session. */
async function readRun(session: SessionHandle): Promise<{ events: SessionEvent[]; seq: number }> {
  // Its workflow is not queried: a page may load while fifty agents work.
  const stored = await storedPastOf(session, 'stored')
  if (!stored) return { events: [], seq: 0 }
  const newestFirst: SessionEvent[] = []
  let characters = 0
  for (let below = stored.top; ; ) {
    const page = await stored.upTo(below)
    for (const event of page) {
      below = event.seq - 1
      if (!SHOWN.has(event.type)) continue
      newestFirst.push(event)
      characters += charactersIn(event)
      if (event.type === 'run_started' || characters > MAX_AGENT_CHARACTERS) return { events: newestFirst.reverse(), seq: stored.top }
    }
    if (page.length === 0) return { events: newestFirst.reverse(), seq: stored.top }
  }
}
