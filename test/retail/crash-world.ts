// One of the outside process's worlds, as a crash test sees it: the hash of its database, and every write that was executed in it.
import type { CrashWorld } from 'pawl/testing'
import { connectRetail } from './client.ts'
import { effectOf } from './effects.ts'
import { startRetail, type RetailProcess } from './process.ts'

/** The world with this name in its own outside process, which worker processes find at `RETAIL_URL`. */
export function retailCrashWorld(world: string): CrashWorld {
  let retail: RetailProcess
  const client = () => connectRetail(retail.url)
  return {
    async start() {
      retail = await startRetail({ latencyMs: 10 })
      return { RETAIL_URL: retail.url }
    },
    reset: () => client().reset(world),
    snapshot: async () => (await client().report(world)).finalHash,
    effects: async () =>
      (await client().report(world)).executions
        .filter(({ tool }) => effectOf(tool) !== 'read')
        .map(({ tool, args, result, wrote }) => ({ tool, args, result, wrote })),
    stop: () => retail.stop(),
  }
}
