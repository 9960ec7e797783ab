// The workflow's current details in Temporal's view: made when they are read, so that they cost a session nothing else.
import { setCurrentDetails, type WorkflowInterceptorsFactory } from '@temporalio/workflow'

const QUERY = '__temporal_workflow_metadata'

// Each workflow has its own instance of this module.
let describe = (): string => ''

/** The function that says what the workflow does. */
export function describeBy(details: () => string): void {
  describe = details
}

/** Interceptors of queries are not called for queries of Temporal's own, but those of activations are. */
export const interceptors: WorkflowInterceptorsFactory = () => ({
  internals: [
    {
      activate(input, next) {
        if (input.activation.jobs?.some(({ queryWorkflow }) => queryWorkflow?.queryType === QUERY)) setCurrentDetails(describe())
        next(input)
      },
    },
  ],
})
