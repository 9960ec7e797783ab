// What the worker processes of a crash test load instead of the user's module: the same, watched from around it. It tells of every
// boundary that it reaches, and dies at the one that is planned.
import { loadWorkerModule } from '../../../worker/load-module.ts'
import type { WorkerDefinition } from '../../../worker/definition.ts'
import { markWriter } from '../marks.ts'
import { listenForAnswers } from './answers.ts'
import { observedAgent } from './observed.ts'
import { watchPostgres } from './postgres.ts'
import { watchRecords } from './recorded.ts'

/** The definition of the user's module, watched; `folder` is where marks go. */
export async function served({ module, folder }: { module: string; folder: string }): Promise<WorkerDefinition> {
  const marks = markWriter(folder)
  const answers = listenForAnswers()
  watchPostgres(marks, answers)
  watchRecords(marks)
  const definition = await loadWorkerModule(module)
  marks.tellAgents(definition.agents.map(({ name }) => name))
  return { ...definition, agents: definition.agents.map((agent) => observedAgent(agent, marks, answers)) }
}
