// What a worker module exports: which agents a process serves and what its tools get as `ctx.services`.
import type { Agent } from '../agent/agent.ts'
import { DeclarationError } from '../agent/errors.ts'
import type { Services } from '../agent/tool.ts'

/** What `defineWorker` takes. */
export interface WorkerDefinition {
  agents: readonly Agent[]
  /** Made once per process, before it serves; `dispose` of the result, if it has one, is called at shutdown. */
  services?: Services | (() => Services | Promise<Services>)
}

/**
 * Declares what a worker process serves: the default export of a worker module.
 * @throws DeclarationError `no_agents`, `duplicate_agent`.
 */
export function defineWorker(definition: WorkerDefinition): WorkerDefinition {
  const names = new Set<string>()
  for (const agent of definition.agents ?? []) {
    if (names.has(agent.name)) {
      throw new DeclarationError('duplicate_agent', `Two agents are named "${agent.name}": rename one.`)
    }
    names.add(agent.name)
  }
  if (names.size === 0) {
    throw new DeclarationError('no_agents', 'The worker serves no agents: give defineWorker({ agents: [ … ] }) at least one.')
  }
  return definition
}
