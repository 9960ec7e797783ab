// SIGKILLs of worker processes at random moments of the workload's progress.
import { setTimeout as sleep } from 'node:timers/promises'

/** When processes are killed. */
export interface KillPlan {
  random: () => number
  /** The processes alive now. */
  pids: () => number[]
  /** A kill follows after so many tool calls: at least, at most. */
  everyCalls: readonly [number, number]
  /** Upper bound of the wait between that call's arrival and the kill: a call takes some 30 ms, so many die half way. */
  withinMs: number
}

/** Kills as planned, for as long as calls are told of. */
export interface Killer {
  /** Tell of a tool call that has reached the outside process. */
  onCall(): void
  /** Pids killed so far. */
  killed(): number[]
  /** No more kills after this. */
  stop(): void
}

/** Kills one random process each time that the planned number of calls was made. Goes by calls, so a slow machine gets as many. */
export function killByProgress({ random, pids, everyCalls: [least, most], withinMs }: KillPlan): Killer {
  const between = (low: number, high: number) => low + Math.floor(random() * (high - low + 1))
  const killed: number[] = []
  const stopped = new AbortController()
  let callsLeft = between(least, most)

  const killOne = async (afterMs: number, choice: number) => {
    await sleep(afterMs, undefined, { signal: stopped.signal })
    const alive = pids().filter((pid) => !killed.includes(pid))
    const victim = alive[Math.floor(choice * alive.length)]
    if (victim === undefined) return
    process.kill(victim, 'SIGKILL')
    killed.push(victim)
  }

  return {
    onCall() {
      if (stopped.signal.aborted || --callsLeft > 0) return
      callsLeft = between(least, most)
      // Rejects when stopped, and with ESRCH for a process that ended by itself meanwhile: neither is a kill.
      killOne(between(0, withinMs), random()).catch(() => {})
    },
    killed: () => [...killed],
    stop: () => stopped.abort(),
  }
}
