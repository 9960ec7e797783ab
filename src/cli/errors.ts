// Error messages of the command line.
import { inspect } from 'node:util'
import { PawlError } from '../session/errors.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'
import { withPlaces } from './here.ts'

/** A command that cannot be carried out. */
export class CliError extends PawlError {
  override readonly name = 'CliError'
}

/** The text for a person: `code: message`, and the cause if it adds something; the stack only with `PAWL_DEBUG`. */
export function describeError(error: unknown): string {
  if (process.env.PAWL_DEBUG) return inspect(error, { depth: 6 })
  // Recognised by name, so that commands for Postgres do not load the Temporal client.
  if (error instanceof Error && error.name === 'NamespaceNotFoundError') {
    return `namespace_not_found: ${error.message}. Set TEMPORAL_NAMESPACE to an existing namespace.`
  }
  if (!(error instanceof PawlError)) {
    return `internal_error: ${messageOf(error)}\n  Run the command again with PAWL_DEBUG=1 to see the stack trace.`
  }
  const cause = causeOf(error)
  const more = cause !== '' && !REFERS.test(cause) && !error.message.includes(cause.replace(/\.$/, '')) ? `\n  caused by: ${cause}` : ''
  return withPlaces(`${error.code}: ${inTerminal(error.message)}${more}`)
}

/** pawl's texts name what to do next in TypeScript. At a terminal, a person uses these instead. */
const IN_TERMINAL: readonly [named: RegExp, command: string][] = [
  [/Name the agent, pawl\.session\(id, \{ agent \}\),/g, 'Name the agent (--agent)'],
  [/list them with session\.checkpoints\(\)/g, `\`${SUGGESTIONS.listCheckpoints()}\` lists them`],
  [/call session\.recover\(\{ strategy: '(\w+)' \}\)/g, `use \`${SUGGESTIONS.recover({ session: '<session>' })} --strategy $1\``],
  [/in \(await session\.state\(\)\)\.error\.options/g, `that \`${SUGGESTIONS.statusOf()}\` lists`],
]

function inTerminal(text: string): string {
  return IN_TERMINAL.reduce((so, [named, command]) => so.replace(named, command), text)
}

/** The first line of its innermost cause; empty if there is none, or if it says only that a session does not exist or is not open. */
function causeOf({ cause }: PawlError): string {
  if (cause === undefined) return ''
  const root = rootOf(cause)
  return root instanceof Error && root.name === 'WorkflowNotFoundError' ? '' : firstLineOf(messageOf(root))
}

/** Matches a message that only refers to the failure's details, which `error` already includes. */
const REFERS = /see the details of this failure\.$/i

/** The innermost cause: wrappers ("Workflow Update failed") say less. */
function rootOf(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? rootOf(error.cause) : error
}

function firstLineOf(text: string): string {
  return text.split('\n', 1)[0] ?? ''
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
