// The tasks that a crash test carries out: those with the most writes first. `PAWL_RETAIL_TASKS=all|N` sets how many.
import { size } from '../support/sizes.ts'
import { type Action, hasWorkload, readTasks, readToolSpecs, type Task } from './workload.ts'

/** The names of the tools that write. */
export const writers: ReadonlySet<string> = new Set(
  hasWorkload ? readToolSpecs().flatMap((spec) => (spec.effect === 'write' ? [spec.name] : [])) : [],
)

/** The writes of a task, in order. */
export const writesOf = (task: Task): Action[] => task.actions.filter((action) => writers.has(action.name))

/** As many tasks as usual, or as in the soak. */
export function chosenTasks(usual: string, soak: string): Task[] {
  const wanted = process.env.PAWL_RETAIL_TASKS ?? size(usual, soak)
  const tasks = readTasks().sort((a, b) => writesOf(b).length - writesOf(a).length)
  return wanted === 'all' ? tasks : tasks.slice(0, Number(wanted))
}
