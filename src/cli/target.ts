// Options that name a point of a session's past, for the commands that look or go back to one.
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Target } from '../session/events.ts'
import { CliError } from './errors.ts'

/** What stands in the options; at most one of them. */
export interface TargetOptions {
  checkpoint?: number
  message?: string
  run?: number
}

/** Adds the options. */
export function withTarget(command: Command): Command {
  return command
    .addOption(new Option('--checkpoint <version>', 'at this checkpoint').argParser(numberOf).conflicts(['message', 'run']))
    .addOption(new Option('--message <id>', 'just before this message was taken in').conflicts(['checkpoint', 'run']))
    .addOption(new Option('--run <number>', 'just before this run began').argParser(numberOf).conflicts(['checkpoint', 'message']))
}

/** The point that the options name, if they do. */
export function targetIn({ checkpoint, message, run }: TargetOptions): Target | undefined {
  if (checkpoint !== undefined) return { checkpoint }
  if (message !== undefined) return { message }
  return run === undefined ? undefined : { run }
}

/** The same where one has to be named. @throws CliError `invalid_target`. */
export function neededTarget(options: TargetOptions): Target {
  const target = targetIn(options)
  if (target) return target
  throw new CliError(
    'invalid_usage',
    'Say where to: --checkpoint <version>, --message <id> or --run <number>; pawl checkpoints <session> lists them.',
  )
}

function numberOf(text: string): number {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < 1) throw new InvalidArgumentError('Give a number from 1 on.')
  return number
}
