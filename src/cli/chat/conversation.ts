// A conversation with one agent in the terminal, from its first line to its end.
import type { SessionHandle, SessionOptions } from '../../client/types.ts'
import { PawlError } from '../../session/errors.ts'
import type { Json } from '../../session/json.ts'
import { type Command, commandOf, HELP } from './slash-commands.ts'
import { CliError, describeError } from '../errors.ts'
import { type Follower, followRuns } from './follow.ts'
import { lastSeqOf, linesOfEvent, linesOfMessages, linesOfState, note, problem } from './lines.ts'
import { openScreen, type Screen } from './screen.ts'
import { paint } from '../terminal.ts'
import { defined } from '../../session/defined.ts'

/** What a conversation needs of the client. */
export interface Sessions {
  session(id?: string, options?: SessionOptions): SessionHandle
}

/** What a conversation is about. */
export interface ConversationOptions {
  /** Which agent; a session that is gone on with knows it. */
  agent?: string
  context?: Json
  /** Id of a session to start, or to go on with unseen. */
  sessionId?: string
  /** Id of a session to go on with, its conversation shown first. */
  resume?: string
}

/** How a conversation ended: `failed` if a run or a message did, `left` if a pipe's conversation was cut off. */
export type ConversationEnd = 'ok' | 'failed' | 'left'

/** A conversation that is going on. */
interface Talk {
  readonly sessions: Sessions
  readonly options: ConversationOptions
  readonly screen: Screen
  current?: Current
  failed: boolean
  left: boolean
  /** An interrupt was asked for and the run has not ended yet. */
  interrupting: boolean
  /** Nothing is shown any more. */
  over: boolean
}

/** The session that is being talked to. */
interface Current {
  session: SessionHandle
  agent: string
  follower: Follower
  /** Ids of the messages that were sent from here. */
  own: Set<string>
  /** Ends with the last run that is being shown. */
  shown: Promise<void>
}

const SILENCE = 'No worker has taken it up yet. It is recorded, and continues once one serves (pawl dev, pawl worker).'

/** Who sits before a terminal may have misspelt the agent: a deploy's grace time of two minutes is not for them. */
const NOT_SERVED_AFTER_MS = 10_000

/**
 * Talks until the input ends or somebody leaves.
 * @throws SessionNotFound for a `resume` that nobody knows; CliError `agent_mismatch`.
 */
export async function converse(sessions: Sessions, options: ConversationOptions): Promise<ConversationEnd> {
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
    screen.print([note(`resume later: pawl chat ${talk.current.agent} --resume ${talk.current.session.id}`)])
  }
  if (talk.left && !screen.interactive) return 'left'
  return talk.failed ? 'failed' : 'ok'
}

async function takeLines(talk: Talk): Promise<void> {
  const { resume: id } = talk.options
  if (id === undefined) begin(talk)
  else await resume(talk, id)
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
  if (!talk.screen.interactive) await talk.current?.shown
}

async function carryOut(talk: Talk, command: Command): Promise<void> {
  const { current, screen } = talk
  if (!current) return
  switch (command.name) {
    case 'send':
      return send(talk, current, command.text)
    case 'state':
      return screen.print(linesOfState(await current.session.state()))
    case 'resume':
      return resume(talk, command.id)
    case 'interrupt':
      return current.follower.busy() ? interrupt(talk, current) : screen.print([note('no run is going on')])
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
  const { agent = '', context, sessionId } = talk.options
  const notServedAfter = NOT_SERVED_AFTER_MS
  const session = talk.sessions.session(sessionId, { agent, notServedAfter, ...defined({ context }) })
  enter(talk, session, agent, 0)
  talk.screen.print([note(`session ${session.id} with ${agent}; /help lists the commands`)])
}

async function resume(talk: Talk, id: string): Promise<void> {
  const state = await talk.sessions.session(id).state()
  const { agent = state.agent } = talk.options
  const session = talk.sessions.session(id, { agent })
  if (state.agent !== agent) {
    throw new CliError('agent_mismatch', `Session ${id} talks to "${state.agent}": pawl chat ${state.agent} --resume ${id}`)
  }
  const rows = await session.messages()
  const current = enter(talk, session, agent, lastSeqOf(rows))
  const error = state.error ? [problem(`error, ${state.error.code}: ${state.error.reason}`)] : []
  talk.screen.print([note(`session ${id} with ${agent}, ${state.status}`), ...linesOfMessages(rows, agent), ...error])
  if (state.status === 'running' && state.current) follow(talk, current, state.current.messageId)
  reopen(talk, current)
}

/** One whose workflow has closed goes on, as soon as somebody serves it: the conversation does not wait for that. */
function reopen(talk: Talk, current: Current): void {
  current.session.resume().catch((error: unknown) => {
    if (!talk.over && talk.current === current) fail(talk, error)
  })
}

/** Makes a session the one that is talked to; events up to `shownUpTo` are not shown again. */
function enter(talk: Talk, session: SessionHandle, agent: string, shownUpTo: number): Current {
  talk.current?.follower.stop()
  talk.interrupting = false
  const own = new Set<string>()
  const speakers = { agent, isOwn: (id: string) => own.has(id) }
  const follower = followRuns({
    shownUpTo,
    onEvent: (event) => talk.screen.print(linesOfEvent(event, speakers)),
    onSilence: (isSilent) => void saySilence(talk, session, isSilent),
    onError: (error) => fail(talk, error),
  })
  talk.current = { session, agent, follower, own, shown: Promise.resolve() }
  return talk.current
}

/** Says what the session waits for, if nothing has come of the message meanwhile. */
async function saySilence({ screen }: Talk, session: SessionHandle, isSilent: () => boolean): Promise<void> {
  const why = await session.state().then(
    () => SILENCE,
    (error: unknown) => (error instanceof PawlError && error.code === 'session_unavailable' ? error.message : SILENCE),
  )
  if (isSilent()) screen.print([note(why)])
}

async function send(talk: Talk, current: Current, text: string): Promise<void> {
  // The id is known before the message is on its way: its event may come back before `send` does.
  const messageId = crypto.randomUUID()
  current.own.add(messageId)
  await current.session.send(text, { messageId })
  follow(talk, current, messageId)
  // At a terminal the next message may be typed meanwhile and joins the run; a pipe's waits for the answer.
  if (!talk.screen.interactive) await current.shown
}

function follow(talk: Talk, current: Current, messageId: string): void {
  const { session, follower } = current
  current.shown = follower.follow(session.run(messageId)).then((followed) => {
    if (followed === 'failed') talk.failed = true
    if (!follower.busy()) talk.interrupting = false
  })
}

async function interrupt(talk: Talk, current: Current): Promise<void> {
  talk.interrupting = true
  talk.screen.print([note('interrupting the run; Ctrl-C once more leaves it to itself')])
  await current.session.interrupt({ by: 'pawl chat' })
}

/** Ctrl-C: interrupts the run that is going on; leaves when there is none, or when it was asked to stop already. */
function onInterrupt(talk: Talk, leave: () => void): void {
  const { current } = talk
  if (!current?.follower.busy() || talk.interrupting) return leave()
  interrupt(talk, current).catch((error: unknown) => fail(talk, error))
}

function fail(talk: Talk, error: unknown): void {
  talk.failed = true
  talk.screen.print([problem(describeError(error))])
}
