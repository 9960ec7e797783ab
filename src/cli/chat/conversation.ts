// A conversation with one agent in the terminal, from its first line to its end.
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunHandle, SessionHandle, SessionOptions } from '../../client/types.ts'
import { textOf } from '../../session/content.ts'
import { PawlError } from '../../session/errors.ts'
import type { EventOf } from '../../session/events.ts'
import type { Json } from '../../session/json.ts'
import { type Command, commandOf, HELP } from './slash-commands.ts'
import { CliError, describeError } from '../errors.ts'
import { here } from '../here.ts'
import { type Follower, type FollowOptions, followRuns } from './follow.ts'
import { type LiveAnswer, liveAnswer } from './live-answer.ts'
import { decideInChat, type DecisionCommand, linesOfWaiting } from './decisions.ts'
import { lastSeqOf, linesOfEvent, linesOfMessages, linesOfState, note, problem, providerLines, sourceLines, uncut } from './lines.ts'
import { openScreen, type Screen } from './screen.ts'
import { paint } from '../terminal.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { defined } from '../../session/defined.ts'

/** The part of the client that a conversation uses. */
export interface Sessions {
  session(id?: string, options?: SessionOptions): SessionHandle
}

export interface ChatParts {
  /** The agent; a resumed session has one already. */
  agent?: string
  context?: Json
  tags?: string[]
  /** Id of a session to start, or to continue without showing its past. */
  sessionId?: string
  /** Id of a session to continue after showing its conversation. */
  resume?: string
}

/** How a conversation ended: `failed` if a run or a message failed, `left` if a pipe's conversation was cut off. */
export type ConversationEnd = 'ok' | 'failed' | 'left'

/** A conversation in progress. */
interface Talk {
  readonly sessions: Sessions
  readonly options: ChatParts
  readonly screen: Screen
  current?: CurrentSession
  failed: boolean
  left: boolean
  /** An interrupt was requested and the run has not ended yet. */
  interrupting: boolean
  /** The conversation has ended: print nothing more. */
  over: boolean
}

interface CurrentSession {
  session: SessionHandle
  agent: string
  follower: Follower
  /** Ids of the messages that were sent from here. */
  own: Set<string>
  /** Digests of the arguments that were shown with a request for approval, or of the question that was shown, by call. */
  digests: Map<string, string>
  /** Calls whose decisions or answers were shown. */
  decided: Set<string>
  /** The newest run that is being shown. */
  run?: RunHandle
  /** Resolves with the last run that is being shown. */
  shown: Promise<void>
}

/** How long the events before a wait may take to be shown, in milliseconds. */
const SHOW_MS = 300
/** How long to wait for a decision's event to be stored. */
const DECIDED_MS = 10_000

const silence = (): string =>
  `No worker has picked up the message yet. It is recorded, and will be processed once a worker runs: ${here(SUGGESTIONS.startWorker())}`

/** A person may have misspelt the agent, so the grace period is shorter than the two minutes for deploys. */
const NOT_SERVED_AFTER_MS = 10_000

/**
 * Runs the conversation until the input ends or the user leaves.
 * @throws SessionNotFoundError for an unknown `resume`; CliError `invalid_usage`.
 */
export async function converse(sessions: Sessions, options: ChatParts): Promise<ConversationEnd> {
  let leave = () => {}
  const leaving = new Promise<void>((resolve) => {
    leave = resolve
  })
  const screen = openScreen({ prompt: paint('cyan', 'you › '), onInterrupt: () => onInterrupt(talk, leave), onTerminate: () => leave() })
  const talk: Talk = { sessions, options, screen, failed: false, left: false, interrupting: false, over: false }
  try {
    await Promise.race([takeLines(talk), leaving.then(() => void (talk.left = true))])
  } finally {
    talk.over = true
    talk.current?.follower.stop()
    screen.close()
  }
  if (talk.current && talk.current.own.size > 0) {
    screen.print([uncut(`resume later: ${here(SUGGESTIONS.resumeChat({ agent: talk.current.agent, session: talk.current.session.id }))}`)])
  }
  if (talk.left && !screen.interactive) return 'left'
  return talk.failed ? 'failed' : 'ok'
}

