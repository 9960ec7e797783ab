// How a parent keeps its executors running: each that dies is replaced, and new code takes over whole or not at all.
import { ChildProcess } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { WorkerError } from '../../../src/worker/errors.ts'
import { startBackoff } from '../../../src/worker/parent/backoff.ts'
import { keepExecutors } from '../../../src/worker/parent/executors.ts'
import type { ExecutorToParent, ParentToExecutor } from '../../../src/worker/protocol.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A process that a test plays. */
class Played extends ChildProcess {
  readonly told: ParentToExecutor[] = []
  override readonly connected = true
  override readonly pid: number | undefined
  constructor(pid: number | undefined) {
    super()
    this.pid = pid
  }
  override send(message: unknown): boolean {
    this.told.push(message as ParentToExecutor)
    return true
  }
  override kill(signal?: NodeJS.Signals): boolean {
    this.end(null, signal)
    return true
  }
  say(message: ExecutorToParent): void {
    this.emit('message', message)
  }
  /** It ends; its channel closes a moment later. */
  end(code: number | null, signal: NodeJS.Signals | null = null): void {
    this.emit('exit', code, signal)
    this.emit('disconnect')
  }
}

/** Two executors that are kept running, and what was told of them. */
function kept({ isStartable = () => true }: { isStartable?: () => boolean } = {}) {
  const started: Played[] = []
  const story: string[] = []
  const executors = keepExecutors({
    module: 'agents.ts',
    count: 2,
    fork: (id) => {
      const process = new Played(isStartable() ? 100 + id : undefined)
      started.push(process)
      return process
    },
    onStarted: (pid) => story.push(`started ${pid}`),
    onExit: ({ pid, code, signal }) => story.push(`ended ${pid} ${signal ?? code}`),
    onFailed: ({ code, message }: WorkerError) => story.push(`failed ${code}: ${message}`),
  })
  executors.start()
  /** The executor has loaded the module, and the orchestrator has heard of it. */
  const serve = (id: number): number | undefined => {
    started[id - 1]?.say({ pawl: 'loaded' })
    return executors.ready(id)
  }
  return { executors, started, story, serve }
}

describe('executors', () => {
  it('are started, told where the newest orchestrator is, and replaced when they die', async () => {
    const { executors, started, story } = kept()
    executors.connectTo('/s1')
    expect(started.map(({ told }) => told)).toEqual([[{ pawl: 'connect', path: '/s1' }], [{ pawl: 'connect', path: '/s1' }]])
    started[0]?.end(null, 'SIGKILL')
    expect(executors.pids()).toEqual([102])
    await vi.advanceTimersByTimeAsync(150)
    expect(executors.pids()).toEqual([102, 103])
    expect(started[2]?.told).toEqual([{ pawl: 'connect', path: '/s1' }])
    expect(story).toEqual(['started 101', 'started 102', 'ended 101 SIGKILL', 'started 103'])
  })

  it('are ready once, though each orchestrator says so', () => {
    const { executors, serve } = kept()
    expect([serve(1), serve(1), executors.ready(99)]).toEqual([101, undefined, undefined])
  })

  it('that die again and again before they serve are started ever later, and soon again once one has served', async () => {
    const { started, serve } = kept()
    const startedAfter = async (ms: number): Promise<number> => {
      const before = started.length
      started.at(-1)?.end(1)
      await vi.advanceTimersByTimeAsync(ms)
      return started.length - before
    }
    expect([await startedAfter(150), await startedAfter(299), await startedAfter(0)]).toEqual([1, 0, 0])
    await vi.advanceTimersByTimeAsync(10_000)
    serve(started.length)
    expect(await startedAfter(150)).toBe(1)
  })

  it('that cannot be started at all are tried again', async () => {
    let isStartable = false
    const { executors, started, story } = kept({ isStartable: () => isStartable })
    for (const process of started) process.emit('error', new Error('EAGAIN'))
    expect(story).toEqual([expect.stringContaining('worker_start_failed'), expect.stringContaining('worker_start_failed')])
    isStartable = true
    await vi.advanceTimersByTimeAsync(1_000)
    expect(executors.size()).toBe(2)
  })

  it('are not replaced once all is to end', async () => {
    const { executors, started } = kept()
    executors.shutdown('released')
    for (const process of started) process.end(0)
    await vi.advanceTimersByTimeAsync(10_000)
    expect([executors.size(), started.length, started[0]?.told]).toEqual([0, 2, [{ pawl: 'shutdown' }]])
  })
})

