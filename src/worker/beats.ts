// Beats for this process's activities by somebody else's event loop: the supervisor's, or a thread's.
import { AttemptLost } from '../activities/errors.ts'
import type { Beats, Hold, HoldOptions } from '../activities/needs.ts'
import { PawlError } from '../session/errors.ts'
import type { FromWorker, Post, ToWorker } from './messages.ts'

/** Beats through a channel. */
export interface RemoteBeats extends Beats {
  /** Takes a message from the other side. */
  receive(message: ToWorker): void
  /** The other side is gone: holds go on through another channel. */
  moveTo(post: Post<FromWorker>): void
}

interface Open {
  options: HoldOptions
  controller: AbortController
}

/** Beats through `post`; `killsOverdue`: the other side ends this process when an attempt outlives its time. */
export function remoteBeats(post: Post<FromWorker>, side: { killsOverdue: boolean }): RemoteBeats {
  const open = new Map<number, Open>()
  const requests = new Map<number, { id: number; settle: (answer: ToWorker & { type: 'reported' }) => void }>()
  let send = post
  let { killsOverdue } = side
  let lastId = 0
  let lastRequest = 0

  function report(id: number, content: HoldOptions['report']): Promise<void> {
    const request = ++lastRequest
    return new Promise((resolve, reject) => {
      requests.set(request, {
        id,
        settle({ lost, error }) {
          if (lost) reject(new AttemptLost())
          else if (error === undefined) resolve()
          else reject(new PawlError('beat_failed', `The server could not be told of the attempt: ${error}. It is tried again.`))
        },
      })
      const one = open.get(id)
      if (one) one.options = { ...one.options, report: content }
      send({ type: 'report', id, request, report: content })
    })
  }

  function hold(options: HoldOptions): Hold {
    const id = ++lastId
    const controller = new AbortController()
    open.set(id, { options, controller })
    send({ type: 'hold', id, options })
    return {
      signal: controller.signal,
      get killsOverdue() {
        return killsOverdue
      },
      report: (content) => report(id, content),
      stillMine: () =>
        report(id, open.get(id)?.options.report ?? options.report).then(
          () => true,
          () => false,
        ),
      release() {
        open.delete(id)
        send({ type: 'release', id })
      },
    }
  }

  return {
    hold,
    receive(message) {
      if (message.type === 'stop') {
        open.get(message.id)?.controller.abort(new AttemptLost({ cause: message.why }))
      } else if (message.type === 'reported') {
        requests.get(message.request)?.settle(message)
        requests.delete(message.request)
      }
    },
    moveTo(other) {
      send = other
      killsOverdue = false
      for (const [id, { options }] of open) send({ type: 'hold', id, options })
      for (const [request, { id }] of requests) {
        const one = open.get(id)
        if (one) send({ type: 'report', id, request, report: one.options.report })
      }
    },
  }
}
