// The demo's command line.
import { randomInt } from 'node:crypto'
import { Command, InvalidArgumentError, Option } from 'commander'

/** What the demo was asked to do. */
export interface DemoOptions {
  tickets: number
  kills: number
  seed: number
  /** A Claude model's name; absent: the scripted model. */
  model?: string
  /** `json`: the report as one JSON line last on stdout, all else on stderr. */
  output: 'text' | 'json'
  /** Instead of that, leaves a deployment up to look at in the console (examples/console). */
  console: boolean
}

const MAX_SEED = 2 ** 32 - 1

const integerFrom =
  (low: number, high = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || value < low || value > high) throw new InvalidArgumentError(`Give a whole number from ${low} to ${high}.`)
    return value
  }

/** Reads the command line; a bad one ends the process with a message. */
export function readOptions(argv: readonly string[]): DemoOptions {
  const command = new Command('demo')
    .description('A support desk works through customer tickets while its worker processes are killed with SIGKILL.')
    .addOption(new Option('--tickets <n>', 'how many tickets').default(40).argParser(integerFrom(1, 100_000)))
    .addOption(new Option('--kills <n>', 'how many SIGKILLs').default(20).argParser(integerFrom(0, 100_000)))
    .addOption(
      new Option('--seed <n>', 'seed of the tickets, the latencies and the kills (default: random)').argParser(integerFrom(0, MAX_SEED)),
    )
    .addOption(new Option('--model <name>', 'a Claude model instead of the scripted one; needs ANTHROPIC_API_KEY'))
    .addOption(new Option('--json', 'the report as one JSON line, last on stdout'))
    .addOption(new Option('--console', 'instead: start a deployment to look at in the console, and leave it up until Ctrl-C'))
    .parse([...argv], { from: 'user' })
  const given = command.opts<{ tickets: number; kills: number; seed?: number; model?: string; json?: true; console?: true }>()
  if (given.model !== undefined && !process.env.ANTHROPIC_API_KEY) {
    command.error(`error: --model ${given.model} needs ANTHROPIC_API_KEY: set it, or leave out --model for the scripted model.`)
  }
  return {
    tickets: given.tickets,
    kills: given.kills,
    seed: given.seed ?? randomInt(1_000_000),
    ...(given.model !== undefined && { model: given.model }),
    output: given.json ? 'json' : 'text',
    console: given.console === true,
  }
}
