// Workflow interceptors that do something that is in no history: they wait before the session begins.
import { sleep } from '@temporalio/workflow'

export const interceptors = () => ({
  inbound: [
    {
      async execute(input, next) {
        await sleep(1)
        return next(input)
      },
    },
  ],
})
