// Commands that pawl suggests, as they must be typed here: with the options that say where this command has looked.
import type { Command } from 'commander'

/** Options that name a deployment: a suggested command without them would look elsewhere. */
const PLACE = ['taskQueue', 'schema', 'data'] as const

let program: Command | undefined
let given = new Map<string, string>()

/** Remembers what the command line of `action` says about the place. */
export function rememberPlace(of: Command, action: Command): void {
  program = of
  given = new Map(
    PLACE.flatMap((name) => {
      const value: unknown = action.getOptionValue(name)
      return action.getOptionValueSource(name) === 'cli' && typeof value === 'string' ? [[name, value]] : []
    }),
  )
}

/** The command with the options about the place that it has, too. */
export function here(command: string): string {
  const [, name] = command.split(' ')
  const options = program?.commands.find((one) => one.name() === name)?.options ?? []
  const place = options.flatMap((option) => {
    const value = given.get(option.attributeName())
    return value === undefined ? [] : [` ${option.long} ${/^[\w./:@-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`}`]
  })
  return `${command}${place.join('')}`
}

/** The text with its commands, which are between backticks, as they must be typed here. */
export function withPlaces(text: string): string {
  return text.replace(/`(pawl [^`]+)`/g, (_, command: string) => `\`${here(command)}\``)
}
