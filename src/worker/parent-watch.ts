// Ends this process when its parent is gone, or when a body is overdue and nothing else can end it, whatever the main thread does: a blocked
// event loop cannot see that its channel has closed, or what the time is.
import { Worker as Thread } from 'node:worker_threads'
import { OVERDUE_GRACE_MS } from '../session/overdue.ts'

/** The descriptor of the pipe that the parent holds open while it lives; the channel for messages is 3. */
export const PARENT_PIPE = 4

/**
 * For how long a vouch of the orchestrator counts. It vouches once a second, and only until 7 s after the newest heartbeat that the server
 * has confirmed. An overdue body therefore ends at most 11 s after that, and it is verified 15 s and its timeout after it at the earliest.
 */
const VOUCHED_MS = 4_000
const CHECK_EVERY_MS = 250

/**
 * Plain JavaScript in text: a thread with a file of its own would load the TypeScript loader, too, where that is in use.
 * It kills the process group, because a body's child processes would otherwise continue the effect.
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
 * The `external` bodies of this process. One that runs for longer than its timeout and a grace period ends the process, unless its
 * orchestrator vouches that the server still counts the attempt as alive: then the orchestrator decides. Without that, the parent and the
 * orchestrator are frozen or gone, or the attempt is lost, and another worker is about to verify the call.
 */
export interface BodyWatch {
  entered(body: string, timeoutMs: number): void
  left(body: string): void
}

/** Makes this process end with its parent. Call it before user code is loaded. */
export function endWithParent(): BodyWatch {
  // Started by hand, without a parent that holds the pipe.
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

/** Kills this process and its child processes. It uses nothing outside, because the thread has its text only. */
function endGroup(): void {
  try {
    process.kill(-process.pid, 'SIGKILL')
  } finally {
    process.kill(process.pid, 'SIGKILL')
  }
}
