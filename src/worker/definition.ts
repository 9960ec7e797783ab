// What a worker module exports: which agents a process serves and what its tools get as `ctx.services`.
import { z } from 'zod'
import type { Agent } from '../agent/agent.ts'
import { DeclarationError } from '../agent/errors.ts'
import type { AnyServices } from '../agent/tool.ts'
import { checkOptions, options } from '../options/check.ts'

/** What a worker process serves; see `defineWorker`. */
export interface WorkerDefinition {
  /** The agents to serve: at least one, each with a unique name. */
  agents: readonly Agent[]
  /**
   * What tools get as `ctx.services`, or a function that creates it and is called once per process, before the process serves. If it has
   * a `dispose()`, that is called at shutdown. Default `{}`.
   */
  services?: AnyServices | (() => AnyServices | Promise<AnyServices>)
}

const OPTIONS = options({ agents: z.unknown().optional(), services: z.unknown().optional() })

/**
 * Declares what a worker process serves: the default export of a worker module.
 * @throws DeclarationError `invalid_worker` for an unknown option; `no_agents`, `duplicate_agent`.
 */
export function defineWorker(definition: WorkerDefinition): WorkerDefinition {
  checkOptions(OPTIONS, definition, (problem) => new DeclarationError('invalid_worker', `defineWorker: ${problem}`))
  return checkAgents(definition, 'defineWorker')
}

/**
 * Checks that there are agents, each with its own name; returns the input. `caller`: the function that the user passed it to.
 * @throws DeclarationError `no_agents`, `duplicate_agent`.
 */
export function checkAgents<D extends WorkerDefinition>(definition: D, caller: 'createWorker' | 'defineWorker'): D {
  const names = new Set<string>()
  for (const agent of definition.agents ?? []) {
    if (names.has(agent.name)) {
      throw new DeclarationError('duplicate_agent', `Two agents are named "${agent.name}": rename one.`)
    }
    names.add(agent.name)
  }
  if (names.size === 0) {
    throw new DeclarationError('no_agents', `The worker serves no agents: pass at least one to ${caller}({ agents: [ … ] }).`)
  }
  return definition
}
