// What a spare orchestrator does in advance.
import { Client } from '@temporalio/client'
import { NativeConnection } from '@temporalio/worker'
import { ThreadedVMWorkflowCreator } from '@temporalio/worker/lib/workflow/threaded-vm.js'
import { expect, inject, it, onTestFinished, vi } from 'vitest'
import type * as Workers from '../../src/worker/orchestrator/temporal/workers.ts'
import { JOB_KINDS } from '../../src/calls/jobs.ts'
import { userCodeActivities } from '../../src/activities/user-code.ts'
import { SILENT } from '../support/deployment.ts'

/** As built, with the workflow bundle. */
const built = new URL('../../dist/worker/orchestrator/temporal/workers.js', import.meta.url).href

type Activities = Parameters<typeof Workers.createWorkers>[0]['activities']

it('an orchestrator that was prepared creates its worker without reading the workflow code again', async () => {
  const { prepareWorkers, createWorkers } = (await import(built)) as typeof Workers
  const started = vi.spyOn(ThreadedVMWorkflowCreator, 'create')
  onTestFinished(() => started.mockRestore())
  await prepareWorkers({}, SILENT)
  expect(started).toHaveBeenCalledTimes(1)

  const { temporalAddress: address, namespace } = inject('stack')
  const connection = await NativeConnection.connect({ address })
  onTestFinished(() => connection.close())
  const names = [...JOB_KINDS, 'flush', 'loadSession', 'loadCalls', 'loadFork', 'findPlace', 'findCalls', 'findKept']
  const worker = await createWorkers({
    client: new Client({ connection, namespace }),
    connection,
    namespace,
    identity: 'prepared',
    taskQueue: 'prepared',
    logger: SILENT,
    activities: Object.fromEntries(names.map((name) => [name, async () => undefined])) as unknown as Activities,
    sinks: { pawl: { append: { callDuringReplay: true, fn: () => undefined }, stop: { callDuringReplay: false, fn: () => undefined } } },
  })
  expect(started).toHaveBeenCalledTimes(1)
  worker.shutdown()
  await worker.run()
})

it('the threads that are prepared know every activity that runs user code', () => {
  const activities = userCodeActivities({} as Parameters<typeof userCodeActivities>[0], {} as Parameters<typeof userCodeActivities>[1])
  expect(Object.keys(activities).toSorted()).toEqual([...JOB_KINDS].toSorted())
})
