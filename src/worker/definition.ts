// What a worker module exports: which agents a process serves and what its tools get as `ctx.services`.
import { z } from 'zod'
import type { Agent } from '../agent/agent.ts'
import { DeclarationError } from '../agent/errors.ts'
import type { AnyServices, ServicesOf } from '../agent/tool.ts'
import { checkOptions, options } from '../options/check.ts'

/** The option `services` of a worker whose agents need the services `S`. */
export type ServicesOption<S> = (AnyServices & S) | (() => (AnyServices & S) | Promise<AnyServices & S>)

/** What a worker process serves, with the services `S` that its agents need; see `defineWorker`. */
export interface WorkerDefinition<S = unknown> {
  /** The agents to serve: at least one, each with a unique name. */
  agents: readonly Agent[]
  /**
   * What tools get as `ctx.services`, or a function that creates it and is called once per process, before the process serves. If it has
   * a `dispose()`, that is called at shutdown. Must have the types that the agents' tools and hooks declare. Default `{}`, if they declare
   * none.
   */
  services?: ServicesOption<S>
}

/** Infers the agents `A` of a worker, and requires `services` if they need any. */
export type ServedAgents<A extends readonly Agent[]> = { agents: A } & ({} extends ServicesOf<A[number]> ? unknown : { services: unknown })

const OPTIONS = options({ agents: z.unknown().optional(), services: z.unknown().optional() })

/**
 * Declares what a worker process serves: the default export of a worker module.
 * @throws DeclarationError `invalid_worker` for an unknown option; `no_agents`, `duplicate_agent`.
 */
export function defineWorker<const A extends readonly Agent[]>(
  definition: WorkerDefinition<ServicesOf<A[number]>> & ServedAgents<A>,
): WorkerDefinition {
  checkOptions(OPTIONS, definition, (problem) => new DeclarationError('invalid_worker', `defineWorker: ${problem}`))
  return checkAgents<WorkerDefinition>(definition, 'defineWorker')
}

/**
 * Checks that there are agents and that their names differ; returns the input. `caller`: the function that the user called.
 * @throws DeclarationError `no_agents`, `duplicate_agent`; `invalid_worker` for what defineAgent() did not return.
 */
export function checkAgents<D extends WorkerDefinition>(definition: D, caller: 'createWorker' | 'defineWorker'): D {
  const names = new Set<string>()
  for (const [n, agent] of (definition.agents ?? []).entries()) {
    if (!((agent as Partial<Agent> | undefined)?.tools instanceof Map))
      throw new DeclarationError('invalid_worker', `${caller}: \`agents[${n}]\` is not an agent. Create it with defineAgent().`)
    if (names.has(agent.name)) {
      throw new DeclarationError('duplicate_agent', `Two agents are named "${agent.name}". Rename one.`)
    }
    names.add(agent.name)
  }
  if (names.size === 0) {
    throw new DeclarationError('no_agents', `The worker serves no agents. Pass at least one to ${caller}({ agents: [ … ] }).`)
  }
  return definition
}
