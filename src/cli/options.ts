// Shared options, and how their values are parsed.
import { userInfo } from 'node:os'
import { InvalidArgumentError, Option } from 'commander'
import { DATA_FOLDER } from '../connect/dev-stack.ts'
import { milliseconds } from '../session/duration.ts'
import type { Json } from '../session/json.ts'
import { isOrdinal } from '../session/protocol/requests.ts'

const MAX_PROCESSES = 64

/** The help text about logs, for commands that log. */
export const LOG_HELP = `
Logs go to standard error: JSON, or readable lines on a terminal.
  PAWL_LOG_LEVEL   debug, info (default), warn, error or silent
  PAWL_LOG_REDACT  names whose values are redacted in addition to the usual ones, such as email,customer.phone`

/** An option; `parse` reads its value. */
export function option<T = string>(flags: string, description: string, parse?: (text: string, previous: T) => T): Option {
  const made = new Option(flags, description)
  return parse ? made.argParser(parse) : made
}

/** `--by <who>`, the same for every command that changes something. */
export function byOption(): Option {
  return new Option('--by <who>', 'who requests it; recorded').default(operator(), "the operating system's user")
}

/** `--reason <text>` */
export function reasonOption(): Option {
  return new Option('--reason <text>', 'the reason; recorded')
}

/** The operating system's user; `unknown` if it has no name. */
export function operator(): string {
  try {
    return userInfo().username || 'unknown'
  } catch {
    return 'unknown'
  }
}

/** `--processes <n>` */
export function processesOption(): Option {
  return new Option('--processes <n>', 'processes that run your module; with two, one is ready while another is replaced')
    .default(2)
    .argParser(countOf)
}

/** `--task-queue <name>` */
export function taskQueueOption(): Option {
  return new Option('--task-queue <name>', 'Temporal task queue').default('pawl')
}

/** `--executor-memory <mb>` */
export function executorMemoryOption(): Option {
  return new Option(
    '--executor-memory <mb>',
    'heap limit in megabytes of a process that runs your module; beyond it, the process is replaced',
  ).argParser((text) => {
    const megabytes = Number(text)
    if (!Number.isInteger(megabytes) || megabytes < 32) throw new InvalidArgumentError('Use a whole number of megabytes, at least 32.')
    return megabytes
  })
}

/** `--heal-after <duration>` */
export function healAfterOption(): Option {
  const about = 'how long a session that no worker can replay waits before it continues in a new execution; never: a person must act'
  return new Option('--heal-after <duration>', about).default('2m').argParser((text) => (text === 'never' ? false : text))
}

/** `--json` */
export function jsonOption(): Option {
  return new Option('--json', 'print one JSON object per line and nothing else')
}

/** `--data <folder>` */
export function dataOption(): Option {
  return new Option('--data <folder>', 'data folder of `pawl dev`; by default .pawl in this folder or one above it').default(DATA_FOLDER)
}

/** `--limit <n>` */
export function limitOption(what: string): Option {
  return new Option('--limit <n>', what).default(50).argParser(limitOf)
}

function limitOf(text: string): number {
  const limit = Number(text)
  if (!Number.isInteger(limit)) throw new InvalidArgumentError('Use a whole number from 1 to 1,000.')
  return limit
}

function countOf(text: string): number {
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1 || count > MAX_PROCESSES)
    throw new InvalidArgumentError(`Use a number from 1 to ${MAX_PROCESSES}.`)
  return count
}

/** Parses the number of a run or the version of a checkpoint. */
export function ordinalOf(text: string): number {
  const number = Number(text)
  if (!isOrdinal(number)) throw new InvalidArgumentError('Use a positive whole number.')
  return number
}

/** Values separated by commas. */
export function severalOf(text: string): string[] {
  return text.split(',').filter((one) => one !== '')
}

/** A moment: an age, or a time. */
export function momentOf(text: string): Date {
  const ago = milliseconds(text, { max: Number.MAX_SAFE_INTEGER })
  const moment = ago === undefined ? new Date(text) : new Date(Date.now() - ago)
  if (Number.isNaN(moment.getTime()))
    throw new InvalidArgumentError("Use an age such as '2h' or '7d', or a time such as 2026-11-21T12:00:00Z.")
  return moment
}

/** The option `--at`. */
export function atOption(what: string): Option {
  return new Option('--at <checkpoint>', `${what} at the checkpoint with this number`).argParser(ordinalOf)
}

/** Parses an option's JSON value. */
export function jsonOf(text: string): Json {
  return parsedJson(text, '{"tenantId":"acme"}')
}

/** The same, with an example of what the option accepts. */
export function parsedJson(text: string, example: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch (error) {
    throw new InvalidArgumentError(`Use JSON, such as '${example}' (${error instanceof Error ? error.message : String(error)}).`)
  }
}
