// Looks up and ends processes that are not (or no longer) children of this process.
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The command line of a process; undefined if no process has this pid. A zombie has no command line either. */
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

/** Whether the command line of `pid` contains `marker`, because systems reuse pids. */
export async function isRunning(pid: number, marker: string): Promise<boolean> {
  return (await commandLine(pid))?.includes(marker) ?? false
}

/** Ends a process that is not a child of this one: sends `signal`, and kills it if it is still running after `graceMs`. */
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
    // It has exited in the meantime.
  }
}
