// `pawl show <session>`: one session at a glance.
import type { Command } from 'commander'
import type { ListedCheckpoint, ListedError, ListedSession, ListedToolCall } from '../../client/index.ts'
import { oneLine, paint } from '../terminal.ts'
import { type AskingOptions, askingCommand, askStore, dollarsOf, say, timeOf } from './shared.ts'
import { linesOfTable } from './table.ts'
import { CALL_COLUMNS } from './tools.ts'

/** What is shown, and what `--json` gives as one object. */
interface Glance {
  session: ListedSession
  latestCheckpoint: ListedCheckpoint | null
  /** Calls that are not over, or whose outcome is unknown. */
  openCalls: ListedToolCall[]
  /** The newest five. */
  errors: ListedError[]
}

const OPEN: ReadonlySet<string> = new Set(['issued', 'running', 'awaiting_approval', 'awaiting_answer', 'unknown'])
const ERRORS = 5

/** The command. */
export function showCommand(): Command {
  return askingCommand('show', 'show how a session stands: its figures, open calls, newest errors')
    .argument('<session>', "the session's id")
    .action((id: string, options: AskingOptions) =>
      askStore(options, async (asking) => {
        const of = asking.session(id)
        const session = await asking.sessions.get(id)
        const [latestCheckpoint, calls, errors] = await Promise.all([
          of.latestCheckpoint(),
          of.toolCalls(),
          asking.errors({ session: id, limit: ERRORS }),
        ])
        const glance = { session, latestCheckpoint, openCalls: calls.filter(({ status }) => OPEN.has(status)), errors: errors.items }
        if (options.json) say(JSON.stringify(glance))
        else for (const line of linesOf(glance)) say(line)
      }),
    )
}

function linesOf({ session, latestCheckpoint, openCalls, errors }: Glance): string[] {
  const line = (name: string, value: string | null): string[] => (value === null ? [] : [`  ${name.padEnd(11)} ${oneLine(value)}`])
  const { usage } = session
  return [
    ...line('session', session.sessionId),
    ...line('agent', session.agent),
    ...line('status', session.status),
    ...line('error', session.error && `${session.error.code}: ${session.error.reason}`),
    ...line('forked', session.parent && `from ${session.parent}, after its event ${session.forkedSeq}`),
    ...line('runs', `${session.run}, turns ${session.turns}, events ${session.flushedSeq}`),
    ...line('model', session.model),
    ...line('tokens', `${usage.input_tokens} in, ${usage.output_tokens} out, ${dollarsOf(session.usd) ?? 'price unknown'}`),
    ...line('created', timeOf(session.createdAt)),
    ...line('updated', `${timeOf(session.updatedAt)}, stored ${timeOf(session.flushedAt)}`),
    ...line('pruned', timeOf(session.prunedAt)),
    ...line('erased', timeOf(session.erasedAt)),
    ...line(
      'checkpoint',
      latestCheckpoint && `${latestCheckpoint.version}, ${latestCheckpoint.reason}, ${timeOf(latestCheckpoint.createdAt)}`,
    ),
    ...line('context', session.context === null ? null : JSON.stringify(session.context)),
    ...line('tags', session.tags.length > 0 ? session.tags.join(', ') : null),
    ...(openCalls.length > 0 ? ['', ...linesOfTable(CALL_COLUMNS, openCalls)] : []),
    ...(errors.length > 0 ? ['', ...errors.map(errorLine)] : []),
  ]
}

function errorLine({ at, context, attempt, code, class: kind, message }: ListedError): string {
  const which = attempt === null ? context : `${context}, attempt ${attempt}`
  return `  ${timeOf(at)}  ${paint('red', oneLine(`${which}: ${code ?? kind}: ${message}`))}`
}
