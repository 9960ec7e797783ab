// Heartbeats of activities that only use the store or the workflow.
import { Context } from '@temporalio/activity'

const BEAT_EVERY_MS = 1_000

/** Sends heartbeats during `work`. A timer on the event loop is good enough: the work is repeatable, so a missed heartbeat costs little. */
export async function heartbeating<T>(work: () => Promise<T>): Promise<T> {
  const { heartbeat } = Context.current()
  const timer = setInterval(() => heartbeat(), BEAT_EVERY_MS)
  try {
    return await work()
  } finally {
    clearInterval(timer)
  }
}
