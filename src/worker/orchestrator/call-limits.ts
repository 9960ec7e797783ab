// Keeps the limits of tools' calls: over all workers by the side store, and in this worker alone while the store is unavailable.
import type { Logger } from '../../agent/tool.ts'
import type { AdmissionRequest, CallLimit, LimitedEntry } from '../../session/call-limits.ts'
import { StoreError } from '../../connect/errors.ts'
import type { Store } from '../../store/store.ts'
import { inTime } from '../../waiting/in-time.ts'
import { takeTurns } from '../../waiting/in-turn.ts'
import { steadyNow } from '../steady-clock.ts'

/** A store that has not answered after this long counts as unavailable: a call, and whoever interrupts it, should not wait for longer. */
const PATIENCE_MS = 5_000
/** How long what has failed for one call counts for those behind it. */
const AWAY_MS = 1_000
/** How soon a call asks again while the store is unavailable. */
const ASK_AGAIN_MS = 1_000
/** How often the log may say that the limits apply to this worker only. */
const SAY_EVERY_MS = 60_000
/** How often what no longer counts is forgotten. */
const SWEEP_EVERY_MS = 60_000

export interface LimitKeeper {
  /** 0 if the limits admit the call; otherwise, after how many milliseconds it should ask again. */
  admit(request: AdmissionRequest): Promise<number>
  /** Notes that the entry of a body has ended. Never rejects: if it cannot be noted, the call counts until its time is over. */
  leave(entry: LimitedEntry): Promise<void>
}

export function keepLimits({ store, logger }: { store: Pick<Store, 'admitCall' | 'leaveLimits'>; logger: Logger }): LimitKeeper {
  const own = ownLimits()
  const inTurn = takeTurns()
  let away: { error: unknown; until: number } | undefined
  let saidAt = Number.NEGATIVE_INFINITY

  function say(err: unknown): void {
    if (steadyNow() - saidAt < SAY_EVERY_MS) return
    saidAt = steadyNow()
    logger.warn({ err }, 'limits of tools apply to this worker alone until the side store is available again')
  }

  /**
   * The calls of a tool ask one after another. They lock its limits, so they would only wait for each other in the store, each with a
   * connection that flushes need.
   */
  function ask(request: AdmissionRequest): Promise<number> {
    return inTurn(request.limits[0]?.tool ?? '', async () => {
      // A store that hangs must not hang for each of them.
      if (away && steadyNow() < away.until) throw away.error
      try {
        const waitMs = await inTime(store.admitCall(request), PATIENCE_MS)
        if (waitMs === undefined)
          throw new StoreError('store_unavailable', `The side store did not answer within ${PATIENCE_MS / 1_000} s.`)
        return waitMs
      } catch (error) {
        if (error instanceof StoreError && error.code === 'store_unavailable') away = { error, until: steadyNow() + AWAY_MS }
        throw error
      }
    })
  }

  return {
    async admit(request) {
      try {
        const waitMs = await ask(request)
        if (waitMs === 0) own.take(request)
        return waitMs
      } catch (err) {
        say(err)
        if (!own.hasRoom(request)) return ASK_AGAIN_MS
        own.take(request)
        return 0
      }
    },
    async leave(entry) {
      const { sessionId: session, callId: call } = entry
      own.leave(entry)
      await store
        .leaveLimits(entry)
        .catch((err: unknown) => logger.debug({ err, session, call }, 'the end of a limited call could not be stored'))
    },
  }
}

/** Calls of this worker. */
interface OwnLimits {
  hasRoom(request: AdmissionRequest): boolean
  take(request: AdmissionRequest): void
  leave(entry: LimitedEntry): void
}

function ownLimits(): OwnLimits {
  /** For each limit, when each call, or each attempt that a rate counts, stops counting. */
  const taken = new Map<string, Map<string, number>>()
  let attempts = 0
  /** For each call, its newest attempt and the limits that count it while that runs. */
  const running = new Map<string, { names: string[]; attempt: number; entry: string }>()
  let sweptAt = steadyNow()
  const nameOf = ({ of, tool, key }: CallLimit): string => JSON.stringify([of, tool, key])
  const callOf = ({ sessionId, callId }: Pick<AdmissionRequest, 'sessionId' | 'callId'>): string => JSON.stringify([sessionId, callId])

  function callsOf(name: string): Map<string, number> {
    const calls = taken.get(name) ?? new Map<string, number>()
    for (const [call, until] of calls) if (until <= steadyNow()) calls.delete(call)
    if (calls.size === 0) taken.delete(name)
    return calls
  }

  /** A limit may have a key for each of very many customers. */
  function sweep(): void {
    if (steadyNow() - sweptAt < SWEEP_EVERY_MS) return
    sweptAt = steadyNow()
    for (const name of taken.keys()) callsOf(name)
    for (const [call, { names }] of running) if (!names.some((name) => taken.get(name)?.has(call))) running.delete(call)
  }

  return {
    hasRoom(request) {
      return request.limits.every((limit) => {
        const calls = callsOf(nameOf(limit))
        return calls.has(callOf(request)) || calls.size < limit.max
      })
    },
    take(request) {
      sweep()
      const call = callOf(request)
      for (const limit of request.limits) {
        const name = nameOf(limit)
        const calls = callsOf(name)
        const isAttempt = limit.of === 'rate' && request.begins
        // The next attempt of the call counts, too.
        if (isAttempt) calls.delete(call)
        calls.set(isAttempt ? `${call} ${++attempts}` : call, steadyNow() + (limit.perMs ?? request.forMs))
        taken.set(name, calls)
      }
      const names = request.limits.filter(({ of }) => of === 'concurrency').map(nameOf)
      const { attempt, entry } = request
      if (names.length > 0 && attempt >= (running.get(call)?.attempt ?? 0)) running.set(call, { names, attempt, entry })
    },
    leave({ entry, ...of }) {
      const call = callOf(of)
      const newest = running.get(call)
      if (newest?.entry !== entry) return
      for (const name of newest.names) {
        taken.get(name)?.delete(call)
        callsOf(name)
      }
      running.delete(call)
    },
  }
}
