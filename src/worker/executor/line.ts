// An executor's connection to its orchestrator. If the orchestrator dies and is replaced, open requests are sent again to the next one.
import { ArchiveUnavailable, AttemptLost, StaleWatermark } from '../../calls/errors.ts'
import { PawlError } from '../../session/errors.ts'
import type { Channel } from '../channel.ts'
import type { Answers, Ask, FromExecutor, ToExecutor } from '../protocol.ts'

export interface OrchestratorLine {
  /** Uses this channel from now on: sends `hello` first, then the open requests. */
  connect(channel: Channel<ToExecutor, FromExecutor>, hello: FromExecutor & { type: 'hello' }): void
  /** Sends a message. Without an orchestrator, the message is dropped, because the next `hello` has its content. */
  post(message: FromExecutor): void
  /** Sends a request and waits for the answer without a time limit. Rejects with the orchestrator's refusal. */
  ask<A extends Ask>(ask: A): Promise<Answers[A['ask']]>
  receive(message: ToExecutor & { type: 'answer' | 'refusal' }): void
}

interface PendingAsk {
  ask: Ask
  resolve(value: unknown): void
  reject(error: Error): void
}

/** Creates a connection that is not open yet. */
export function orchestratorLine(): OrchestratorLine {
  const waiting = new Map<number, PendingAsk>()
  let channel: Channel<ToExecutor, FromExecutor> | undefined
  let lastRequest = 0

  return {
    connect(other, hello) {
      channel = other
      other.send(hello)
      for (const [request, { ask }] of waiting) other.send({ type: 'request', request, ask })
    },
    post: (message) => channel?.send(message),
    ask<A extends Ask>(ask: A) {
      const request = ++lastRequest
      return new Promise<Answers[A['ask']]>((resolve, reject) => {
        waiting.set(request, { ask, resolve: resolve as (value: unknown) => void, reject })
        channel?.send({ type: 'request', request, ask })
      })
    },
    receive(message) {
      const one = waiting.get(message.request)
      waiting.delete(message.request)
      if (message.type === 'answer') one?.resolve(message.value)
      else one?.reject(errorOf(message))
    },
  }
}

function errorOf({ code, message }: ToExecutor & { type: 'refusal' }): Error {
  switch (code) {
    case 'stale_watermark':
      return new StaleWatermark(message)
    case 'archive_unavailable':
      return new ArchiveUnavailable({ cause: message })
    case 'attempt_lost':
      return new AttemptLost()
    default:
      return new PawlError(code, message)
  }
}
