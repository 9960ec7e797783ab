// The protocol between a keeper and the process that started it: one JSON object per line, over the keeper's stdin and stdout.

/** A process that the keeper starts and stops. */
export interface ProcessSpec {
  command: string
  args: string[]
  cwd: string
  env: Record<string, string>
  uid?: number
  gid?: number
  /** Where its output goes. */
  logFile: string
  /** The signal that asks it to stop. */
  stopSignal: 'SIGTERM' | 'SIGINT'
  /** `group`: a signal to stop also reaches the processes that it has started. Default: only the process itself. */
  signals?: 'group'
  /** Part of its command line that no other process has. It tells a later keeper that a pid is still this process. */
  marker: string
}

/** The keeper's arguments on its command line. */
export interface KeeperArguments {
  /** The lock file of the data directory. */
  lock: string
  /** A folder to remove at the end. */
  remove?: string
}

export type KeeperRequest = { id: number } & (
  | { op: 'start'; name: string; spec: ProcessSpec }
  | { op: 'stop'; name: string; signal: NodeJS.Signals }
  /** Removes a folder at the end, if it still exists. */
  | { op: 'discard'; path: string }
)

export type KeeperReply =
  | { event: 'ready' }
  /** Another keeper has the data directory. */
  | { event: 'refused'; pid: number }
  | { event: 'done'; id: number; pid?: number }
  | { event: 'failed'; id: number; message: string }
  | { event: 'exited'; name: string; pid: number; code: number | null; signal: string | null }

/** Calls `take` with each line of a chunked text. */
export function lineReader(take: (line: string) => void): (chunk: string) => void {
  let rest = ''
  return (chunk) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line !== '') take(line)
  }
}
