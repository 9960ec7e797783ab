// What Temporal's own view shows of a session, and how its server prioritises it: set when a workflow starts.
import type { WorkflowStartOptions } from '@temporalio/client'
import { type StartIndexed, searchAttributesOf } from '../../connect/search-attributes.ts'
import { defined } from '../../session/defined.ts'
import { labelOf } from '../../session/watching/label.ts'
import type { Priority } from '../types.ts'

/** What is known of a session when its workflow starts. */
export interface StartLabels {
  agent?: string
  tags?: readonly string[]
  priority?: Priority
}

/** The options of a start. */
export type StartView = Pick<WorkflowStartOptions, 'staticSummary' | 'priority' | 'typedSearchAttributes'>

/** Starts a workflow with the summary, the priority, and the search attributes that the namespace has. */
export function startShown<T>(
  indexed: StartIndexed,
  { agent, tags, priority }: StartLabels,
  start: (view: StartView) => Promise<T>,
): Promise<T> {
  // The summary passes the data converter and its codecs, like the arguments; search attributes do not.
  const view = defined({ staticSummary: labelOf(agent, tags) || undefined, priority })
  return indexed(searchAttributesOf(defined({ agent, tags })), (typed) => start({ ...view, ...typed }))
}
