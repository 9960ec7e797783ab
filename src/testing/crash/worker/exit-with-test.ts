// Ends a worker process with its test, even if its supervisor was killed or is frozen and cannot stop it.
import { existsSync, rmSync } from 'node:fs'

const LOOK_MS = 1_000

/** From now on, this process dies when the test exits or its folder is removed. If the test has exited, it first kills its supervisor. */
export function exitWith({ test, folder }: { test: number; folder: string }): void {
  const supervisor = process.ppid
  const look = (): void => {
    if (isAlive(test) && existsSync(folder)) return
    // Only while the supervisor is the parent. Later, its pid may belong to another process.
    if (!isAlive(test) && process.ppid === supervisor && process.connected) kill(supervisor)
    rmSync(folder, { recursive: true, force: true })
    kill(process.pid)
  }
  setInterval(look, LOOK_MS).unref()
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // Another process was faster.
  }
}
