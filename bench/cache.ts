// `npm run bench -- cache`: how much of a conversation's requests the provider's prompt cache serves, without and with an agent's mind.
import { parseArgs } from 'node:util'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { createWorker } from 'pawl/worker'
import { cacheUses } from '../test/support/prompt-cache.ts'
import { agentsOf } from './cache/agents.ts'
import { type ClaudeRequest, scriptedClaude } from './cache/scripted-claude.ts'

/** Anthropic's prices, as multiples of an uncached input token: for reading a token from the cache, and for writing it. */
const PRICE = { read: 0.1, written: 1.25 }

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { turns: { type: 'string', default: '60' } } })
  const turns = Number(values.turns)
  const stack = await startStack()
  const temporal = { address: stack.temporalAddress, namespace: stack.namespace }
  const claude = scriptedClaude(turns)
  const agents = agentsOf(claude.client)
  const worker = await createWorker({ agents, temporal, postgres: stack.databaseUrl })
  const serving = worker.run()
  const pawl = await Pawl.connect({ temporal, postgres: stack.databaseUrl })
  try {
    console.log('| agent | requests | characters sent | read from the cache | written to it | neither | price, of no cache at all |')
    console.log('|---|---|---|---|---|---|---|')
    for (const { name } of agents) {
      claude.begin()
      await (await pawl.session(undefined, { agent: name }).send('Look at all of them, one after the other.')).result()
      console.log(row(name, claude.sent))
    }
  } finally {
    await pawl.close()
    await worker.shutdown()
    await serving
    await stack.stop()
  }
}

function row(name: string, sent: readonly ClaudeRequest[]): string {
  const uses = cacheUses(sent)
  const sum = (of: (use: (typeof uses)[number]) => number): number => uses.reduce((total, use) => total + of(use), 0)
  const all = sum((use) => use.all)
  const read = sum((use) => use.read)
  const written = sum((use) => Math.max(0, use.written - use.read))
  const neither = all - read - written
  const share = (part: number): string => `${((100 * part) / all).toFixed(1)} %`
  const price = read * PRICE.read + written * PRICE.written + neither
  return `| ${[name, sent.length, all, share(read), share(written), share(neither), share(price)].join(' | ')} |`
}
