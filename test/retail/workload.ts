// Where the retail workload is, and its files as typed values. The data is not part of this repository.
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Database } from './database.ts'
import type { JsonObject } from '../../src/session/json.ts'

/** One ground-truth call. */
export interface Action {
  name: string
  kwargs: JsonObject
}

/** One customer's errand: the calls to make, in order. */
export interface Task {
  id: string
  user_id: string
  instruction: string
  actions: Action[]
  /** Texts that the agent's answer should contain. */
  outputs: string[]
}

/** What a task must result in. */
export interface Expected {
  id: string
  results_canonical: string[]
  final_hash: string
  write_log: number[]
  repeat_log: number[]
}

/** A tool as the workload describes it. */
export interface ToolSpec {
  name: string
  description: string
  input_schema: JsonObject
  effect: 'read' | 'write'
}

const shared = process.env.PAWL_SHARED
  ? new URL(`${pathToFileURL(process.env.PAWL_SHARED).href.replace(/\/$/, '')}/`)
  : new URL('../../../shared/', import.meta.url)
/** The folder that holds workloads/: `PAWL_SHARED`, or the folder beside the repository. */
export const sharedFolder = fileURLToPath(shared)

const folder = new URL('workloads/retail/', shared)

/** Whether the workload's folder is there. */
export const hasWorkload = existsSync(new URL('tasks.jsonl', folder))

const MISSING = `The retail workload is not at ${fileURLToPath(folder)}: set PAWL_SHARED to the folder that holds workloads/.`
// Optional for developers. CI must not pass because its largest tests were skipped.
if (!hasWorkload && process.env.CI === 'true') throw new Error(MISSING)
if (!hasWorkload) console.warn(`${MISSING} Tests that need it are skipped.`)

function text(name: string): string {
  if (!hasWorkload) throw new Error(MISSING)
  return readFileSync(new URL(name, folder), 'utf8')
}

function lines<T>(name: string): T[] {
  return text(name)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T)
}

/** The tasks, in file order. */
export const readTasks = (): Task[] => lines('tasks.jsonl')

/** What the tasks must result in, by task id. */
export const readExpected = (): Map<string, Expected> => new Map(lines<Expected>('expected.jsonl').map((one) => [one.id, one]))

/** The 16 tools' descriptions. */
export const readToolSpecs = (): ToolSpec[] => JSON.parse(text('tools.json')) as ToolSpec[]

/** The fresh database that every task starts from; frozen, since all worlds share what they have not changed. */
export function readDatabase(): Database {
  const part = (name: string) => JSON.parse(text(`data/${name}.json`))
  return deepFreeze({ orders: part('orders'), products: part('products'), users: part('users') } as Database)
}

function deepFreeze<T>(value: T): T {
  if (value !== null && typeof value === 'object' && !Object.isFrozen(value)) {
    Object.freeze(value)
    Object.values(value).forEach(deepFreeze)
  }
  return value
}