async function takeLines(talk: Talk): Promise<void> {
  const { resume: id } = talk.options
  if (id === undefined) begin(talk)
  else await resume(talk, id, talk.options.agent)
  for await (const line of talk.screen.lines) {
    const command = commandOf(line)
    if (command.name === 'exit') return
    try {
      await carryOut(talk, command)
    } catch (error) {
      fail(talk, error)
    }
    talk.screen.prompt()
  }
  if (!talk.screen.interactive && talk.current) await settled(talk.current)
}

async function carryOut(talk: Talk, command: Command): Promise<void> {
  const { current, screen } = talk
  if (!current) return
  switch (command.name) {
    case 'send':
      return send(talk, current, command)
    case 'state':
      return screen.print(linesOfState(await current.session.state()))
    case 'resume':
      return resume(talk, command.id)
    case 'approve':
    case 'deny':
    case 'answer':
      return decide(talk, current, command)
    case 'interrupt':
      return current.follower.busy() ? interrupt(talk, current) : screen.print([note('no run is in progress')])
    case 'help':
      return screen.print(HELP)
    case 'nothing':
    case 'exit':
      return
    case 'wrong':
      return screen.print([note(command.advice)])
  }
}

function begin(talk: Talk): void {
  const { agent = '', context, tags, sessionId } = talk.options
  const notServedAfter = NOT_SERVED_AFTER_MS
  const session = talk.sessions.session(sessionId, { agent, notServedAfter, ...defined({ context, tags }) })
  enter(talk, session, agent, 0)
  talk.screen.print([note(`session ${session.id} with ${agent}; /help lists the commands`)])
}

/** Continues a session. `expected`: its agent, if one was named. */
async function resume(talk: Talk, id: string, expected?: string): Promise<void> {
  const state = await talk.sessions.session(id).state()
  const agent = expected ?? state.agent
  const session = talk.sessions.session(id, { agent })
  if (state.agent !== agent) {
    throw new CliError(
      'invalid_usage',
      `Session ${id} belongs to the agent "${state.agent}". Use \`${SUGGESTIONS.resumeChat({ agent: state.agent, session: id })}\`.`,
    )
  }
  const rows = await session.messages()
  const current = enter(talk, session, agent, lastSeqOf(rows))
  const error = state.error ? [problem(`error, ${state.error.code}: ${state.error.reason}`)] : []
  talk.screen.print([
    note(`session ${id} with ${agent}, ${state.status}${state.paused ? ', paused' : ''}`),
    ...linesOfMessages(rows, agent),
    ...error,
    ...linesOfWaiting(state.current?.calls ?? []).map(problem),
  ])
  if ((state.status === 'running' || state.status === 'waiting') && state.current) follow(talk, current, state.current.messageId)
  reopen(talk, current)
}

/** Reopens a session whose workflow has closed. The conversation does not wait for a worker. */
function reopen(talk: Talk, current: CurrentSession): void {
  current.session.resume().catch((error: unknown) => {
    if (!talk.over && talk.current === current) fail(talk, error)
  })
}

/** Makes a session the current one; events up to `shownUpTo` are not shown again. */
function enter(talk: Talk, session: SessionHandle, agent: string, shownUpTo: number): CurrentSession {
  talk.current?.follower.stop()
  talk.interrupting = false
  const own = new Set<string>()
  const speakers = { session: session.id, agent, isOwn: (id: string) => own.has(id) }
  const { screen } = talk
  const answer = liveAnswer(`${agent} › `, () => screen.columns())
  const digests = new Map<string, string>()
  const decided = new Set<string>()
  const follower = followRuns({
    shownUpTo,
    onEvent(event) {
      if (event.type === 'approval_requested') digests.set(event.callId, event.digest)
      if (event.type === 'answer_requested') noteQuestion({ digests, decided }, event)
      if (event.type === 'approval_decided' || event.type === 'answer_received') decided.add(event.callId)
      if (event.type !== 'model_completed') return screen.print(linesOfEvent(event, speakers))
      screen.live('')
      const rows = answer.complete(textOf(event.content))
      screen.print(rows ? [...rows, ...providerLines(event.content), ...sourceLines(event.content)] : linesOfEvent(event, speakers))
    },
    ...(screen.interactive && { onLive: (item) => showLive(screen, answer, item) }),
    onSilence: (isSilent) => void printWait(talk, session, isSilent),
    onError: (error) => fail(talk, error),
  })
  talk.current = { session, agent, follower, own, digests, decided, shown: Promise.resolve() }
  return talk.current
}

