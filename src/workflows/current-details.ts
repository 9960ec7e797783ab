// The workflow's current details in Temporal's UI. They are computed only when they are read, so they cost a session nothing.
import { setCurrentDetails, type WorkflowInterceptorsFactory } from '@temporalio/workflow'

const QUERY = '__temporal_workflow_metadata'

// Each workflow has its own instance of this module.
let describe = (): string => ''

/** Sets the function that describes what the workflow is doing. */
export function describeBy(details: () => string): void {
  describe = details
}

/** Query interceptors are not called for Temporal's own queries, but activation interceptors are. */
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
