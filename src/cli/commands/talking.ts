// The commands for talking to a session outside a chat: `pawl send`, `interrupt` and `close`.
import { setTimeout as sleep } from 'node:timers/promises'
import { Argument } from 'commander'
import type { SessionHandle, SessionOptions } from '../../client/index.ts'
import { isRunInProgress } from '../../session/decide.ts'
import { defined } from '../../session/defined.ts'
import type { Duration } from '../../session/duration.ts'
import type { SessionStatus } from '../../session/events.ts'
import type { Json } from '../../session/json.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import type { SessionView } from '../../session/watching/view.ts'
import { linesOfState } from '../chat/lines.ts'
import { deploymentOptions } from '../connecting.ts'
import { blockOfPath } from '../file-blocks.ts'
import { labelledText } from '../../session/content.ts'
import { timeOf } from '../queries.ts'
import { oneLine } from '../terminal.ts'
import { here } from '../here.ts'
import { byOption, jsonOf, jsonOption, option, reasonOption, severalOf } from '../options.ts'
import { type ChangeFlags, type RequestFlags, sessionCommand } from '../session-command.ts'

interface SendFlags extends RequestFlags {
  agent?: string
  context?: Json
  tag?: string[]
  messageId?: string
  deadline?: Duration
  at?: string
  delay?: Duration
  interrupt?: true
  file?: string[]
}

const send = sessionCommand<SendFlags, [text: string]>({
  name: 'send',
  summary: 'send a message to a session; it is recorded once the command exits, even with no worker running',
  words: [new Argument('<text>', 'the message')],
  options: [
    ...deploymentOptions(),
    option('--agent <name>', 'the agent: required to start a session, or to resume one whose workflow has closed'),
    option('--context <json>', "the context of a session that the message starts, as the agent's schema requires", jsonOf),
    option('--tag <tags>', 'tags of a session that the message starts, separated by commas', severalOf),
    option('--message-id <id>', "the message's id; pawl accepts each id once (default: a new id)"),
    option(
      '--deadline <duration>',
      'how long the answer may take, such as 5m; after that, the run that has the message fails (default: no limit)',
    ),
    option('--at <time>', 'when the message is delivered, such as 2026-12-24T18:00:00+01:00 (default: at once)'),
    option('--delay <duration>', 'how long from now the message is delivered, such as 2h (default: at once)'),
    option('--interrupt', 'stop the run in progress; the message opens the next one'),
    option<string[]>('--file <path>', 'a file of the message: a PDF, an image or text; repeat it for several', (path, all = []) => [
      ...all,
      path,
    ]),
    jsonOption(),
  ],
  async run(pawl, session, { agent, context, tag: tags, messageId, deadline, at, delay, interrupt, file: files = [] }, text) {
    const content = files.length === 0 ? text : [{ type: 'text' as const, text }, ...(await Promise.all(files.map(blockOfPath)))]
    const handle = pawl.session(session, defined({ agent, context, tags }) as SessionOptions)
    const run = await handle.send(content, defined({ messageId, deadline, at, delay, interrupt }))
    return {
      json: { event: 'sent', sessionId: session, messageId: run.messageId },
      lines: [`message ${run.messageId} was sent to session ${session}`],
    }
  },
})

/** A session without a run closes within moments; the command does not wait for a run to end. */
const CLOSES_WITHIN_MS = 5_000
const LOOK_EVERY_MS = 100

const close = sessionCommand<ChangeFlags & { unschedule?: true }>({
  name: 'close',
  summary: 'close a session once its run has ended; the next message opens it again',
  options: [...deploymentOptions(), byOption(), option('--unschedule', 'take back its scheduled messages first'), jsonOption()],
  async run(pawl, session, { by, unschedule }) {
    const handle = pawl.session(session)
    await handle.close({ by, ...defined({ unschedule }) })
    const status = await statusAfter(handle)
    const text =
      status === 'closed'
        ? `session ${session} is closed`
        : `session ${session} is ${status} and closes once its run has ended: \`${here(SUGGESTIONS.interrupt(session))}\` ends the run`
    return { json: { event: status === 'closed' ? 'closed' : 'closing', sessionId: session, status }, lines: [text] }
  },
})

async function statusAfter(handle: SessionHandle): Promise<SessionStatus> {
  for (const until = Date.now() + CLOSES_WITHIN_MS; ; await sleep(LOOK_EVERY_MS)) {
    const { status } = await handle.state()
    if (status === 'closed' || status === 'running' || status === 'waiting' || Date.now() > until) return status
  }
}

/** Calls that react to their abort signals end within a second; the command does not wait for others. */
const ENDS_WITHIN_MS = 5_000

const interrupt = sessionCommand({
  name: 'interrupt',
  summary: 'stop the run in progress; messages that it has not seen open the next one',
  options: [...deploymentOptions(), byOption(), reasonOption(), jsonOption()],
  async run(pawl, id, { by, reason }) {
    const session = pawl.session(id)
    const before = await session.state()
    await session.interrupt({ by, ...defined({ reason }) })
    const { state, isOver } = await stateAfterRun(session, before)
    const waits = isOver ? [] : ['  the run ends once its calls have ended; some of them do not react to their abort signals']
    return { json: { event: isOver ? 'interrupted' : 'interrupting', ...state }, lines: [...linesOfState(state), ...waits] }
  },
})

/**
 * The state once no run is being stopped, or after a while. A run that was in progress before the interrupt is being stopped, even if its
 * worker does not say so; by the time of the interrupt, another one may have begun.
 */
async function stateAfterRun(session: SessionHandle, before: SessionView): Promise<{ state: SessionView; isOver: boolean }> {
  for (const until = Date.now() + ENDS_WITHIN_MS; ; await sleep(LOOK_EVERY_MS)) {
    const state = await session.state()
    const isOver = !isRunInProgress(state) || !(state.current?.stopping || state.current?.run === before.current?.run)
    if (isOver || Date.now() > until) return { state, isOver }
  }
}

const scheduled = sessionCommand<RequestFlags>({
  name: 'scheduled',
  summary: 'list the messages that a session delivers later',
  options: [...deploymentOptions(), jsonOption()],
  async run(pawl, session) {
    const messages = await pawl.session(session).scheduled()
    const lines = messages.map(({ messageId, dueAt, content }) => `${timeOf(dueAt)}  ${messageId}  ${oneLine(labelledText(content))}`)
    return { json: { sessionId: session, messages }, lines: lines.length > 0 ? lines : [`session ${session} has no scheduled messages`] }
  },
})

const unschedule = sessionCommand<ChangeFlags, [message: string]>({
  name: 'unschedule',
  summary: 'take back a message that a session would deliver later',
  words: [new Argument('<message>', "the message's id")],
  options: [...deploymentOptions(), byOption(), reasonOption(), jsonOption()],
  async run(pawl, session, { by, reason }, messageId) {
    await pawl.session(session).unschedule(messageId, { by, ...defined({ reason }) })
    return { json: { event: 'unscheduled', sessionId: session, messageId }, lines: [`message ${messageId} is not delivered`] }
  },
})

export const TALKING = [send, scheduled, unschedule, interrupt, close]
