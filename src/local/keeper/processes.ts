// Asking about and ending processes that are not (or no longer) our children.
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The command line of a process; undefined if there is none with this pid (a zombie has none either). */
async function commandLine(pid: number): Promise<string | undefined> {
  // Slim container images have no ps, Macs no /proc.
  const text =
    process.platform === 'linux'
      ? await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      : await run('ps', ['-ww', '-o', 'args=', '-p', String(pid)]).then(
          ({ stdout }) => stdout,
          () => '',
        )
  return text.trim() === '' ? undefined : text
}

/** Whether `pid` runs a command line that has `marker` in it: pids are given again. */
export async function isRunning(pid: number, marker: string): Promise<boolean> {
  return (await commandLine(pid))?.includes(marker) ?? false
}

/** Ends a process that is not our child: asks it, and kills it if it is still there after `graceMs`. */
export async function endProcess(pid: number, marker: string, signal: NodeJS.Signals, graceMs: number): Promise<void> {
  if (!(await isRunning(pid, marker))) return
  trySignal(pid, signal)
  const until = Date.now() + graceMs
  while (await isRunning(pid, marker)) {
    if (Date.now() > until) trySignal(pid, 'SIGKILL')
    await sleep(50)
  }
}

function trySignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // Gone in the meantime.
  }
}
