// Heartbeats for what only talks to the store or to the workflow.
import { Context } from '@temporalio/activity'

const BEAT_EVERY_MS = 1_000

/** Beats while `work` goes on. In this loop is enough: done twice, it changes nothing, so a beat that is missed costs little. */
export async function heartbeating<T>(work: () => Promise<T>): Promise<T> {
  const { heartbeat } = Context.current()
  const timer = setInterval(() => heartbeat(), BEAT_EVERY_MS)
  try {
    return await work()
  } finally {
    clearInterval(timer)
  }
}
