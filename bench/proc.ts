// What Linux says about a process: its memory, its CPU time, its connections.
import { readdir, readFile, readlink, writeFile } from 'node:fs/promises'

/** Memory of a process, in megabytes. */
export interface Memory {
  /** Its share: a page that several processes share counts in part for each. */
  pss: number
  rss: number
}

/** Ticks of `/proc/<pid>/stat` in a second: Linux reports 100 to every program. */
const TICKS = 100

/** Its memory now. */
export async function memoryOf(pid: number): Promise<Memory> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8')
  const mbOf = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(rollup)?.[1] ?? Number.NaN) / 1_024
  return { pss: mbOf('Pss'), rss: mbOf('Rss') }
}

/** Lets the peak of its memory begin again; the memory now, in megabytes. */
export async function restartPeak(pid: number): Promise<number> {
  await writeFile(`/proc/${pid}/clear_refs`, '5')
  return peakOf(pid)
}

/** The peak of its RSS since then, in megabytes. */
export async function peakOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) / 1_024
}

/** Milliseconds of CPU that it has used so far. */
export async function cpuMsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  // The name may contain spaces; what follows it does not.
  const [user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number)
  return ((user + system) * 1_000) / TICKS
}

/** How many descriptors it has open. */
export async function descriptorsOf(pid: number): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length
}

/** How many connections it has to each of these ports. */
export async function connectionsOf(pid: number, ports: readonly number[]): Promise<number[]> {
  const descriptors = await readdir(`/proc/${pid}/fd`)
  const links = await Promise.all(descriptors.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')))
  const inodes = new Set(links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []))
  const tables = await Promise.all(['tcp', 'tcp6'].map((table) => readFile(`/proc/${pid}/net/${table}`, 'utf8').catch(() => '')))
  const remotes = tables.flatMap((table) =>
    table
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .flatMap(([, , remote = '', state, , , , , , inode = '']) => (state === '01' && inodes.has(inode) ? [portOf(remote)] : [])),
  )
  return ports.map((port) => remotes.filter((remote) => remote === port).length)
}

function portOf(address: string): number {
  return Number.parseInt(address.split(':')[1] ?? '', 16)
}

/** Milliseconds of CPU of this process and its descendants, by their role. */
export async function cpuByPart(): Promise<Map<string, number>> {
  const parts = new Map<string, number>()
  for (const pid of [process.pid, ...(await descendantsOf(process.pid))]) {
    const part = pid === process.pid ? 'client' : partOf(await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''))
    parts.set(part, (parts.get(part) ?? 0) + (await cpuMsOf(pid).catch(() => 0)))
  }
  return parts
}

/** The processes that a process has started, those that they have started, and so on. */
export async function descendantsOf(ancestor: number): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^[0-9]+$/.test(name)).map(Number)
  const parents = new Map<number, number>()
  for (const pid of pids) {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
    parents.set(pid, Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
  }
  const isBelow = (pid: number): boolean => {
    const parent = parents.get(pid)
    return parent !== undefined && parent > 1 && (parent === ancestor || isBelow(parent))
  }
  return pids.filter(isBelow)
}

function partOf(commandLine: string): string {
  const known = ['temporal server', 'postgres', 'orchestrator', 'executor', 'floor-worker'].find((name) =>
    commandLine.replaceAll('\0', ' ').includes(name),
  )
  return known ?? 'others'
}
