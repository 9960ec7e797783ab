// The spare: a process that becomes the next orchestrator. It has loaded its own code and, into their thread, the code of the workflows,
// which takes about two seconds of CPU. It holds nothing else: no connection, no socket. After a death, heartbeats continue sooner,
// especially on a busy machine.
import type { ChildProcess } from 'node:child_process'
import { killGroup } from './processes.ts'

/** How long an orchestrator must have served before a spare starts, which must not take CPU from sessions that resume. */
const PREPARE_AFTER_MS = 10_000

export interface SpareProcess {
  /** Starts a spare after a while, unless there is one. */
  prepare(): void
  /** Hands over the spare; undefined if there is none. */
  take(): ChildProcess | undefined
  /** Ends the spare, and starts no other. */
  end(): void
}

/** `fork` starts the spare. If `isWanted` is false, there is never one. */
export function keepSpare(fork: () => ChildProcess, isWanted: boolean, afterMs = PREPARE_AFTER_MS): SpareProcess {
  let spare: ChildProcess | undefined
  let due: NodeJS.Timeout | undefined
  let hasEnded = !isWanted

  function start(): void {
    due = undefined
    const mine = forked()
    if (!mine) return prepare()
    spare = mine
    const gone = (): void => {
      if (spare !== mine) return
      spare = undefined
      prepare()
    }
    mine.once('exit', gone)
    mine.once('error', gone)
  }

  /** A machine without memory for another process refuses it. The worker must outlive that. */
  function forked(): ChildProcess | undefined {
    try {
      return fork()
    } catch {
      return undefined
    }
  }

  function prepare(): void {
    if (hasEnded || spare || due) return
    due = setTimeout(start, afterMs).unref()
  }

  function take(): ChildProcess | undefined {
    const taken = spare
    spare = undefined
    clearTimeout(due)
    due = undefined
    return taken
  }

  return {
    prepare,
    take,
    end() {
      hasEnded = true
      const mine = take()
      if (mine) killGroup(mine)
    },
  }
}
