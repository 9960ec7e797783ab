// A deployment in a schema of its own, with the console of its server.
import { randomUUID } from 'node:crypto'
import type { CreateWorkerOptions } from 'pawl/worker'
import { type Deployment, deploy, type RunningWorker } from '../../support/deployment.ts'
import { until } from '../../support/until.ts'
import { type ConsolePages, startConsolePages } from './console-pages.ts'

export interface ConsoleDeployment {
  here: Deployment
  worker: RunningWorker
  pages: ConsolePages
  schema: string
  close(): Promise<void>
}

/** Serves the agents. `name`: the beginning of the schema's. */
export async function deployConsole(name: string, agents: CreateWorkerOptions['agents']): Promise<ConsoleDeployment> {
  const schema = `${name}_${randomUUID().replaceAll('-', '').slice(0, 16)}`
  const here = await deploy({ schema })
  try {
    const worker = await here.startWorker({ agents })
    await until('the tables are there', () => here.pawl.apiKeys.list())
    const pages = await startConsolePages(here.pawl, { schema, taskQueue: here.taskQueue })
    const close = async (): Promise<void> => {
      await pages.close()
      await here.stop()
    }
    return { here, worker, pages, schema, close }
  } catch (error) {
    await here.stop()
    throw error
  }
}
