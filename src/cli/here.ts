// Completes the commands that pawl suggests with the options that say where the current command looked.
import type { Command } from 'commander'

/** Options that select a deployment: without them, a suggested command would look elsewhere. */
const PLACE = ['taskQueue', 'schema', 'data'] as const

let program: Command | undefined
let given = new Map<string, string>()

/** Remembers the options in `action`'s command line that select a deployment. */
export function rememberPlace(of: Command, action: Command): void {
  program = of
  given = new Map(
    PLACE.flatMap((name) => {
      const value: unknown = action.getOptionValue(name)
      return action.getOptionValueSource(name) === 'cli' && typeof value === 'string' ? [[name, value]] : []
    }),
  )
}

/** The command with those of the remembered options that it accepts. */
export function here(command: string): string {
  const [, name, inner] = command.split(' ')
  const named = program?.commands.find((one) => one.name() === name)
  // A command with subcommands, such as `pawl gates`, has its options on them; the first subcommand is the default.
  const found = named?.commands.find((one) => one.name() === inner) ?? named?.commands[0] ?? named
  const options = found?.options ?? []
  const place = options.flatMap((option) => {
    const value = given.get(option.attributeName())
    return value === undefined ? [] : [` ${option.long} ${/^[\w./:@-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`}`]
  })
  return `${command}${place.join('')}`
}

/** The text, with the commands between backticks completed by `here`. */
export function withPlaces(text: string): string {
  return text.replace(/`(pawl [^`]+)`/g, (_, command: string) => `\`${here(command)}\``)
}
