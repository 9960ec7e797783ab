// Deaths when users bring a data converter: what is known of a dead attempt passes through it, in heartbeats and in failures. The seed draws
// the converter.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { dataConverter as encrypting } from '../support/own/encrypting.ts'
import { dataConverter as reversing } from '../support/own/reversing.ts'
import { seed, variants } from '../support/sizes.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

const call = (tool: string): Plan => [[{ tool, input: { name: 'a' } }]]

const CONVERTERS = [
  { kind: 'a payload converter of another encoding', file: 'reversing', dataConverter: reversing },
  { kind: 'a codec that refuses what it has not encoded', file: 'encrypting', dataConverter: encrypting },
]

describe.each(variants(CONVERTERS, 1))(`with $kind (seed ${seed}, again with PAWL_SEED)`, ({ file, dataConverter }) => {
  const module = fileURLToPath(new URL(`../support/own/${file}.ts`, import.meta.url))
  let rig: Rig
  let workers: Supervised

  beforeAll(async () => {
    rig = await startRig({ dataConverter })
    workers = await rig.supervise({ dataConverter: module, processes: 1 })
  })
  afterAll(() => rig.close())

  /** Kills the executor, whose death is reported; or all processes of the worker, whose heartbeats are missed. */
  async function kill(whom: 'executor' | 'worker'): Promise<void> {
    if (whom === 'executor') return workers.supervisor.pids().forEach((pid) => process.kill(pid, 'SIGKILL'))
    workers.supervisor.kill()
    await workers.supervisor.finished
    workers = await rig.supervise({ dataConverter: module, processes: 1 })
  }

  describe.each([
    ['executor', 'WorkerDied'],
    ['worker', 'HeartbeatTimeout'],
  ] as const)('when its %s is killed', (whom, loss) => {
    let charging: RunHandle
    let climbing: RunHandle

    beforeAll(async () => {
      await workers.serving()
      const held = [rig.ledger.holdNext({ stage: 'left', what: 'charge' }), rig.ledger.holdNext({ stage: 'entered', what: 'climb' })]
      charging = await rig.start(call('charge'))
      climbing = await rig.start(call('climb'))
      await Promise.all(held)
      await kill(whom)
    })

    it('with a user’s own converter, an external body whose process dies is entered once, and verify answers for it', async () => {
      expect((await charging.result()).text).toBe(finalAnswer(call('charge')))
      const marks = rig.ledger.marks({ session: charging.sessionId, what: 'charge' })
      expect(marks.map(({ stage }) => stage)).toEqual(['entered', 'applied', 'left', 'verify'])
      expect(await rig.errors(charging.sessionId, 1)).toMatchObject([{ context: 'tool:charge', attempt: 1, class: loss }])
    })

    it('progress that a body made before its death passes through the user’s converter to the next attempt', async () => {
      expect((await climbing.result()).text).toBe(finalAnswer(call('climb')))
      const entered = rig.ledger.marks({ session: climbing.sessionId, stage: 'entered' })
      expect(entered.map(({ attempt, note }) => [attempt, note])).toEqual([
        [1, { from: 0 }],
        [2, { from: 1 }],
      ])
    })
  })

  it('a new orchestrator continues heartbeats at once, whatever the converter', async () => {
    await workers.serving()
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'look' })
    const run = await rig.start(call('look'))
    const mark = await held
    const killedAt = Date.now()
    process.kill(workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
    await untilFound(async () => (await rig.lastHeartbeat(run.sessionId)) > killedAt)
    mark.release()
    expect((await run.result()).text).toBe(finalAnswer(call('look')))
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })
})

it('a new orchestrator runs the workflow code of the one before it, although a module of it is gone from disk', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-test-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const [workflowModule, interceptors] = [join(folder, 'workflow.mjs'), join(folder, 'interceptors.mjs')]
  await writeFile(workflowModule, 'export const interceptors = () => ({})')
  await writeFile(interceptors, `export const interceptors = ${JSON.stringify({ workflowModules: [workflowModule] })}`)
  const rig = await startRig()
  onTestFinished(() => rig.close())
  const { supervisor, events } = await rig.supervise({ interceptors, processes: 1 })
  expect((await (await rig.start([])).result()).text).toBe(finalAnswer([]))
  await rm(workflowModule)
  const from = events.length
  process.kill(supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
  await untilFound(() => events.slice(from).some(({ event }) => event === 'orchestrator_ready'))
  expect((await (await rig.start([])).result()).text).toBe(finalAnswer([]))
})
