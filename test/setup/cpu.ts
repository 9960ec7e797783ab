// The CPU time of each test file, with that of the processes that it started and that have ended: what a run costs on a busy machine.
import { readFileSync } from 'node:fs'
import { afterAll } from 'vitest'

declare module 'vitest' {
  interface TaskMeta {
    /** Of a file: seconds of CPU. */
    cpuSeconds?: number
  }
}

/** Ticks of /proc in a second, on every Linux. */
const TICKS = 100

/** The seconds that this process and its children have used; undefined if the system does not say. */
function usedSeconds(): number | undefined {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8')
    // Behind the name, which may hold spaces: the fields 14 to 17 are the times of the process and of its ended children.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS
  } catch {
    return undefined
  }
}

const before = usedSeconds()

// oxlint-disable-next-line no-empty-pattern -- vitest reads from the pattern what the hook needs
afterAll(({}, file) => {
  const after = usedSeconds()
  if (before !== undefined && after !== undefined) file.meta.cpuSeconds = after - before
})
