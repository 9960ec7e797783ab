// An outside system: it records what tools and models do to it, and holds them where a test wants them held.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { FOUND_WITHIN_MS } from '../../support/until.ts'

/**
 * A place in a body, which reports to the ledger when it gets there. `late`: it stays there until its outcome is asked for, or its key comes
 * again, from whichever process.
 */
export type Stage = 'loading' | 'model' | 'checked' | 'entered' | 'late' | 'applied' | 'left' | 'verify' | 'verified_too_early'

/** What reached a stage. */
export interface Mark {
  stage: Stage
  session: string
  /** `model`, or the tool's name. */
  what: string
  callId: string
  attempt: number
  key: string
  pid: number
  at: number
  /** What else the body reports. */
  note?: unknown
}

/** A body that is held at a stage. */
export interface HeldMark extends Mark {
  release(): void
}

/** Selects marks. */
export type MarkFilter = Partial<Pick<Mark, 'stage' | 'session' | 'what' | 'attempt' | 'pid'>>

/** A running ledger. */
export interface Ledger {
  url: string
  /** Marks so far, oldest first. */
  marks(filter?: MarkFilter): Mark[]
  /** Holds the next mark that fits until it is released; resolves when that mark arrives, and rejects if none does in time. */
  holdNext(filter: MarkFilter): Promise<HeldMark>
  /** Resolves with the first mark that fits, which may already have arrived; rejects if none does in time. */
  reached(filter: MarkFilter): Promise<Mark>
  /** Applies the effect of what reached the mark, from outside: the process that requested it may be dead. */
  apply(mark: Mark): void
  close(): Promise<void>
}

const SHOWN_MARKS = 20

interface PendingHold {
  filter: MarkFilter
  holds: boolean
  take(mark: HeldMark): void
}

/** Starts a ledger on a free port of the loopback interface. */
export async function startLedger(): Promise<Ledger> {
  const marks: Mark[] = []
  const waiting = new Set<PendingHold>()
  const late = new Map<string, () => void>()
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const mark: Mark = { ...(JSON.parse(body) as Mark), at: Date.now() }
      marks.push(mark)
      const answer = (): void => void response.end(JSON.stringify(answerTo(mark, marks)))
      const found = [...waiting].filter((one) => fits(mark, one.filter))
      const holder = found.find((one) => one.holds)
      for (const one of found.filter((other) => !other.holds || other === holder)) {
        waiting.delete(one)
        one.take({ ...mark, release: answer })
      }
      if (mark.stage === 'late') return void late.set(mark.key, answer)
      if (!holder) answer()
      late.get(mark.key)?.()
    })
  })
  // A process whose event loop is blocked does not notice that an idle connection was closed.
  server.keepAliveTimeout = 0
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  function next(filter: MarkFilter, holds: boolean): Promise<HeldMark> {
    const found = new Promise<HeldMark>((resolve, reject) => {
      const one: PendingHold = { filter, holds, take: (mark) => resolve(mark) }
      waiting.add(one)
      setTimeout(() => {
        if (waiting.delete(one)) reject(new Error(`nothing reached ${JSON.stringify(filter)} in ${FOUND_WITHIN_MS} ms; ${seen(filter)}`))
      }, FOUND_WITHIN_MS).unref()
    })
    // A test that failed before it waited for this has reported something better.
    found.catch(() => undefined)
    return found
  }

  /** The newest marks of the filter's session, for a message. */
  function seen({ session }: MarkFilter): string {
    const newest = marks.filter((mark) => session === undefined || mark.session === session).slice(-SHOWN_MARKS)
    const lines = newest.map((mark) => `${mark.session}: ${mark.what} ${mark.stage}, attempt ${mark.attempt}, pid ${mark.pid}`)
    return `what came: ${lines.join('; ') || 'nothing'}`
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    marks: (filter = {}) => marks.filter((mark) => fits(mark, filter)),
    holdNext: (filter) => next(filter, true),
    reached: async (filter) => marks.find((mark) => fits(mark, filter)) ?? next(filter, false),
    apply: (mark) => void marks.push({ ...mark, stage: 'applied', at: Date.now() }),
    close: () => closeServer(server),
  }
}

/** What a body learns: whether its key was applied before, which is all that a `verify` can ask. */
function answerTo(mark: Mark, marks: Mark[]): { applied: boolean; enteredBy: number[] } {
  const same = marks.filter(({ key }) => key === mark.key)
  return {
    applied: same.some(({ stage }) => stage === 'applied'),
    enteredBy: same.filter(({ stage }) => stage === 'entered').map(({ pid }) => pid),
  }
}

function fits(mark: Mark, filter: MarkFilter): boolean {
  return Object.entries(filter).every(([name, value]) => mark[name as keyof Mark] === value)
}

function closeServer(server: Server): Promise<void> {
  server.closeAllConnections()
  return new Promise((resolve, reject) => server.close((error) => (error ? reject(error) : resolve())))
}
