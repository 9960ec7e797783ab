// The other side of `beats.ts`: takes holds and reports from a process and beats for them.
import type { Client } from '@temporalio/client'
import { type Beater, startBeater } from './beater.ts'
import type { FromWorker, Post, ToWorker } from './messages.ts'

/** Serves one process's beats. */
export interface BeatDesk {
  readonly beater: Beater
  /** Takes a message; false if it is none about beats. */
  receive(message: FromWorker): boolean
}

/** Opens a desk that answers through `post`. */
export function openBeatDesk(client: Client, post: Post<ToWorker>, onStop: (id: number) => void = () => undefined): BeatDesk {
  const beater = startBeater(client, (id, why) => {
    post({ type: 'stop', id, why })
    onStop(id)
  })
  return {
    beater,
    receive(message) {
      switch (message.type) {
        case 'hold':
          beater.hold(message.id, message.options)
          return true
        case 'release':
          beater.release(message.id)
          return true
        case 'report': {
          const { id, request, report } = message
          beater.report(id, report).then(
            (answer) => post({ type: 'reported', request, lost: answer === 'lost' }),
            (error: unknown) => post({ type: 'reported', request, lost: false, error: String(error) }),
          )
          return true
        }
        default:
          return false
      }
    },
  }
}
