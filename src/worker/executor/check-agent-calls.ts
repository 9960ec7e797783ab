// The calls of other agents that a module's agents can make.
import type { Agent } from '../../agent/agent.ts'
import { defined } from '../../session/defined.ts'
import type { DeclaredAgentCall } from '../protocol.ts'

/** The tools of the agents whose calls other agents answer. */
export function agentCallsIn(agents: ReadonlyMap<string, Agent>): DeclaredAgentCall[] {
  return [...agents.values()].flatMap(({ name: agent, tools }) =>
    [...tools.values()].flatMap(({ name: tool, agent: called }) => {
      if (!called) return []
      const { name: child, taskQueue } = called
      return [{ agent, tool, child, isServed: agents.has(child), ...defined({ taskQueue, cycle: cycleOf(agents, agent, child) }) }]
    }),
  )
}

/** The shortest way from the agent through this call back to itself; undefined if there is none. */
function cycleOf(agents: ReadonlyMap<string, Agent>, agent: string, child: string): string[] | undefined {
  const ways = [[agent, child]]
  const seen = new Set<string>()
  for (let way = ways.shift(); way; way = ways.shift()) {
    const last = way.at(-1) ?? ''
    if (last === agent) return way
    if (seen.has(last)) continue
    seen.add(last)
    for (const { agent: next } of agents.get(last)?.tools.values() ?? []) if (next) ways.push([...way, next.name])
  }
  return undefined
}
