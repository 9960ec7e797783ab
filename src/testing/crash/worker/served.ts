// The module that the worker processes of a crash test load. It wraps the user's module, marks every boundary that it reaches, and dies at
// the planned one.
import { loadWorkerModule } from '../../../worker/executor/load-module.ts'
import type { Agent } from '../../../agent/agent.ts'
import type { WorkerDefinition } from '../../../worker/definition.ts'
import { type ServedAgent, markWriter } from '../marks.ts'
import { listenForAnswers } from './answers.ts'
import { exitWith } from './exit-with-test.ts'
import { observedAgent } from './observed.ts'
import { watchPostgres } from './postgres.ts'

/** The user's module definition, observed. `folder` is where marks go; `test` is the pid of the process that runs the test. */
export async function served({ module, folder, test }: { module: string; folder: string; test: number }): Promise<WorkerDefinition> {
  exitWith({ test, folder })
  const marks = markWriter(folder)
  const answers = listenForAnswers()
  watchPostgres(marks, answers)
  const definition = await loadWorkerModule(module)
  marks.writeAgents(definition.agents.map(about))
  return { ...definition, agents: definition.agents.map((agent) => observedAgent(agent, marks, answers)) }
}

function about({ name, tools }: Agent): ServedAgent {
  return { name, slowestMs: Math.max(0, ...[...tools.values()].map(({ timeoutMs }) => timeoutMs)) }
}
