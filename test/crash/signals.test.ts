// Signals to a worker's processes, alone and as a group, and the end of a parent whose executor cannot see it: nothing outlives the parent,
// and a stop lets every call finish.
import { spawnSync } from 'node:child_process'
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { variants } from '../support/sizes.ts'
import type { HeldMark, Mark, MarkFilter } from './support/ledger.ts'
import { onceOnly } from './support/once-only.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { isAlive, type Rig, type ServingProcess, startRig } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

/** Longer than any test. */
const FOR_LONG_MS = 600_000
/** Longer than a killed executor and what it leaves behind may live. */
const SOON_MS = 3_000

const call = (tool: string, ms?: number): Plan => [[{ tool, input: { name: 'a', ...(ms !== undefined && { ms }) } }]]

/** Of the tools that take one. */
const DURATIONS: Record<string, number> = { dawdle: 0, outsource: FOR_LONG_MS }

let rig: Rig

beforeAll(async () => {
  process.env.CRASH_PROCESSES = '1'
  process.env.CRASH_EXITS = 'on signals'
  rig = await startRig()
})
afterAll(async () => {
  delete process.env.CRASH_EXITS
  await rig?.close()
})

/** The processes of which the supervisor has said so. */
const told = ({ lines }: ServingProcess, what: 'worker' | 'orchestrator'): number[] =>
  lines.filter((line) => line.startsWith(`${what} `)).map((line) => Number(line.split(' ')[1]))

const processesOf = (parent: ServingProcess): number[] => [...told(parent, 'worker'), ...told(parent, 'orchestrator')]

async function serve(): Promise<ServingProcess> {
  const parent = await rig.serve('supervise', { leads: true })
  await untilFound(() => told(parent, 'worker').length > 0 && told(parent, 'orchestrator').length > 0)
  return parent
}

interface HeldCall {
  tool: string
  run: RunHandle
  mark: HeldMark
}

/** Starts a run with one call of the tool, and holds it at the mark that fits `at`. */
async function held(tool: string, at: MarkFilter = { stage: 'entered', what: tool }, ms = DURATIONS[tool]): Promise<HeldCall> {
  const mark = rig.ledger.holdNext(at)
  const run = await rig.start(call(tool, ms))
  return { tool, run, mark: await mark }
}

/** One call of each kind, in its body; the first is a model call. */
async function everyKind(): Promise<HeldCall[]> {
  const calls = [await held('look', { stage: 'model' })]
  for (const tool of ['look', 'put', 'dawdle']) calls.push(await held(tool))
  return calls
}

/** The processes that get a signal, as different senders choose them. */
const SENT_TO: Record<string, (parent: ServingProcess) => number[]> = {
  "the parent's group, as by Ctrl-C in a terminal": ({ pid }) => [-pid],
  'every process, as by a service manager': (parent) => [parent.pid, ...processesOf(parent)],
}
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

describe('a worker that is asked to stop', () => {
  const cases = Object.keys(SENT_TO).flatMap((to) => variants(SIGNALS, 1).map((signal) => ({ to, signal })))
  it.each(cases)(
    'a worker that is asked to stop finishes every call after $signal to $to, and no attempt fails',
    async ({ to, signal }) => {
      const parent = await serve()
      const calls = await everyKind()
      for (const pid of SENT_TO[to]!(parent)) process.kill(pid, signal)
      // Long enough for a process that heeds the signal to be gone.
      await new Promise((resolve) => setTimeout(resolve, 500))
      expect(processesOf(parent).filter((pid) => !isAlive(pid))).toEqual([])
      for (const { mark } of calls) mark.release()
      expect(await parent.ended).toEqual([0, null])
      const next = await serve()
      for (const one of calls) {
        await onceOnly(rig, one)
        expect(await rig.errors(one.run.sessionId, 0)).toEqual([])
      }
      process.kill(next.pid, 'SIGTERM')
      await next.ended
    },
  )

  it('a signal to an executor or an orchestrator alone does not stop a worker', async () => {
    const parent = await serve()
    const calls = await everyKind()
    for (const pid of processesOf(parent)) for (const signal of SIGNALS) process.kill(pid, signal)
    for (const { mark } of calls) mark.release()
    for (const one of calls) await onceOnly(rig, one)
    expect(processesOf(parent)).toHaveLength(2)
    process.kill(parent.pid, 'SIGTERM')
    await parent.ended
  })
})

