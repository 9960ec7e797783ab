// Streams model output to the orchestrator while it arrives. The first piece is sent at once, and later pieces in parts; one message has
// the parts of all jobs. An executor keeps a job's whole output until the job ends, in case a new orchestrator connects.
import { addDelta, type ModelDelta, sizeOf } from '../../session/watching/deltas.ts'
import type { AnswerPart } from '../protocol.ts'

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

export function answerStreams(post: (parts: { job: string; part: AnswerPart }[]) => void): (job: string) => DeltaSender {
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