describe('a module that cannot be served', () => {
  it('is told of with what it says, once, though the end of its process is heard first', () => {
    const { started, story } = kept()
    started[0]?.emit('exit', 1, null)
    started[0]?.say({ pawl: 'start_failed', code: 'no_agents', message: 'It exports none.' })
    started[0]?.emit('disconnect')
    expect(story.filter((line) => line.startsWith('failed'))).toEqual(['failed no_agents: It exports none.'])
  })

  it('is told of if it ends its process while it is loaded, but not if somebody else does', () => {
    const { started, story } = kept()
    started[0]?.end(3)
    started[1]?.end(null, 'SIGKILL')
    expect(story.filter((line) => line.startsWith('failed'))).toEqual([
      'failed module_failed: agents.ts ended its process while it was loaded (exit code 3). Fix what ends it.',
    ])
  })

  it('is told of if it hangs, and its process ended', async () => {
    const { started, story, serve } = kept()
    serve(2)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(story.slice(2, 4)).toEqual([
      'failed module_hangs: agents.ts did not load within 60 s. Fix what it waits for.',
      'ended 101 SIGKILL',
    ])
    expect(started[1]?.listenerCount('exit')).toBe(1)
  })
})

describe('new code', () => {
  it('takes over when as many executors of it are ready: the old ones are named, and end when they are released', async () => {
    const { executors, serve, started } = kept()
    serve(1)
    serve(2)
    const replaced = executors.replace()
    serve(3)
    expect(executors.size()).toBe(4)
    serve(4)
    expect(await replaced).toEqual([1, 2])
    executors.release(1)
    expect(started[0]?.told).toEqual([{ pawl: 'shutdown' }])
    started[0]?.end(0)
    await vi.advanceTimersByTimeAsync(10_000)
    expect(executors.pids()).toEqual([102, 103, 104])
  })

  it('that cannot load takes nothing over: the old executors stay, and those that died meanwhile are replaced', async () => {
    const { executors, serve, started } = kept()
    serve(1)
    serve(2)
    const replaced = executors.replace()
    replaced.catch(() => undefined)
    serve(3)
    started[0]?.end(null, 'SIGKILL')
    await vi.advanceTimersByTimeAsync(5_000)
    started[3]?.say({ pawl: 'start_failed', code: 'module_failed', message: 'Unexpected token.' })
    await expect(replaced).rejects.toMatchObject({ code: 'module_failed' })
    started[3]?.end(1)
    await vi.advanceTimersByTimeAsync(10_000)
    expect(executors.pids()).toEqual([102, 105])
  })

  it('that ends its process while it is loaded does not take over either', async () => {
    const { executors, serve, started } = kept()
    serve(1)
    const replaced = executors.replace()
    replaced.catch(() => undefined)
    started[2]?.end(0)
    await expect(replaced).rejects.toMatchObject({ code: 'module_failed' })
    expect(executors.pids()).toEqual([101, 102])
  })

  it('that is itself out of date before it serves makes way for what is newer', async () => {
    const { executors, serve } = kept()
    serve(1)
    serve(2)
    const first = executors.replace()
    first.catch(() => undefined)
    const second = executors.replace()
    await expect(first).rejects.toMatchObject({ code: 'reload_superseded' })
    serve(5)
    serve(6)
    expect(await second).toEqual([1, 2])
    expect(executors.pids()).toEqual([101, 102, 105, 106])
  })
})

describe('the pause before a start', () => {
  it('doubles up to five seconds, and begins anew when a process has served', () => {
    const backoff = startBackoff(150)
    expect(Array.from({ length: 8 }, () => backoff.next())).toEqual([150, 300, 600, 1_200, 2_400, 4_800, 5_000, 5_000])
    backoff.served()
    expect(backoff.next()).toBe(150)
  })
})
