// An executor's connection to its orchestrator: messages, requests, and model output as it arrives. If the orchestrator dies and is
// replaced, open requests are sent again to the next one.
import { ArchiveUnavailable, AttemptLost, StaleWatermark } from '../../calls/errors.ts'
import { PawlError } from '../../session/errors.ts'
import type { Channel } from '../channel.ts'
import type { Answers, Ask, FromExecutor, ToExecutor, AnswerPart } from '../protocol.ts'
import { addDelta, type ModelDelta, sizeOf } from '../../session/watching/deltas.ts'

export interface Uplink {
  /** Uses this channel from now on: sends `hello` first, then the open requests. */
  connect(channel: Channel<ToExecutor, FromExecutor>, hello: FromExecutor & { type: 'hello' }): void
  /** Sends a message. Without an orchestrator, the message is dropped, because the next `hello` has its content. */
  post(message: FromExecutor): void
  /** Sends a request and waits for the answer without a time limit. Rejects with the orchestrator's refusal. */
  ask<A extends Ask>(ask: A): Promise<Answers[A['ask']]>
  receive(message: ToExecutor & { type: 'answer' | 'refusal' }): void
  /** Starts to stream the output of a job's model. */
  stream(job: string): DeltaSender
}

interface PendingAsk {
  ask: Ask
  resolve(value: unknown): void
  reject(error: Error): void
}

/** Creates a connection that is not open yet. */
export function startUplink(): Uplink {
  const waiting = new Map<number, PendingAsk>()
  let channel: Channel<ToExecutor, FromExecutor> | undefined
  let lastRequest = 0
  const post = (message: FromExecutor): void => channel?.send(message)

  return {
    connect(other, hello) {
      channel = other
      other.send(hello)
      for (const [request, { ask }] of waiting) other.send({ type: 'request', request, ask })
    },
    post,
    stream: answerStreams((parts) => post({ type: 'deltas', parts })),
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

/** The streamed output of one job's model. It is kept until the job ends, in case a new orchestrator connects. */
export interface DeltaSender {
  add(piece: ModelDelta): void
  /** The answer is complete or was cut off, so later pieces are dropped. */
  end(): void
  /** Returns everything so far and marks it as sent. */
  soFar(): AnswerPart
}

/** Pause between two messages. A piece reaches a watcher at the latest after this pause and that of the orchestrator's writer. */
const BETWEEN_MS = 8
/** The rest of a longer answer is not streamed. Watchers see the whole answer when it is recorded. */
const MAX_CHARACTERS = 4_000_000

/** Sends the first piece at once, and later pieces in parts; one message has the parts of all jobs. */
function answerStreams(post: (parts: { job: string; part: AnswerPart }[]) => void): (job: string) => DeltaSender {
  /** Unsent pieces, by job. */
  const due = new Map<string, () => AnswerPart>()
  let timer: NodeJS.Timeout | undefined

  function send(): void {
    const parts = [...due].map(([job, take]) => ({ job, part: take() }))
    due.clear()
    post(parts)
    timer = setTimeout(() => {
      timer = undefined
      if (due.size > 0) send()
    }, BETWEEN_MS)
  }

  return (job) => {
    const begunAt = Date.now()
    const all: ModelDelta[] = []
    let unsent: ModelDelta[] = []
    let from = 0
    let until = 0
    let hasEnded = false

    function take(): AnswerPart {
      const part = { begunAt, from, until, pieces: unsent }
      unsent = []
      from = until
      return part
    }

    return {
      add(piece) {
        hasEnded ||= until + sizeOf(piece) > MAX_CHARACTERS
        if (hasEnded) return
        addDelta(all, piece)
        addDelta(unsent, piece)
        until += sizeOf(piece)
        due.set(job, take)
        if (!timer) send()
      },
      end() {
        hasEnded = true
        // The executor reports the end of the job next.
        if (due.has(job)) post([{ job, part: take() }])
        due.delete(job)
      },
      soFar() {
        due.delete(job)
        take()
        return { begunAt, from: 0, until, pieces: [...all] }
      },
    }
  }
}
