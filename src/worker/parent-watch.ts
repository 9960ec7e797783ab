// Ends this process when its parent is gone, or when a body is overdue and nothing else can end it. It works whatever the main thread does:
// a blocked event loop sees neither that its channel has closed nor what time it is.
import { Worker as Thread } from 'node:worker_threads'
import { OVERDUE_GRACE_MS } from '../session/call-facts.ts'

/** The descriptor of the pipe that the parent holds open while it lives; the channel for messages is 3. */
export const PARENT_PIPE = 4

/**
 * How long a vouch from the orchestrator is valid. The orchestrator vouches once a second, and stops 7 s after the newest heartbeat that
 * the server has confirmed. An overdue body therefore ends at most 11 s after that heartbeat. Its call is verified at the earliest 15 s
 * plus its timeout after it.
 */
const VOUCHED_MS = 4_000
const CHECK_EVERY_MS = 250

/**
 * Plain JavaScript as text, because a thread with its own file would also load the TypeScript loader where one is in use. It kills the
 * process group, because a body's child processes would otherwise continue the effect.
 */
const WATCH = `
  const end = ${endGroup}
  const dueAt = new Map()
  let vouchedAt = -Infinity
  let wasOverdue = false
  new (require('node:net').Socket)({ fd: ${PARENT_PIPE} })
    .on('error', end)
    .on('close', end)
    .on('data', () => { vouchedAt = performance.now() })
  require('node:worker_threads').parentPort.on('message', ({ body, dueInMs }) => {
    if (dueInMs === undefined) dueAt.delete(body)
    else dueAt.set(body, performance.now() + dueInMs)
  })
  setInterval(() => {
    const now = performance.now()
    const isOverdue = now - vouchedAt > ${VOUCHED_MS} && [...dueAt.values()].some((due) => due < now)
    // Seen twice: a process that was paused reads what arrived meanwhile only after its timers.
    if (isOverdue && wasOverdue) end()
    wasOverdue = isOverdue
  }, ${CHECK_EVERY_MS})
`

/**
 * The `external` bodies of this process. A body that runs longer than its timeout and a grace period ends the process, unless the
 * orchestrator vouches that the server still considers the attempt alive; in that case, the orchestrator decides. Without a vouch, the
 * parent and the orchestrator are frozen or gone, or the attempt is lost, and another worker is about to verify the call.
 */
export interface BodyWatch {
  entered(body: string, timeoutMs: number): void
  left(body: string): void
}

/** Makes this process end with its parent. Call it before user code is loaded. */
export function endWithParent(): BodyWatch {
  // The process was started by hand, so no parent holds the pipe.
  if (!process.connected) process.exit(1)
  // A few lines of code need little memory.
  const resourceLimits = { maxYoungGenerationSizeMb: 2, maxOldGenerationSizeMb: 8 }
  const thread = new Thread(WATCH, { eval: true, execArgv: [], env: {}, stdin: false, resourceLimits })
  thread.unref()
  process.once('disconnect', endGroup)
  return {
    entered: (body, timeoutMs) => thread.postMessage({ body, dueInMs: timeoutMs + OVERDUE_GRACE_MS }),
    left: (body) => thread.postMessage({ body }),
  }
}

/** Kills this process and its child processes. It must be self-contained, because the thread has only its text. */
function endGroup(): void {
  try {
    process.kill(-process.pid, 'SIGKILL')
  } finally {
    process.kill(process.pid, 'SIGKILL')
  }
}
