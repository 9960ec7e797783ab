// Ends this process when its parent is gone, whatever the main thread does: a blocked event loop cannot see that its channel has closed.
import { Worker as Thread } from 'node:worker_threads'

/** The descriptor of the pipe that the parent holds open while it lives; the channel for messages is 3. */
const PARENT_PIPE = 4

/**
 * Plain JavaScript in text: a thread with a file of its own would load the TypeScript loader, too, where that is in use.
 * It kills the process group, because a body's child processes would otherwise continue the effect.
 */
const WATCH = `
  const end = ${endGroup}
  new (require('node:net').Socket)({ fd: ${PARENT_PIPE} }).on('error', end).on('close', end).resume()
`

/** Signals that a terminal or a service manager sends to all processes of a worker. The parent decides how the others end. */
const OF_THE_GROUP = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Makes this process end with its parent, and only when the parent says so: signals to a whole group are ignored. User code may still
 * handle them. Call it before user code is loaded.
 */
export function endWithParent(): void {
  for (const signal of OF_THE_GROUP) process.on(signal, () => undefined)
  // Started by hand, without a parent that holds the pipe.
  if (!process.connected) process.exit(1)
  // A few lines of code need little memory.
  const resourceLimits = { maxYoungGenerationSizeMb: 2, maxOldGenerationSizeMb: 8 }
  const thread = new Thread(WATCH, { eval: true, execArgv: [], env: {}, stdin: false, resourceLimits })
  thread.unref()
  process.once('disconnect', endGroup)
}

/** Kills this process and its child processes. It uses nothing outside, because the thread has its text only. */
function endGroup(): void {
  try {
    process.kill(-process.pid, 'SIGKILL')
  } finally {
    process.kill(process.pid, 'SIGKILL')
  }
}
