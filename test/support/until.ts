// Waiting for a condition: tests wait for what they mean, never for a fixed time.
import { setTimeout as sleep } from 'node:timers/promises'
import { size } from './sizes.ts'

/** The pause between two looks grows, because many of them query a workflow, which costs as much CPU as a turn. */
const FIRST_MS = 25
const MAX_PAUSE_MS = 150

/** Resolves with the first truthy result of `look`; what `look` throws counts as "not yet". Rejects after `timeoutMs` (default 20,000). */
export async function until<T>(what: string, look: () => T | Promise<T>, timeoutMs = 20_000): Promise<Exclude<NonNullable<T>, false>> {
  const giveUpAt = Date.now() + timeoutMs
  let last: unknown
  for (let pauseMs = FIRST_MS; ; pauseMs = Math.min(pauseMs * 1.3, MAX_PAUSE_MS)) {
    try {
      last = await look()
      if (last) return last as Exclude<NonNullable<T>, false>
    } catch (error) {
      last = error
    }
    if (Date.now() > giveUpAt) throw new Error(`waited ${timeoutMs} ms in vain until ${what}; last seen: ${say(last)}`)
    await sleep(pauseMs)
  }
}

/** Longer than what a test that kills processes waits for may take. */
export const FOUND_WITHIN_MS = size(120_000, 1_200_000)

/**
 * Waits until `found` returns something. Unlike `until`, it looks every 25 ms, because a test kills what it finds, and rejects at once if
 * `found` throws.
 */
export async function untilFound<T>(found: () => T | undefined | false | Promise<T | undefined | false>): Promise<T> {
  for (const giveUpAt = Date.now() + FOUND_WITHIN_MS; ; await sleep(FIRST_MS)) {
    const result = await found()
    if (result !== undefined && result !== false) return result
    if (Date.now() > giveUpAt) throw new Error(`waited ${FOUND_WITHIN_MS} ms in vain until ${found}`)
  }
}

function say(last: unknown): string {
  return last instanceof Error ? String(last) : (JSON.stringify(last) ?? 'undefined')
}

/** A door that stays shut until it is opened: holds a tool or a model where a test wants it. */
export interface Gate {
  /** Resolves when something has arrived at the gate. */
  readonly reached: Promise<void>
  /** Waits until the gate is open; rejects with the signal's reason when that aborts. */
  pass(signal?: AbortSignal): Promise<void>
  open(): void
}

/** A shut gate. */
export function gate(): Gate {
  let reach = (): void => undefined
  let open = (): void => undefined
  const reached = new Promise<void>((resolve) => {
    reach = resolve
  })
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return {
    reached,
    open: () => open(),
    async pass(signal) {
      reach()
      if (!signal) return opened
      signal.throwIfAborted()
      const aborted = new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
      await Promise.race([opened, aborted])
    },
  }
}
