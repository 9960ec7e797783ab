// What the outside process remembers: one database per world, and every request and execution that reached it.
import type { JsonObject } from '../../src/session/json.ts'
import { type Database, databaseHash } from './database.ts'
import { effectOf } from './effects.ts'
import { runTool } from './world.ts'

/** One execution of a tool: its body ran, whatever it then returned. */
export interface Execution {
  tool: string
  args: JsonObject
  /** The idempotency key, or the reference, that came with the request; null for none. */
  key: string | null
  result: string
  /** Whether it changed the database object. */
  wrote: boolean
}

/** What became of a world. */
export interface WorldReport {
  finalHash: string
  executions: Execution[]
  /** Requests answered from an earlier one with the same key, without an execution. */
  replays: number
}

/** A key that was already used with another tool or other arguments. */
export class KeyReused extends Error {
  override readonly name = 'KeyReused'
}

/** The record of a request that has a key, shared by all requests with the same key. */
interface Keyed {
  intent: string
  result: Promise<string>
}

/** A world: a database of its own, and what happened to it. */
export interface World {
  database: Database
  executions: Execution[]
  replays: number
  /** Of `idempotent` tools. */
  keyed: Map<string, Keyed>
  /** Requests of `external` tools that are in progress, by reference: a look-up waits for them. */
  pending: Map<string, Set<Promise<string>>>
}

/** A fresh world. */
export function createWorld(database: Database): World {
  return { database, executions: [], replays: 0, keyed: new Map(), pending: new Map() }
}

/** One request for one tool. `delay` is awaited before and after the effect. */
export interface Request {
  tool: string
  args: JsonObject
  key: string | null
  delay: () => Promise<void>
}

/** Carries out a request. An `idempotent` tool with a key runs once; anything else runs as often as it is asked for. */
export async function handle(world: World, request: Request): Promise<string> {
  const { tool, key } = request
  const effect = effectOf(tool)
  if (key === null || effect === 'read') return execute(world, request)
  if (effect === 'idempotent') return executeOnce(world, key, request)
  return trackPending(world, key, execute(world, request))
}

async function execute(world: World, { tool, args, key, delay }: Request): Promise<string> {
  await delay()
  const { text, database } = runTool(world.database, tool, args)
  world.executions.push({ tool, args, key, result: text, wrote: database !== world.database })
  world.database = database
  await delay()
  return text
}

async function executeOnce(world: World, key: string, request: Request): Promise<string> {
  const intent = JSON.stringify([request.tool, request.args])
  const earlier = world.keyed.get(key)
  if (!earlier) {
    const result = execute(world, request)
    world.keyed.set(key, { intent, result })
    result.catch(() => world.keyed.delete(key))
    return result
  }
  if (earlier.intent !== intent) throw new KeyReused(`The key ${key} came before with another request.`)
  world.replays++
  return earlier.result
}

async function trackPending(world: World, key: string, result: Promise<string>): Promise<string> {
  const pending = world.pending.get(key) ?? new Set()
  world.pending.set(key, pending.add(result))
  try {
    return await result
  } finally {
    pending.delete(result)
  }
}

/**
 * The result of the last execution of `tool` that came with this reference, or null. Waits for requests with it that are
 * in progress, so "null" means that it did not happen and will not.
 */
export async function lookUp(world: World, tool: string, key: string): Promise<string | null> {
  await Promise.allSettled([...(world.pending.get(key) ?? [])])
  return world.executions.findLast((one) => one.tool === tool && one.key === key)?.result ?? null
}

/** What became of the world. */
export function reportOn({ database, executions, replays }: World): WorldReport {
  return { finalHash: databaseHash(database), executions, replays }
}
