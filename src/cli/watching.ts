// Shows something repeatedly, in place at a terminal.
import { setTimeout as sleep } from 'node:timers/promises'
import { describeError } from './errors.ts'
import { linesSaid, say } from './queries.ts'
import { listenForStop, stopSignalOf } from './running/stop.ts'
import { paint } from './terminal.ts'

const EVERY_MS = 2_000
const CLEAR = '\u001b[H\u001b[2J'

/** Shows it every two seconds until Ctrl-C. An error is shown in its place, because an outage may end. */
export async function repeatedly(show: () => Promise<void>): Promise<void> {
  const ended = stopSignalOf(listenForStop())
  const atTerminal = process.stdout.isTTY === true
  while (!ended.aborted) {
    const lines = await linesSaid(show).catch((error: unknown) => [paint('red', describeError(error))])
    if (ended.aborted) return
    // Written in one piece: a screen that is cleared before the new text is ready would flicker.
    const text = lines.join('\n')
    say(atTerminal ? `${CLEAR}${text}\n\n${paint('dim', `${new Date().toISOString().slice(11, 19)} UTC, Ctrl-C ends`)}` : text)
    await sleep(EVERY_MS, undefined, { signal: ended }).catch(() => undefined)
  }
}
