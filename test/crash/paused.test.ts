// Processes that are paused (SIGSTOP) and resumed, as by a debugger, a frozen container or a sleeping machine: nothing is done twice, and
// no process is killed for time in which it could not run. What is too long for the supervisor, `overdue.test.ts` shows.
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { until } from '../support/until.ts'
import type { HeldMark, MarkFilter } from './support/ledger.ts'
import { onceOnly } from './support/once-only.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { type Rig, type ServingProcess, startRig } from './support/rig.ts'

/** Longer than a heartbeat timeout. */
const LONG_MS = 12_000

const call = (tool: string): Plan => [[{ tool, input: { name: 'a', ...(tool === 'dawdle' && { ms: 0 }) } }]]

interface HeldCall {
  tool: string
  run: RunHandle
  mark: HeldMark
}

let rig: Rig
let parent: ServingProcess

beforeAll(async () => {
  process.env.CRASH_PROCESSES = '1'
  rig = await startRig()
  parent = await rig.serve('supervise')
})
afterAll(() => rig?.close())

/** The processes of which the supervisor has said so, in the order of their starts. */
const told = (what: 'started' | 'worker' | 'orchestrator'): number[] =>
  parent.lines.filter((line) => line.startsWith(`${what} `)).map((line) => Number(line.split(' ')[1]))

/** Starts a run with one call of the tool, and holds it at the mark that fits `at`. */
async function held(tool: string, at: MarkFilter = { stage: 'entered', what: tool }): Promise<HeldCall> {
  const mark = rig.ledger.holdNext(at)
  const run = await rig.start(call(tool))
  return { tool, run, mark: await mark }
}

const signal = (pids: readonly number[], name: 'SIGSTOP' | 'SIGCONT'): void => pids.forEach((pid) => process.kill(pid, name))

describe('an executor that is paused for less than stuckLoop', () => {
  it('an executor paused for less than stuckLoop finishes what it held once it is resumed, and no attempt fails', async () => {
    const started = told('started')
    const runs = [await held('look', { stage: 'model' })]
    for (const tool of ['look', 'put', 'charge', 'post']) runs.push(await held(tool))
    signal(told('worker'), 'SIGSTOP')
    for (const { mark } of runs) mark.release()
    await sleep(LONG_MS)
    signal(told('worker'), 'SIGCONT')
    for (const one of runs) {
      await onceOnly(rig, one)
      expect(await rig.errors(one.run.sessionId, 0)).toEqual([])
    }
    // One that had died would have been replaced.
    expect(told('started')).toEqual(started)
  })
})

describe('a worker whose processes are all paused for longer than the heartbeat timeout', () => {
  it('a paused worker reports its external effects once it is resumed, and neither verify nor a person is asked', async () => {
    const external = [await held('dawdle'), await held('entrust')]
    const put = await held('put')
    const started = told('started')
    const frozen = [parent.pid, ...started]
    signal(frozen, 'SIGSTOP')
    for (const { mark } of [...external, put]) mark.release()
    await until(
      'the attempts have timed out',
      async () => {
        const pending = await Promise.all(external.map(({ run }) => rig.pendingActivities(run.sessionId)))
        return !pending.flat().includes('executeTool')
      },
      120_000,
    )
    signal(frozen, 'SIGCONT')
    for (const one of external) {
      await onceOnly(rig, one)
      expect(ofType(await eventsOf(rig.pawl.session(one.run.sessionId)), 'tool_resolved')).toMatchObject([{ by: 'worker', happened: true }])
      expect(await rig.errors(one.run.sessionId, 1)).toMatchObject([{ attempt: 1, class: 'HeartbeatTimeout' }])
    }
    expect((await put.run.result()).text).toBe(finalAnswer(call('put')))
    expect(new Set(rig.ledger.marks({ session: put.run.sessionId, what: 'put' }).map(({ key }) => key)).size).toBe(1)
    expect(told('started')).toEqual(started)
  })
})
