// Processes that are paused (SIGSTOP) and resumed, as by a debugger, a frozen container or a sleeping machine: nothing is done twice, and
// no process is killed for time in which it could not run.
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunHandle } from 'pawl/client'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import type { HeldMark, MarkFilter } from './support/ledger.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { type Rig, startRig, until } from './support/rig.ts'

/** Longer than a heartbeat timeout. */
const LONG_MS = 12_000
const STUCK_LOOP_MS = 4_000
/** Added to the time since the last heartbeat, still less than its timeout. */
const PAUSE_MS = 6_000

const call = (tool: string): Plan => [[{ tool, input: { name: 'a', ...(tool === 'dawdle' && { ms: 0 }) } }]]

interface Held {
  tool: string
  run: RunHandle
  mark: HeldMark
}

let rig: Rig

beforeEach(async () => {
  rig = await startRig()
})
afterEach(() => rig.close())

/** Starts a run with one call of the tool, and holds it at the mark that fits `at`. */
async function held(tool: string, at: MarkFilter = { stage: 'entered', what: tool }): Promise<Held> {
  const mark = rig.ledger.holdNext(at)
  const run = await rig.start(call(tool))
  return { tool, run, mark: await mark }
}

const signal = (pids: readonly number[], name: 'SIGSTOP' | 'SIGCONT'): void => pids.forEach((pid) => process.kill(pid, name))

/** The body was entered once and had its effect once; neither verify nor a person was asked. */
async function onceOnly({ tool, run }: Held): Promise<void> {
  expect((await run.result()).text).toBe(finalAnswer(call(tool)))
  const marks = rig.ledger.marks({ session: run.sessionId, what: tool })
  const count = (stage: string): number => marks.filter((mark) => mark.stage === stage).length
  expect([count('entered'), count('applied'), count('verify')], tool).toEqual([1, 1, 0])
  const events = await eventsOf(rig.pawl.session(run.sessionId))
  expect(ofType(events, 'tool_unknown')).toEqual([])
  expect(ofType(events, 'tool_completed')).toHaveLength(1)
}

describe('an executor that is paused for less than stuckLoop', () => {
  it('finishes everything it held once it is resumed, and no attempt fails', async () => {
    const { supervisor, events } = await rig.supervise({ processes: 1 })
    const runs = [await held('look', { stage: 'model' })]
    for (const tool of ['look', 'put', 'charge', 'post']) runs.push(await held(tool))
    signal(supervisor.pids(), 'SIGSTOP')
    for (const { mark } of runs) mark.release()
    await sleep(LONG_MS)
    signal(supervisor.pids(), 'SIGCONT')
    for (const one of runs) {
      await onceOnly(one)
      expect(await rig.errors(one.run.sessionId, 0)).toEqual([])
    }
    expect(events.filter(({ event }) => event === 'worker_died')).toEqual([])
  })
})

describe('an orchestrator that is paused for longer than stuckLoop', () => {
  it('does not mistake its executors for stuck: the orchestrator itself was frozen', async () => {
    const { supervisor, events } = await rig.supervise({ stuckLoop: STUCK_LOOP_MS })
    const runs = []
    for (const tool of ['put', 'charge', 'post', 'entrust']) runs.push(await held(tool))
    const pids = [supervisor.orchestratorPid() ?? expect.fail('no orchestrator')]
    signal(pids, 'SIGSTOP')
    for (const { mark } of runs.slice(1)) mark.release()
    await sleep(PAUSE_MS)
    signal(pids, 'SIGCONT')
    runs[0]?.mark.release()
    for (const one of runs) {
      await onceOnly(one)
      expect(await rig.errors(one.run.sessionId, 0)).toEqual([])
    }
    expect(events.filter(({ event }) => event === 'worker_died')).toEqual([])
  })
})

describe('a worker whose processes are all paused for longer than the heartbeat timeout', () => {
  it('reports its external effects once it is resumed, and neither verify nor a person is asked', async () => {
    const parent = await rig.serve('supervise')
    const pids = (): number[] => [
      parent.pid,
      ...parent.lines.flatMap((line) => /^(?:worker|orchestrator) (\d+)$/.exec(line)?.[1] ?? []).map(Number),
    ]
    await until(() => pids().length === 4)
    const external = [await held('dawdle'), await held('entrust')]
    const put = await held('put')
    const frozen = pids()
    signal(frozen, 'SIGSTOP')
    for (const { mark } of [...external, put]) mark.release()
    await until(async () => {
      const pending = await Promise.all(external.map(({ run }) => rig.pendingActivities(run.sessionId)))
      return !pending.flat().includes('executeTool')
    })
    signal(frozen, 'SIGCONT')
    for (const one of external) {
      await onceOnly(one)
      expect(ofType(await eventsOf(rig.pawl.session(one.run.sessionId)), 'tool_resolved')).toMatchObject([{ by: 'worker', happened: true }])
      expect(await rig.errors(one.run.sessionId, 1)).toMatchObject([{ attempt: 1, class: 'HeartbeatTimeout' }])
    }
    expect((await put.run.result()).text).toBe(finalAnswer(call('put')))
    expect(new Set(rig.ledger.marks({ session: put.run.sessionId, what: 'put' }).map(({ key }) => key)).size).toBe(1)
    expect(pids()).toEqual(frozen)
  })
})
