// The spare of a worker: a process that becomes the next orchestrator.
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { finalAnswer, type Plan } from './support/plan.ts'
import { isAlive, type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

const LOOKS: Plan = [[{ tool: 'look', input: { name: 'a' } }]]

let rig: Rig

beforeAll(async () => {
  rig = await startRig()
})
afterAll(() => rig.close())

/** The orchestrators that this process has started, without the one that serves. */
function sparesOf({ supervisor }: Supervised): number[] {
  const isOrchestrator = (pid: number): boolean => {
    try {
      const parent = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
      return Number(parent) === process.pid && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('orchestrator/main')
    } catch {
      return false
    }
  }
  const pids = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
  return pids.filter((pid) => pid !== supervisor.orchestratorPid() && isOrchestrator(pid))
}

const spareOf = (workers: Supervised, before?: number) =>
  untilFound(() => {
    const [pid] = sparesOf(workers)
    return pid !== undefined && pid !== before && pid
  })

describe('the spare of a worker', () => {
  it('the spare of a worker replaces an orchestrator that dies, is replaced itself, and ends with its worker', async () => {
    const workers = await rig.supervise({ processes: 1 })
    const killed = await spareOf(workers)
    process.kill(killed, 'SIGKILL')
    const spare = await spareOf(workers, killed)

    const held = rig.ledger.holdNext({ stage: 'entered', what: 'look' })
    const run = await rig.start(LOOKS)
    const mark = await held
    process.kill(workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
    await untilFound(() => workers.supervisor.orchestratorPid() === spare)
    mark.release()
    expect((await run.result()).text).toBe(finalAnswer(LOOKS))
    expect(await rig.errors(run.sessionId, 0)).toEqual([])

    const next = await spareOf(workers)
    await workers.supervisor.shutdown()
    await untilFound(() => !isAlive(next))
    expect(isAlive(spare)).toBe(false)
  })
})

describe('a worker whose parent has no file descriptors left', () => {
  it('a worker whose parent has no file descriptors left outlives the death of its orchestrator, and starts another one', async () => {
    const parent = await rig.serve('supervise')
    const ready = (): string[] => parent.lines.filter((line) => line.startsWith('orchestrator '))
    parent.process.kill('SIGUSR2')
    await untilFound(() => parent.lines.includes('exhausted'))
    process.kill(Number(ready()[0]?.split(' ')[1]), 'SIGKILL')
    await untilFound(() => ready().length > 1 || parent.process.exitCode !== null)
    expect(parent.process.exitCode).toBeNull()
    const run = await rig.start(LOOKS)
    expect((await run.result()).text).toBe(finalAnswer(LOOKS))
  })
})
