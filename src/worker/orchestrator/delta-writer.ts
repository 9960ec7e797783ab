// Streams model output to the side store, for watchers: one statement for all sessions, every few milliseconds. The writer keeps a copy of
// each unfinished answer, because the table does not survive a crash of Postgres.
import { inTime } from '../../waiting/in-time.ts'
import type { CallModelInput } from '../../calls/activities.ts'
import type { Logger } from '../../agent/tool.ts'
import type { JobOrder } from '../../calls/jobs.ts'
import { addDelta, type DeltaPart, type DeltaStream, type ModelDelta, withoutFirst } from '../../session/watching/deltas.ts'
import type { Store } from '../../store/store.ts'
import type { AnswerPart } from '../protocol.ts'

export interface DeltaWriter {
  /** A job's model has produced more output. The part may overlap with what is already known. */
  add(job: string, order: JobOrder, part: AnswerPart): void
  /** The job has ended, whether its model has answered or not. */
  end(job: string): void
  /** Finishes the current statement and deletes what is recorded. Never rejects. */
  settle(): Promise<void>
}

/** An answer that a model is streaming. */
interface Stream extends DeltaStream {
  all: ModelDelta[]
  until: number
  /** The pieces to save with the next statement, from position `from` on. */
  unsaved: ModelDelta[]
  from: number
  isStored: boolean
  endedAt?: number
}

/** Time from the start of one statement to the start of the next. */
const BETWEEN_MS = 12
/** Delay before the first statement: an answer that is complete by then is not streamed, because it is recorded just as soon. */
const FIRST_MS = 2
const FIRST_RETRY_MS = 250
const LAST_RETRY_MS = 4_000
const TIDY_MS = 1_000
/** How long the writer waits for an ended answer to be recorded. After that, its stored parts are strays. */
const GIVE_UP_MS = 10 * 60_000
/** Delay before the first search for strays, which finds what the previous orchestrator left. */
const FIRST_SWEEP_MS = 5_000
/** Interval of later searches, while there is something to write. They find what other workers left. */
const SWEEP_MS = 90_000
const GOODBYE_MS = 1_000

export function deltaWriter(store: Pick<Store, 'saveDeltas' | 'tidyDeltas' | 'sweepDeltas'>, logger: Logger): DeltaWriter {
  const streams = new Map<string, Stream>()
  /** Streams with something to save. */
  const due = new Set<Stream>()
  let writing: Promise<void> | undefined
  let begunAt = Number.NEGATIVE_INFINITY
  let failures = 0
  let isClosing = false
  let tidying: NodeJS.Timeout | undefined
  let sweeping: NodeJS.Timeout | undefined

  function wake(): void {
    writing ??= write().finally(() => {
      writing = undefined
      if (due.size > 0 && !isClosing) wake()
    })
  }

  async function write(): Promise<void> {
    const pause = failures > 0 ? Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LAST_RETRY_MS) : BETWEEN_MS
    const waitMs = Math.max(FIRST_MS, begunAt + pause - performance.now())
    if (!isClosing) await new Promise((resolve) => setTimeout(resolve, waitMs).unref())
    const saved = [...due].filter(({ endedAt, isStored }) => endedAt === undefined || isStored)
    due.clear()
    if (saved.length === 0) return
    begunAt = performance.now()
    const parts = saved.map(partOf)
    try {
      await store.saveDeltas(parts)
      failures = 0
      for (const stream of saved) stream.isStored = true
    } catch (err) {
      if (failures++ === 0) logger.debug({ err }, 'streamed answers could not be stored; watchers see each answer once it is recorded')
      // Parts that were stored earlier may be lost, too.
      for (const stream of saved) if (stream.endedAt === undefined) rewrite(stream)
    }
    tidying ??= later(() => void tidy(), TIDY_MS)
    sweeping ??= later(() => void sweep(), SWEEP_MS)
  }

  function rewrite(stream: Stream): void {
    stream.unsaved = [...stream.all]
    stream.from = 0
    due.add(stream)
  }

  async function tidy(): Promise<void> {
    tidying = undefined
    const stored = [...streams].filter(([, { isStored }]) => isStored)
    const ended = stored.filter(([, { endedAt }]) => endedAt !== undefined)
    const unfinished = stored.filter(([, stream]) => stream.endedAt === undefined && !due.has(stream))
    if (stored.length > 0) {
      try {
        const { deleted, emptied } = await store.tidyDeltas({ ended: streamsOf(ended), unfinished: streamsOf(unfinished) })
        for (const [at, [job]] of ended.entries()) if (deleted.has(at)) streams.delete(job)
        for (const [at, [, stream]] of unfinished.entries()) if (emptied.has(at)) rewrite(stream)
        if (due.size > 0) wake()
      } catch (err) {
        logger.debug({ err }, 'streamed answers could not be deleted; pawl retries it')
      }
    }
    const now = performance.now()
    for (const [job, { endedAt = now, isStored }] of streams) if (now - endedAt > (isStored ? GIVE_UP_MS : TIDY_MS)) streams.delete(job)
    if (streams.size > 0 && !isClosing) tidying ??= later(() => void tidy(), TIDY_MS)
  }

  async function sweep(): Promise<void> {
    sweeping = undefined
    try {
      await store.sweepDeltas()
    } catch (err) {
      logger.debug({ err }, 'strays could not be deleted; the next sweep retries it')
      sweeping ??= later(() => void sweep(), SWEEP_MS)
    }
  }
  sweeping = later(() => void sweep(), FIRST_SWEEP_MS)

  return {
    add(job, order, part) {
      let stream = streams.get(job)
      if (!stream) streams.set(job, (stream = begin(order, part)))
      for (const piece of withoutFirst(part.pieces, stream.until - part.from)) {
        addDelta(stream.all, piece)
        addDelta(stream.unsaved, piece)
      }
      stream.until = Math.max(stream.until, part.until)
      due.add(stream)
      wake()
    },
    end(job) {
      const stream = streams.get(job)
      if (!stream) return
      stream.endedAt ??= performance.now()
      // A stream whose statement is in progress is deleted later, with the others.
      if (!stream.isStored && stream.from === 0) streams.delete(job)
    },
    async settle() {
      isClosing = true
      clearTimeout(tidying)
      clearTimeout(sweeping)
      const rest = async (): Promise<void> => {
        await writing
        await tidy()
      }
      await inTime(rest(), GOODBYE_MS)
    },
  }
}

function begin(order: JobOrder, { begunAt }: AnswerPart): Stream {
  const { run, turn, watermark } = order.input as CallModelInput
  const { ticket, attempt } = order
  const { sessionId } = ticket
  const empty = { all: [], until: 0, unsaved: [], from: 0, isStored: false }
  return { sessionId, seq: watermark.seq, run, turn, attempt: attempt.number, begunAt, ...empty }
}

/** Returns the new pieces of a stream and marks them as saved. */
function partOf(stream: Stream): DeltaPart {
  const { sessionId, seq, run, turn, attempt, begunAt, from, until, unsaved: pieces } = stream
  stream.unsaved = []
  stream.from = until
  return { sessionId, seq, run, turn, attempt, begunAt, from, until, pieces }
}

function streamsOf(streams: readonly (readonly [string, Stream])[]): DeltaStream[] {
  return streams.map(([, { sessionId, seq, run, turn, attempt, begunAt }]) => ({ sessionId, seq, run, turn, attempt, begunAt }))
}

function later(what: () => void, ms: number): NodeJS.Timeout {
  return setTimeout(what, ms).unref()
}
