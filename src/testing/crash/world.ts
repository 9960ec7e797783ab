// Wraps the user's world to check its answers: errors that it throws, and answers that cannot be compared, are reported as the world's.
import type { Json } from '../../session/json.ts'
import { CrashTestError } from './errors.ts'
import type { CrashWorld } from './types.ts'

/** A world that either answers or throws an error that describes its fault. */
export interface HeldWorld {
  start(): Promise<Record<string, string>>
  reset(): Promise<void>
  snapshot(): Promise<Json>
  effects(): Promise<Json[]>
  stop(): Promise<void>
}

/** Wraps the world; every error in it becomes a CrashTestError `world_failed`. */
export function heldTo(world: CrashWorld): HeldWorld {
  const ask = async <T>(part: keyof CrashWorld, asked: () => T): Promise<Awaited<T>> => {
    try {
      return await asked()
    } catch (cause) {
      throw failed(part, `threw: ${cause instanceof Error ? cause.message : String(cause)}`, cause)
    }
  }
  return {
    start: async () => (await ask('start', () => world.start?.())) ?? {},
    reset: () => ask('reset', () => world.reset()),
    snapshot: async () => comparable('snapshot', await ask('snapshot', () => world.snapshot())),
    async effects() {
      const effects: unknown = await ask('effects', () => world.effects())
      if (!Array.isArray(effects))
        throw failed('effects', `returned ${typeof effects}: return an array with one entry for each time that an effect occurred`)
      return comparable('effects', effects as Json[])
    },
    stop: () => ask('stop', () => world.stop?.()),
  }
}

/** A copy as JSON, because a world may change its object later. */
function comparable<T extends Json>(part: keyof CrashWorld, value: T): T {
  try {
    return JSON.parse(JSON.stringify(value, noLoss)) as T
  } catch (cause) {
    throw failed(part, 'returned a value that is not JSON: use plain objects, arrays, strings, numbers, booleans and null', cause)
  }
}

/** JSON would turn these into `{}`, which hides differences. */
function noLoss(_: string, value: unknown): unknown {
  if (value instanceof Map || value instanceof Set || value instanceof Promise) throw new TypeError(`it has a ${value.constructor.name}`)
  return value
}

function failed(part: keyof CrashWorld, what: string, cause?: unknown): CrashTestError {
  return new CrashTestError('world_failed', `The world's \`${part}\` ${what}. Fix the world.`, cause === undefined ? {} : { cause })
}
