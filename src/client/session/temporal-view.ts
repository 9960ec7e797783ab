// What Temporal's own view shows of a session, and how its server prioritises it: set when a workflow starts.
import type { WorkflowStartOptions } from '@temporalio/client'
import { type StartIndexed, searchAttributesOf } from '../../connect/search-attributes.ts'
import { defined } from '../../session/defined.ts'
import type { Priority } from '../types.ts'

const MAX_SUMMARY = 200

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
  const view = defined({ staticSummary: summaryOf(agent, tags), priority })
  return indexed(searchAttributesOf(defined({ agent, tags })), (typed) => start({ ...view, ...typed }))
}

function summaryOf(agent: string | undefined, tags: readonly string[] = []): string | undefined {
  const text = [agent, tags.length > 0 ? `(${tags.join(', ')})` : undefined].filter(Boolean).join(' ')
  const characters = Array.from(text.replaceAll(/\s+/g, ' '))
  if (characters.length === 0) return undefined
  return characters.length <= MAX_SUMMARY ? characters.join('') : `${characters.slice(0, MAX_SUMMARY - 1).join('')}…`
}