/** An answer belongs to the question that was shown. A client tool asks none. */
function noteQuestion(
  { digests, decided }: Pick<CurrentSession, 'digests' | 'decided'>,
  { callId, asks }: EventOf<'answer_requested'>,
): void {
  decided.delete(callId)
  if (asks) digests.set(callId, asks.digest)
  else digests.delete(callId)
}

/** Shows the answer in progress. */
function showLive(screen: Screen, answer: LiveAnswer, item: Parameters<NonNullable<FollowOptions['onLive']>>[0]): void {
  if (item.type === 'reset') {
    screen.live('')
    if (answer.reset()) screen.print([note('(the answer broke off here; it starts again)')])
  } else if (item.delta.type === 'text') {
    const { rows, growing } = answer.add(item.delta.text)
    screen.print(rows)
    screen.live(growing)
  }
}

/** Prints what the session waits for, unless an event has arrived since the message. */
async function printWait({ screen }: Talk, session: SessionHandle, isSilent: () => boolean): Promise<void> {
  const why = await session.state().then(
    () => silence(),
    (error: unknown) => (error instanceof PawlError && error.code === 'session_unavailable' ? error.message : silence()),
  )
  if (isSilent()) screen.print([note(why)])
}

async function send(talk: Talk, current: CurrentSession, { text, interrupt }: Command & { name: 'send' }): Promise<void> {
  // The id must be known before the message is sent: its event may arrive before `send` returns.
  const messageId = crypto.randomUUID()
  current.own.add(messageId)
  await current.session.send(text, { messageId, ...defined({ interrupt }) })
  follow(talk, current, messageId)
  // At a terminal, the next message may be typed in the meantime and joins the run. With a pipe, the next line waits for the answer.
  if (!talk.screen.interactive) await settled(current)
}

async function decide({ screen }: Talk, current: CurrentSession, command: DecisionCommand): Promise<void> {
  const { callId, text } = await decideInChat(current.session, command, current.digests)
  screen.print([note(text)])
  if (screen.interactive) return
  // With a pipe, the next line waits for what follows. Until the decision's event arrives, the run still appears to be waiting.
  for (const until = Date.now() + DECIDED_MS; !current.decided.has(callId) && Date.now() < until; ) await sleep(SHOW_MS)
  await settled(current)
}

/** Resolves when the run that is being shown has ended, or waits for a person or a client. */
async function settled({ shown, run }: CurrentSession): Promise<void> {
  // Its failure is reported where it is shown.
  const waits = run?.settled().then(
    ({ status }) => (status === 'waiting' ? sleep(SHOW_MS) : shown),
    () => shown,
  )
  await Promise.race([shown, ...(waits ? [waits] : [])])
}

function follow(talk: Talk, current: CurrentSession, messageId: string): void {
  const { session, follower } = current
  current.run = session.run(messageId)
  current.shown = follower.follow(current.run).then((followed) => {
    if (followed === 'failed') talk.failed = true
    if (!follower.busy()) talk.interrupting = false
  })
}

async function interrupt(talk: Talk, current: CurrentSession): Promise<void> {
  talk.interrupting = true
  talk.screen.print([note('interrupting the run; press Ctrl-C again to leave without waiting for it')])
  await current.session.interrupt({ by: 'pawl chat' })
}

/** Ctrl-C: interrupts the current run; leaves if there is none, or if it was already asked to stop. */
function onInterrupt(talk: Talk, leave: () => void): void {
  const { current } = talk
  if (!current?.follower.busy() || talk.interrupting) return leave()
  interrupt(talk, current).catch((error: unknown) => fail(talk, error))
}

function fail(talk: Talk, error: unknown): void {
  talk.failed = true
  talk.screen.print([problem(describeError(error))])
}
