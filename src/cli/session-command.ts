// A command that changes one session: it connects, makes the request, and prints the outcome.
import { type Argument, Command, type Option } from 'commander'
import type { Pawl } from '../client/index.ts'
import { type DeploymentOptions, onDeployment } from './connecting.ts'
import { sayAs } from './queries.ts'

/** Options of all these commands. */
export interface RequestFlags extends DeploymentOptions {
  json?: true
}

/** Options of the commands that record who requests the change. */
export interface ChangeFlags extends RequestFlags {
  by: string
  reason?: string
}

/** What a command prints: the lines, or the object with `--json`. */
export interface CommandOutput {
  json: object
  lines: readonly string[]
}

export interface SessionCommand<O extends RequestFlags, Words extends unknown[]> {
  name: string
  summary: string
  /** The arguments that follow the session. */
  words?: readonly Argument[]
  options: readonly Option[]
  /** Refuses options before the command connects. */
  check?(options: O): unknown
  run(pawl: Pawl, session: string, options: O, ...words: Words): Promise<CommandOutput>
}

/** Returns a function, because a command belongs to the program that it is added to. */
export function sessionCommand<O extends RequestFlags = ChangeFlags, Words extends unknown[] = []>(
  row: SessionCommand<O, Words>,
): () => Command {
  return () => {
    const command = new Command(row.name).description(row.summary).argument('<session>', "the session's id")
    for (const word of row.words ?? []) command.addArgument(word)
    for (const option of row.options) command.addOption(option)
    return command.action(async (session: string, ...rest: unknown[]) => {
      // Commander passes the arguments, the options and the command.
      const options = rest.at(-2) as O
      row.check?.(options)
      const words = rest.slice(0, -2) as Words
      const { json, lines } = await onDeployment(options, (pawl) => row.run(pawl, session, options, ...words))
      sayAs(options, json, () => lines)
    })
  }
}
