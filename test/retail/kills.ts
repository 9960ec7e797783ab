// SIGKILLs of worker processes at random moments of the workload's progress.
import { setTimeout as sleep } from 'node:timers/promises'

/** When processes are killed. */
export interface KillPlan {
  random: () => number
  /** The processes alive now. */
  pids: () => number[]
  /** The number of tool calls between two kills: at least, at most. */
  everyCalls: readonly [number, number]
  /** Upper bound of the wait from that call's arrival to the kill: a call takes some 30 ms, so many calls die halfway through. */
  withinMs: number
}

/** Kills as planned, for as long as it is notified of calls. */
export interface Killer {
  /** To be called when a tool call has reached the outside process. */
  onCall(): void
  /** Pids killed so far. */
  killed(): number[]
  /** No more kills after this. */
  stop(): void
}

/** Kills one random process each time the planned number of calls was made. It counts calls, so a slow machine gets as many kills. */
export function killByProgress({ random, pids, everyCalls: [min, max], withinMs }: KillPlan): Killer {
  const between = (low: number, high: number) => low + Math.floor(random() * (high - low + 1))
  const killed: number[] = []
  const stopped = new AbortController()
  let callsLeft = between(min, max)

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
      callsLeft = between(min, max)
      // Rejects when stopped, and with ESRCH for a process that ended by itself in the meantime: neither is a kill.
      killOne(between(0, withinMs), random()).catch(() => {})
    },
    killed: () => [...killed],
    stop: () => stopped.abort(),
  }
}
