// Two builds that serve the same sessions one after the other. The second one can replay no history of the first one.
import { fileURLToPath } from 'node:url'
import type { Agent } from 'pawl'
import type { CreateWorkerOptions } from 'pawl/worker'
import { afterEach, inject, onTestFinished } from 'vitest'
import type { Deployment, RunningWorker } from './deployment.ts'
import { type SlowProxy, startSlowProxy } from './slow-proxy.ts'

/** Interceptors with which a session begins with a timer that is in no history of this build. */
export const OTHER_BUILD = { workflowModules: [fileURLToPath(new URL('./own/added-timer.js', import.meta.url))] }

/** The worker of a test file's deployment, of one build at a time. */
export interface Builds {
  /** Starts a worker. */
  start(options: CreateWorkerOptions): Promise<void>
  /** Starts a worker of this build. Its Postgres can be taken away, and then only its histories have what happens. */
  startOld(agent: Agent): Promise<SlowProxy>
  /** Replaces the worker by one of the other build, with Postgres. `healAfter`: default `'1s'`. */
  startNew(agent: Agent, healAfter?: '1s' | false): Promise<void>
  /** Stops the worker, if one runs. This also happens after each test. */
  stop(): Promise<void>
}

/** The builds of the deployment that `here` returns. */
export function buildsOf(here: () => Pick<Deployment, 'startWorker'>): Builds {
  let worker: RunningWorker | undefined

  async function start(options: CreateWorkerOptions): Promise<void> {
    worker = await here().startWorker(options)
  }

  async function stop(): Promise<void> {
    await worker?.stop()
    worker = undefined
  }

  afterEach(stop)

  return {
    start,
    async startOld(agent) {
      const postgres = await startSlowProxy(inject('stack').databaseUrl)
      onTestFinished(() => postgres.close())
      await start({ agents: [agent], postgres: postgres.url })
      return postgres
    },
    async startNew(agent, healAfter = '1s') {
      await stop()
      await start({ agents: [agent], interceptors: OTHER_BUILD, healAfter })
    },
    stop,
  }
}
