// `pawl events`: the feed over all sessions.
import type { Command } from 'commander'
import type { FeedEvent } from '../../client/index.ts'
import type { EventType } from '../../session/events.ts'
import { listenForStop, stopSignalOf } from '../serving/stop.ts'
import { oneLine, paint } from '../terminal.ts'
import { type AskingOptions, askingCommand, askStore, say, severalOf, timeOf } from '../asking.ts'
import { defined } from '../../session/defined.ts'

interface EventsOptions extends AskingOptions {
  type?: string[]
  agent?: string
  after?: string
  follow?: true
}

/** The command. */
export function eventsCommand(): Command {
  return askingCommand(
    'events',
    'show the events of all sessions in the order of storage; each is shown at least once, and none is skipped',
  )
    .option('--type <types>', 'only these types, such as error_entered, separated by commas', severalOf)
    .option('--agent <name>', "only this agent's sessions")
    .option('--after <cursor>', 'continue after this cursor; --json prints one with each event')
    .option('--follow', 'continue with new events until Ctrl-C')
    .action(events)
}

async function events(options: EventsOptions): Promise<void> {
  const { type, agent, after, follow, json } = options
  await askStore(options, async (asking) => {
    const feed = asking.events({
      ...(type && { types: type as EventType[] }),
      ...defined({ agent, after }),
      ...(follow && { follow, signal: stopSignalOf(listenForStop()) }),
    })
    for await (const item of feed) say(json ? JSON.stringify(item) : lineOf(item))
  })
}

function lineOf({ sessionId, event }: FeedEvent): string {
  const { v: _v, seq, at, type, ...rest } = event
  const head = `${timeOf(new Date(at))}  ${oneLine(sessionId)} ${String(seq).padStart(4)}  `
  return `${paint('dim', head)}${type.padEnd(20)} ${paint('dim', oneLine(JSON.stringify(rest), 160))}`
}
