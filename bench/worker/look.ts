// What the processes of a worker hold now: memory, descriptors, connections.
import { connectionsOf, descriptorsOf, type Memory, memoryOf } from '../proc.ts'
import type { BenchWorker } from './start.ts'

/** One process, measured. */
interface Look {
  who: string
  memory: Memory
  descriptors: number
  temporal: number
  postgres: number
}

/** Its processes, by role. */
export function everyPid(worker: BenchWorker): [string, number][] {
  const { parent, orchestrator, executors } = worker.pids()
  return [
    ['parent', parent],
    ['orchestrator', orchestrator],
    ...executors.map((pid, index): [string, number] => [`executor ${index + 1}`, pid]),
  ]
}

/** Measures all of them. */
export async function look(worker: BenchWorker, { address, databaseUrl }: { address: string; databaseUrl: string }): Promise<Look[]> {
  const ports = [Number(address.split(':').at(-1)), Number(new URL(databaseUrl).port)]
  return Promise.all(
    everyPid(worker).map(async ([who, pid]) => {
      const [temporal = 0, postgres = 0] = await connectionsOf(pid, ports)
      return { who, memory: await memoryOf(pid), descriptors: await descriptorsOf(pid), temporal, postgres }
    }),
  )
}

/** Prints them, and their sum. */
export function say(when: string, looks: readonly Look[]): void {
  console.log(`\n${when}:`)
  for (const { who, memory, descriptors, temporal, postgres } of looks) {
    const held = `${descriptors} descriptors, connections: ${temporal} Temporal, ${postgres} Postgres`
    console.log(`  ${who.padEnd(14)} ${textOf(memory)}, ${held}`)
  }
  const sum = (kind: keyof Memory): number => looks.reduce((total, { memory }) => total + memory[kind], 0)
  console.log(`  ${'together'.padEnd(14)} ${textOf({ pss: sum('pss'), rss: sum('rss') })}`)
}

/** In megabytes. */
export const textOf = ({ pss, rss }: Memory): string => `PSS ${pss.toFixed(0)} MB, RSS ${rss.toFixed(0)} MB`
