// Ends what tool sources have opened in this process, such as MCP servers, which must not outlive it.
import type { Agent } from '../../agent/agent.ts'

/** Closes the sources of the agents. Never rejects. */
export async function closeSources(agents: readonly Agent[]): Promise<void> {
  const sources = new Set(agents.flatMap((agent) => agent.sources))
  await Promise.allSettled([...sources].map((source) => source.close()))
}
