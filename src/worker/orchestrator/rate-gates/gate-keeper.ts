// Keeps the rate gates of an orchestrator. Tells its executors which gates are not open, and workers on other machines what was refused
// here.
import type { Logger } from '../../../agent/tool.ts'
import type { GateSlot } from '../../../calls/reads.ts'
import type { Store } from '../../../store/store.ts'
import type { Executor } from '../executors/executor-state.ts'
import { PROBE_EVERY_MS, rateGates } from './rate-gates.ts'

/** How often gates that are not open are checked. */
const LOOK_EVERY_MS = 1_000

export interface GateNeeds {
  store: Pick<Store, 'shutGate' | 'shutGates' | 'openGate' | 'probeGate' | 'watchGates'>
  executors(): Iterable<Executor>
  logger: Logger
  /** This worker, as others see it. */
  worker: string
}

export interface GateKeeper {
  /** A provider refused a call of an executor; `isHeader`: the provider's own header says for how long. */
  refused(key: string, forMs: number, isHeader: boolean): void
  /** A provider accepted a call although the gate was closed. */
  accepted(key: string): void
  /** When this call may be made. */
  slotFor(key: string, call: string): Promise<GateSlot>
  /** Tells a new executor which gates are not open. */
  greet(executor: Executor): void
  end(): void
}

/** Starts the keeper. Postgres is best effort: without it, each machine has its own gates. */
export function keepGates({ store, executors, logger, worker }: GateNeeds): GateKeeper {
  const gates = rateGates()
  let known: readonly string[] = []
  let looking: NodeJS.Timeout | undefined

  /** Tells the executors what has changed. */
  function look(): void {
    const keys = gates.keys()
    const opened = known.filter((key) => !keys.includes(key))
    const isSame = opened.length === 0 && keys.length === known.length
    known = keys
    if (!isSame) for (const { channel } of executors()) channel.send({ type: 'gates', keys })
    for (const provider of opened) logger.info({ provider }, 'calls to a provider no longer wait for their turn')
    clearTimeout(looking)
    looking = keys.length > 0 ? setTimeout(look, LOOK_EVERY_MS).unref() : undefined
  }

  async function learn(): Promise<void> {
    try {
      for (const { key, forMs, openedAgoMs } of await store.shutGates()) {
        if (forMs > 0) gates.learn(key, forMs)
        else if (openedAgoMs !== null) gates.opened(key, openedAgoMs)
      }
      look()
    } catch (err) {
      logger.debug({ err }, 'the rate gates of other workers could not be read')
    }
  }

  /** Whether no other worker has just let a call try the gate. */
  async function probes(key: string): Promise<boolean> {
    gates.probed(key)
    return store.probeGate(key, PROBE_EVERY_MS).catch(() => true)
  }

  const endWatch = store.watchGates(() => void learn())

  return {
    refused(key, forMs, isHeader) {
      const isShut = known.includes(key)
      if (!gates.refused(key, forMs, isHeader)) return
      if (!isShut) logger.warn({ provider: key, forMs }, 'a provider limits the rate: all calls to it wait, then proceed one at a time')
      look()
      store
        .shutGate(key, forMs, worker)
        .catch((err: unknown) => logger.debug({ err }, 'other workers could not be notified of a rate gate'))
    },
    accepted(key) {
      if (!gates.opened(key, 0)) return
      logger.info({ provider: key }, 'a provider accepts calls again, sooner than it had asked to wait')
      store.openGate(key, worker).catch((err: unknown) => logger.debug({ err }, 'other workers could not be notified of an open gate'))
    },
    async slotFor(key, call) {
      const slotMs = gates.slotFor(key, call)
      if (slotMs <= 0 || (gates.mayProbe(key) && (await probes(key)))) return { afterMs: 0, slotMs: 0 }
      // The gate may be opened in the meantime. The call keeps its slot.
      return { afterMs: Math.min(slotMs, PROBE_EVERY_MS), slotMs }
    },
    greet: ({ channel }) => void (known.length > 0 && channel.send({ type: 'gates', keys: [...known] })),
    end() {
      endWatch()
      clearTimeout(looking)
    },
  }
}
