// `pawl events [session]`: the feed over all sessions, or the events of one.
import type { Command } from 'commander'
import type { FeedEvent, TreeItem } from '../../client/index.ts'
import { treePlaces, treeStartIn } from '../../client/session/tree-places.ts'
import type { EventType } from '../../session/events.ts'
import { listenForStop, stopSignalOf } from '../running/stop.ts'
import { oneLine, paint } from '../terminal.ts'
import {
  type QueryOptions,
  queryCommand,
  queryStore,
  say,
  sessionIn,
  type SessionCommandOptions,
  timeOf,
  warnIfGone,
  warnOfUnknownAgents,
  withSession,
} from '../queries.ts'
import { onDeployment } from '../connecting.ts'
import { severalOf } from '../options.ts'
import { CliError } from '../errors.ts'
import { defined } from '../../session/defined.ts'

interface EventsOptions extends QueryOptions, SessionCommandOptions {
  type?: string[]
  agent?: string
  after?: string
  follow?: true
  tree?: true
}

export function eventsCommand(): Command {
  const command = queryCommand(
    'events',
    'show the events of all sessions in the order in which they were stored, or those of one session, from its workflow if Postgres is unavailable',
  )
  return withSession(command)
    .option('--type <types>', 'only these types, such as error_entered, separated by commas', severalOf)
    .option('--agent <name>', "only this agent's sessions")
    .option('--after <cursor>', 'continue after this cursor; --json prints one with each event')
    .option('--follow', 'continue with new events until Ctrl-C')
    .option('--tree', 'with --follow: also the events of the sessions that answer its agent calls')
    .action((session: string | undefined, options: EventsOptions) => {
      const { session: id } = sessionIn(session, options)
      if (options.tree) return eventsOfTree(id, options)
      return id === undefined ? eventsOfAll(options) : eventsOf(id, options)
    })
}

async function eventsOfAll(options: EventsOptions): Promise<void> {
  const { type, agent, after, follow } = options
  let shown = 0
  await queryStore(options, async (queries) => {
    const feed = queries.events({
      ...(type && { types: type as EventType[] }),
      ...defined({ agent, after }),
      ...(follow && { follow, signal: stopSignalOf(listenForStop()) }),
    })
    for await (const item of feed) {
      show(options, item)
      shown += 1
    }
  })
  if (shown === 0) await warnOfUnknownAgents(options, [agent])
}

/** The cursor of a session's event is its `seq`. */
async function eventsOf(sessionId: string, options: EventsOptions): Promise<void> {
  const { type, agent, after = '0', follow } = options
  const seq = Number(after)
  if (agent !== undefined) throw new CliError('invalid_usage', 'A session has only one agent. Omit --agent or the session.')
  if (!Number.isSafeInteger(seq) || seq < 0)
    throw new CliError('invalid_usage', "The cursor of a session's events is a number, such as 12.")
  let shown = 0
  await onDeployment(options, async (pawl) => {
    const from = { after: seq, ...(follow && { follow, signal: stopSignalOf(listenForStop()) }) }
    for await (const event of pawl.session(sessionId).events(from)) {
      if (type && !type.includes(event.type)) continue
      show(options, { sessionId, event, cursor: String(event.seq) })
      shown += 1
    }
  })
  if (shown === 0) await warnIfGone(options, sessionId)
}

/** Follows a session and those below it. The cursor names an event of each session that is shown. */
async function eventsOfTree(root: string | undefined, options: EventsOptions): Promise<void> {
  const { type, agent, after = '0', follow } = options
  if (root === undefined || !follow || agent !== undefined)
    throw new CliError('invalid_usage', '--tree follows one session and those below it: name the session, add --follow, and omit --agent.')
  const start = treeStartIn(root, after)
  if (start === undefined) throw new CliError('invalid_usage', 'The cursor of a tree is a number, or what --json prints with each event.')
  const places = treePlaces(root, start)
  await onDeployment(options, async (pawl) => {
    await pawl.sessions.get(root)
    const agents = new Map<string, string>()
    for await (const session of pawl.sessions.list({ tree: root, limit: 1_000 })) agents.set(session.sessionId, session.agent)
    for await (const item of pawl.session(root).watch({ tree: true, after: start, signal: stopSignalOf(listenForStop()) })) {
      const cursor = places.note(item)
      if (item.type !== 'event' || cursor === undefined) continue
      const { sessionId, event, caller } = item
      if (event.type === 'session_started') agents.set(sessionId, event.agent)
      if (type && !type.includes(event.type)) continue
      show(options, { sessionId, event, cursor, ...defined({ caller, agent: agents.get(sessionId) }) })
    }
  })
}

type ShownEvent = Pick<FeedEvent, 'sessionId' | 'event' | 'cursor'> & Pick<TreeItem, 'caller'> & { agent?: string }

function show({ json }: EventsOptions, item: ShownEvent): void {
  say(json ? JSON.stringify(item) : lineOf(item))
}

function lineOf({ sessionId, event, agent = '' }: ShownEvent): string {
  const { v: _v, seq, at, type, ...rest } = event
  const head = `${timeOf(new Date(at))}  ${oneLine(agent === '' ? sessionId : `${sessionId} ${agent}`)} ${String(seq).padStart(4)}  `
  return `${paint('dim', head)}${type.padEnd(20)} ${paint('dim', oneLine(JSON.stringify(rest), 160))}`
}
