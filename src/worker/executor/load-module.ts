// Loads a user's worker module, in each of the supported forms.
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Agent } from '../../agent/agent.ts'
import { DeclarationError } from '../../agent/errors.ts'
import { PawlError } from '../../session/errors.ts'
import { isObject } from '../../session/json.ts'
import { checkAgents, type WorkerDefinition } from '../definition.ts'
import { WorkerError } from '../errors.ts'
import { reasonOf } from './reasons.ts'

/**
 * Loads the definition that a module exports: its default export (of `defineWorker`, an agent, or a list of agents), or its export `agents`
 * or `agent`.
 * @throws WorkerError `module_not_found`, `module_failed`, `no_agents`; DeclarationError.
 */
export async function loadWorkerModule(path: string): Promise<WorkerDefinition> {
  const file = resolve(path)
  if (!existsSync(file))
    throw new WorkerError('module_not_found', `The module ${file} does not exist. Pass the path of the file that exports your agents.`)
  const exported = await importModule(file)
  const found = definitionIn(exported.default) ?? definitionIn(exported.agents) ?? definitionIn(exported.agent)
  if (!found) {
    throw new DeclarationError(
      'no_agents',
      `${file} exports no agents. Export \`defineWorker({ agents: [ … ] })\`, an agent or a list of agents by default, or export \`agents\`.`,
    )
  }
  return checkAgents(found, 'defineWorker')
}

async function importModule(file: string): Promise<Record<string, unknown>> {
  try {
    const module = (await import(pathToFileURL(file).href)) as Record<string, unknown>
    // The exports of a CommonJS module are under `default`.
    const inner = module.default
    return isObject(inner) && !definitionIn(inner) ? { ...module, ...inner } : module
  } catch (cause) {
    if (cause instanceof PawlError) throw cause
    throw new WorkerError('module_failed', `${file} could not be loaded: ${reasonOf(cause)}. Fix the module.`, { cause })
  }
}

function definitionIn(value: unknown): WorkerDefinition | undefined {
  if (isAgent(value)) return { agents: [value] }
  if (Array.isArray(value)) return value.length > 0 && value.every(isAgent) ? { agents: value } : undefined
  if (isObject(value) && Array.isArray(value.agents)) return value as unknown as WorkerDefinition
  return undefined
}

function isAgent(value: unknown): value is Agent {
  return isObject(value) && typeof value.name === 'string' && value.tools instanceof Map && 'instructions' in value
}
