// What a model says while it says it: passed on in parts, the first piece at once. All of it is kept, for an orchestrator that comes later.
import { addDelta, type ModelDelta, sizeOf } from '../../session/deltas.ts'
import type { AnswerPart } from '../protocol.ts'

/** The answer of one attempt of a model call. */
export interface AnswerStream {
  add(piece: ModelDelta): void
  /** Passes on what is left; later pieces are dropped. */
  end(): void
  /** Everything up to now; it counts as passed on. */
  soFar(): AnswerPart
}

/** Between two parts: together with the pause of the orchestrator's writer, a piece is at most so much later at a watcher. */
const BETWEEN_MS = 8
/** A longer answer is not streamed to its end: it arrives when it is recorded. */
const MOST_CHARACTERS = 4_000_000

/** A stream that begins with the first piece. */
export function streamAnswer(post: (part: AnswerPart) => void): AnswerStream {
  const begunAt = Date.now()
  const all: ModelDelta[] = []
  let unsent: ModelDelta[] = []
  let sentUntil = 0
  let until = 0
  let timer: NodeJS.Timeout | undefined
  let hasEnded = false

  function send(): void {
    if (unsent.length === 0) return
    post({ begunAt, from: sentUntil, until, pieces: unsent })
    unsent = []
    sentUntil = until
  }

  function pause(): void {
    timer = setTimeout(() => {
      timer = undefined
      if (unsent.length === 0) return
      send()
      pause()
    }, BETWEEN_MS)
  }

  return {
    add(piece) {
      if (hasEnded || until + sizeOf(piece) > MOST_CHARACTERS) {
        hasEnded = true
        return
      }
      addDelta(all, piece)
      addDelta(unsent, piece)
      until += sizeOf(piece)
      if (timer) return
      send()
      pause()
    },
    end() {
      clearTimeout(timer)
      send()
      hasEnded = true
    },
    soFar() {
      unsent = []
      sentUntil = until
      return { begunAt, from: 0, until, pieces: [...all] }
    },
  }
}
