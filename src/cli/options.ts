// Options that several commands share, and how their values are read.
import { InvalidArgumentError, Option } from 'commander'
import { DATA_FOLDER } from '../connect/dev-stack.ts'
import type { Json } from '../session/json.ts'

const MAX_PROCESSES = 64

/** `--processes <n>` */
export function processesOption(): Option {
  return new Option('--processes <n>', 'worker processes; with two, one is warm while another is replaced').default(2).argParser(countOf)
}

/** `--task-queue <name>` */
export function taskQueueOption(): Option {
  return new Option('--task-queue <name>', 'Temporal task queue').default('pawl')
}

/** `--executor-memory <mb>` */
export function executorMemoryOption(): Option {
  return new Option('--executor-memory <mb>', 'megabytes of heap that an executor may use; above that it is replaced').argParser((text) => {
    const megabytes = Number(text)
    if (!Number.isInteger(megabytes) || megabytes < 32) throw new InvalidArgumentError('Give a whole number of megabytes, from 32.')
    return megabytes
  })
}

/** `--json` */
export function jsonOption(): Option {
  return new Option('--json', 'print one JSON object a line and nothing else')
}

/** `--data <folder>` */
export function dataOption(): Option {
  return new Option('--data <folder>', 'folder of the embedded stack; default: .pawl, here or in a folder above').default(DATA_FOLDER)
}

function countOf(text: string): number {
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1 || count > MAX_PROCESSES)
    throw new InvalidArgumentError(`Give a number from 1 to ${MAX_PROCESSES}.`)
  return count
}

/** Reads the value of an option that is JSON. */
export function jsonOf(text: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch (error) {
    throw new InvalidArgumentError(`Give JSON, such as '{"tenantId":"acme"}' (${error instanceof Error ? error.message : String(error)}).`)
  }
}
