// Workflow interceptors that do something that is in no history of another build: they start a timer when the session begins.
import { sleep } from '@temporalio/workflow'

export const interceptors = () => ({
  inbound: [
    {
      execute(input, next) {
        // Not awaited: the workflow's handlers must be there from its first task on.
        sleep(1).catch(() => undefined)
        return next(input)
      },
    },
  ],
})
