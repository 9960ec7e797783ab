// Measures which tools are quick. Each executor has its own measurements, because the tools' services belong to it.
import { afterUnblocked } from './unblocked.ts'

/** A body that takes this long or longer is not quick. */
const QUICK_MS = 100
/** A timer that fires this late shows that this process had no time for the body. */
const BUSY_MS = 20
/** How many bodies of a tool in a row must have been quick. */
export const MEASURED = 20

export interface QuickTools {
  /**
   * Measures a body of the tool that begins now; returns what ends the measurement. `isStopped`: the body was stopped early, which says
   * nothing. Time in which the process was busy with something else does not count: it says nothing about the tool, and if it did, a busy
   * machine would get more activities to run.
   */
  measure(agent: string, tool: string): (isStopped: boolean) => void
  /** A body of the tool took far too long. */
  wasSlow(agent: string, tool: string): void
  /** Whether the newest bodies of the tool were all quick. A tool that has not been measured often enough is not quick. */
  isQuick(agent: string, tool: string): boolean
}

/** Starts without measurements, so that a tool that is slow or kills its executor does so in calls of its own first. */
export function measureTools(): QuickTools {
  /** How many bodies in a row were quick. */
  const quick = new Map<string, number>()
  const keyOf = (agent: string, tool: string): string => `${agent} ${tool}`

  return {
    measure(agent, tool) {
      const key = keyOf(agent, tool)
      let isSlow = false
      const cancel = afterUnblocked(
        QUICK_MS,
        () => {
          isSlow = true
        },
        BUSY_MS,
      )
      return (isStopped) => {
        cancel()
        if (!isStopped) quick.set(key, isSlow ? 0 : (quick.get(key) ?? 0) + 1)
      }
    },
    wasSlow: (agent, tool) => void quick.set(keyOf(agent, tool), 0),
    isQuick: (agent, tool) => (quick.get(keyOf(agent, tool)) ?? 0) >= MEASURED,
  }
}

/** For executors that treat no tool as quick, or every tool. */
const unmeasured = (isQuick: boolean): QuickTools => ({
  measure: () => () => undefined,
  wasSlow: () => undefined,
  isQuick: () => isQuick,
})

/** Makes the tools that an executor treats as quick. */
export const QUICK_TOOLS = { on: measureTools, off: () => unmeasured(false), always: () => unmeasured(true) } as const
