// Customers of the showcase by the thousand, served while processes of its workers are killed at random.
import { expect } from 'vitest'
import type { Showcase } from '../../../examples/console/showcase.ts'
import { randomFrom } from '../../../src/testing/crash/random.ts'
import { size } from '../../support/sizes.ts'

const SETTLED_MS = size(120_000, 600_000)

/** What customers and colleagues say, and how their runs settle whatever is killed. */
const SAID: readonly (readonly [agent: string, text: string, settles: 'completed' | 'failed' | 'waiting'])[] = [
  ['support', 'When will order W-1012 arrive?', 'completed'],
  ['support', 'The blue lamp from order W-1042 arrived broken. I am customer 42, and I would like my money back.', 'completed'],
  ['support', 'أين طلبي رقم W-1015؟ لقد انتظرت أسبوعين بالفعل.', 'completed'],
  ['support', 'Two of the six glasses of order W-1088 were broken.', 'waiting'],
  ['support', 'I want to send back the chairs of order W-1063.', 'waiting'],
  ['logistics', 'Check the stock of all warehouses.', 'completed'],
  ['logistics', 'Move the shop to the new warehouse.', 'completed'],
  ['logistics', 'Write to all customers of the lamp.', 'completed'],
  ['research', 'Compare our prices with those of twelve competitors.', 'failed'],
  ['accounting', 'Export the invoices of October.', 'failed'],
]

export interface Crowd {
  /** Resolves once so many runs have settled. */
  reached(count: number): Promise<void>
  /** No more come than `atLeast`; resolves when all runs have settled. */
  end(): Promise<{ sessions: number; kills: number }>
  /** Nobody waits for it any more. */
  abandon(): void
}

interface CrowdOptions {
  prefix: string
  seed: number
  /** More come until `end` is called. */
  atLeast: number
  atOnce: number
  /** A process is killed after so many settled runs. */
  killEvery: number
}

export function startCrowd({ pawl, workers }: Showcase, { prefix, seed, atLeast, atOnce, killEvery }: CrowdOptions): Crowd {
  const random = randomFrom(seed)
  const counts = { started: 0, settled: 0, kills: 0 }
  let most = Infinity
  const kill = (): void => {
    const pids = [...workers.pids(), workers.orchestratorPid()].filter((pid) => pid !== undefined)
    if (pids.length === 0) return
    process.kill(random.pick(pids), 'SIGKILL')
    counts.kills += 1
  }
  const play = async (nth: number): Promise<void> => {
    const [agent, text, settles] = randomFrom(seed + nth).pick(SAID)
    const session = pawl.session(`${prefix}crowd-${nth}`, { agent, tags: ['crowd', `customer:${1_000 + nth}`] })
    const { status } = await (await session.send(text)).settled({ timeout: SETTLED_MS })
    expect([session.id, text, status]).toEqual([session.id, text, settles])
    counts.settled += 1
    if (counts.settled % killEvery === 0) kill()
  }
  const playSome = async (): Promise<void> => {
    while (counts.started < most) await play(counts.started++)
  }
  const all = Promise.all(Array.from({ length: atOnce }, playSome))
  const failed = new Promise<never>((_, reject) => void all.catch(reject))
  failed.catch(() => undefined)
  return {
    async reached(count) {
      while (counts.settled < count) await Promise.race([failed, new Promise((resolve) => setTimeout(resolve, 100))])
    },
    async end() {
      most = atLeast
      await all
      return { sessions: counts.settled, kills: counts.kills }
    },
    abandon: () => void (most = 0),
  }
}
