// Options that name a point of a session's past.
import { Option } from 'commander'
import type { Target } from '../session/events.ts'
import { CliError } from './errors.ts'
import { ordinalOf } from './options.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'

/** The options; at most one is set. */
export interface TargetOptions {
  checkpoint?: number
  message?: string
  run?: number
}

export function pointOptions(): Option[] {
  return [
    new Option('--checkpoint <version>', 'the point of this checkpoint').argParser(ordinalOf).conflicts(['message', 'run']),
    new Option('--message <id>', 'the point just before this message was accepted').conflicts(['checkpoint', 'run']),
    new Option('--run <number>', 'the point just before this run began').argParser(ordinalOf).conflicts(['checkpoint', 'message']),
  ]
}

/** The point that the options name, if any. */
export function targetIn({ checkpoint, message, run }: TargetOptions): Target | undefined {
  if (checkpoint !== undefined) return { checkpoint }
  if (message !== undefined) return { message }
  return run === undefined ? undefined : { run }
}

/** The same for commands that require a point. @throws CliError `invalid_usage`. */
export function neededTarget(options: TargetOptions): Target {
  const target = targetIn(options)
  if (target) return target
  throw new CliError(
    'invalid_usage',
    `Name a point with --checkpoint <version>, --message <id> or --run <number>; \`${SUGGESTIONS.listCheckpoints()}\` lists checkpoints.`,
  )
}
