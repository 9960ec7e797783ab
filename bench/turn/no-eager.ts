// A workflow interceptor that disables eager dispatch: activities go through the server's task queue.
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow'

export const interceptors: WorkflowInterceptorsFactory = () => ({
  outbound: [
    {
      scheduleActivity: (input, next) => next({ ...input, options: { ...input.options, allowEagerDispatch: false } }),
    },
  ],
})
