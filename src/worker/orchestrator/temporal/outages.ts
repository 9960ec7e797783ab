// Logs outages of Temporal: one line when the server is lost and one when it is back, however many calls fail.
import { setTimeout as sleep } from 'node:timers/promises'
import type { NativeConnection } from '@temporalio/worker'
import type { Logger } from '../../../agent/tool.ts'
import { steadyNow } from '../../steady-clock.ts'

const PROBE_MS = 3_000
const RETRY_MS = 1_000
/** Calls to a frozen server fail only at their deadline. For a poll, that is a minute, which is when the SDK would notice. */
const ASK_MS = 10_000
/** A server that is back may refuse calls while it starts. */
const SETTLING_MS = 10_000

export interface WatchedTemporal {
  address: string
  /** Resolves when the server answers. */
  probe(): Promise<unknown>
}

/** Watches the servers of this process. */
export interface TemporalOutages {
  /** Returns the function that ends the watch. */
  watch(temporal: WatchedTemporal): () => void
  /** A call of the SDK has failed. Resolves to whether a server is unavailable (which is then logged) or has just come back. */
  suspect(): Promise<boolean>
  /** How long a server has not answered, in milliseconds; 0 if all servers answer. */
  awayMs(): number
}

/** Starts a watch without servers. */
export function watchTemporal(logger: Logger, { retryMs = RETRY_MS, settlingMs = SETTLING_MS, askMs = ASK_MS } = {}): TemporalOutages {
  const watched = new Set<WatchedTemporal>()
  /** Since when each server has been away, by the steady clock. */
  const away = new Map<WatchedTemporal, number>()
  let asking: Promise<void> | undefined
  let quietUntil = 0

  async function answers(temporal: WatchedTemporal): Promise<boolean> {
    return temporal.probe().then(
      () => true,
      () => false,
    )
  }

  async function askAll(): Promise<void> {
    const lost = await Promise.all([...watched].map(async (one) => !(await answers(one)) && one))
    for (const temporal of lost) if (temporal) lose(temporal)
  }

  function lose(temporal: WatchedTemporal): void {
    if (away.has(temporal) || !watched.has(temporal)) return
    away.set(temporal, steadyNow())
    void waitFor(temporal)
  }

  /** Two probes must fail, because a single one may have expired while this process itself was busy or frozen. */
  async function askRegularly(temporal: WatchedTemporal): Promise<void> {
    for (;;) {
      await sleep(askMs, undefined, { ref: false })
      if (!watched.has(temporal)) return
      if (!away.has(temporal) && !(await answers(temporal)) && !(await answers(temporal))) lose(temporal)
    }
  }

  async function waitFor(temporal: WatchedTemporal): Promise<void> {
    const { address } = temporal
    const since = away.get(temporal) ?? steadyNow()
    logger.warn({ temporal: address }, `Temporal at ${address} does not answer. Sessions continue when it is back.`)
    do await sleep(retryMs, undefined, { ref: false })
    while (watched.has(temporal) && !(await answers(temporal)))
    away.delete(temporal)
    if (!watched.has(temporal)) return
    quietUntil = Date.now() + settlingMs
    // This is a warning, too, so that it is visible wherever the first line was.
    logger.warn({ temporal: address }, `Temporal at ${address} answers again, after ${Math.round((steadyNow() - since) / 1_000)} s.`)
  }

  return {
    watch(temporal) {
      watched.add(temporal)
      void askRegularly(temporal)
      return () => void watched.delete(temporal)
    },
    async suspect() {
      if (away.size > 0 || Date.now() < quietUntil) return true
      asking ??= askAll().finally(() => {
        asking = undefined
      })
      await asking
      return away.size > 0
    },
    awayMs: () => Math.max(0, ...[...away.values()].map((since) => steadyNow() - since)),
  }
}

/** A probe over the worker's own connection. */
export function probeOf(connection: NativeConnection): () => Promise<unknown> {
  // Core retries a call for as long as its deadline allows.
  return () => connection.withDeadline(Date.now() + PROBE_MS, () => connection.workflowService.getSystemInfo({}))
}
