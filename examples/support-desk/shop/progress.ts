// Reports the progress of each request to followers, line by line, so that a kill can strike during one.
import type { ServerResponse } from 'node:http'
import type { LedgerOutcome } from './ledger.ts'

/** The progress of a request. `done`: its effect has happened, but its sender has no answer yet. */
export type Progress = {
  request: number
  method: string
  path: string
  /** The sender's X-Request-Id and User-Agent. */
  requestId: string | null
  caller: string | null
} & ({ at: 'received' } | { at: 'done'; outcome: LedgerOutcome } | { at: 'answered'; heard: 'heard' | 'unheard' })

/** Spreads progress to its followers, one JSON object a line. */
export function createProgress(): { tell(progress: Progress): void; follow(res: ServerResponse): void } {
  const followers = new Set<ServerResponse>()
  return {
    tell(progress) {
      for (const follower of followers) follower.write(`${JSON.stringify(progress)}\n`)
    },
    follow(res) {
      res.writeHead(200, { 'content-type': 'application/x-ndjson' }).flushHeaders()
      followers.add(res)
      res.on('close', () => followers.delete(res))
    },
  }
}