describe('when the parent is killed', () => {
  it('an executor whose event loop is blocked ends with its killed parent', async () => {
    const parent = await serve()
    const entered = rig.ledger.reached({ stage: 'entered', what: 'block' })
    const run = await rig.start(call('block', FOR_LONG_MS))
    await entered
    await untilFound(() => rig.ledger.marks({ session: run.sessionId }).length > 0)
    process.kill(parent.pid, 'SIGKILL')
    await untilFound(() => processesOf(parent).every((pid) => !isAlive(pid)))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'applied' })).toEqual([])
  })

  it('the child processes of a body end with the killed parent', async () => {
    const parent = await serve()
    const child = childOf((await held('outsource')).mark)
    process.kill(parent.pid, 'SIGKILL')
    await untilFound(() => !isAlive(child))
  })
})

describe('when nothing else can end an executor', () => {
  /** How long a body of `overblock` lives: its timeout of 500 ms and a grace period, counted from when it was entered. */
  const MAY_LIVE_MS = 5_000
  const FROZEN: [string, (parent: ServingProcess) => number[]][] = [
    ['its orchestrator is frozen', (parent) => told(parent, 'orchestrator')],
    ['its parent and its orchestrator are frozen', (parent) => [parent.pid, ...told(parent, 'orchestrator')]],
  ]
  it.each(FROZEN)('an executor ends if an overdue body blocks its event loop, although %s', async (_, frozen) => {
    const parent = await serve()
    const [executor] = told(parent, 'worker')
    const entered = rig.ledger.reached({ stage: 'entered', what: 'overblock', pid: executor! })
    const run = await rig.start(call('overblock', FOR_LONG_MS))
    await entered
    const at = Date.now()
    const stopped = frozen(parent)
    for (const pid of stopped) process.kill(pid, 'SIGSTOP')
    await untilFound(() => !isRunning(executor!)).finally(() => {
      for (const pid of stopped) process.kill(pid, 'SIGCONT')
    })
    expect(Date.now() - at).toBeGreaterThan(MAY_LIVE_MS)
    expect((await run.result()).text).toBe(finalAnswer(call('overblock')))
    const count = (stage: Mark['stage']): number => rig.ledger.marks({ session: run.sessionId, stage }).length
    expect([count('entered'), count('applied')]).toEqual([2, 1])
    process.kill(parent.pid, 'SIGTERM')
    await parent.ended
  })

  it('an overdue body is left to an orchestrator that works', async () => {
    const parent = await serve()
    const entered = rig.ledger.reached({ stage: 'entered', what: 'overblock' })
    const run = await rig.start(call('overblock', MAY_LIVE_MS + 5_000))
    await entered
    expect((await run.result()).text).toBe(finalAnswer(call('overblock')))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' })).toHaveLength(1)
    process.kill(parent.pid, 'SIGTERM')
    await parent.ended
  })
})

describe('when an executor dies', () => {
  it.each(['outsource', 'walk_out'])(
    'the child processes of bodies end with their executor, and the effect of %s happens once',
    async (tool) => {
      const parent = await serve()
      const { run, mark } = await held(tool, undefined, SOON_MS)
      if (tool === 'outsource') process.kill(mark.pid, 'SIGKILL')
      else mark.release()
      expect((await run.result()).text).toBe(finalAnswer(call(tool)))
      await untilFound(() => !isAlive(childOf(mark)))
      const count = (stage: 'entered' | 'applied'): number => rig.ledger.marks({ session: run.sessionId, stage }).length
      expect([count('entered'), count('applied')]).toEqual([2, 1])
      process.kill(parent.pid, 'SIGTERM')
      await parent.ended
    },
  )
})

/** Whether the process runs: one that has ended stays as long as its parent is frozen. */
function isRunning(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' })
  return stdout.trim() !== '' && !stdout.trim().startsWith('Z')
}

const childOf = ({ note }: { note?: unknown }): number => (note as { child: number }).child
