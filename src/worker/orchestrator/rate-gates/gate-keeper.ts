// Keeps the rate gates of an orchestrator: tells its executors which are not open, and workers on other machines what was refused here.
import type { Logger } from '../../../agent/tool.ts'
import type { Store } from '../../../store/store.ts'
import type { Executor } from '../executors/executors.ts'
import { rateGates } from './rate-gates.ts'

/** How often gates that are not open are checked. */
const LOOK_EVERY_MS = 1_000

/** What the keeper needs. */
export interface GateNeeds {
  store: Pick<Store, 'shutGate' | 'shutGates' | 'watchGates'>
  executors(): Iterable<Executor>
  logger: Logger
  /** This worker, as others see it. */
  worker: string
}

/** The keeper. */
export interface GateKeeper {
  /** A provider refused a call of an executor. */
  refused(key: string, forMs: number): void
  /** Milliseconds until this call may be made; 0: now. */
  placeOf(key: string, call: string): number
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
      for (const { key, forMs } of await store.shutGates()) gates.learn(key, forMs)
      look()
    } catch (err) {
      logger.debug({ err }, 'the rate gates of other workers could not be read')
    }
  }

  const endWatch = store.watchGates(() => void learn())

  return {
    refused(key, forMs) {
      const isShut = known.includes(key)
      if (!gates.refused(key, forMs)) return
      if (!isShut) logger.warn({ provider: key, forMs }, 'a provider limits the rate: all calls to it wait, then proceed one at a time')
      look()
      store
        .shutGate(key, forMs, worker)
        .catch((err: unknown) => logger.debug({ err }, 'other workers could not be notified of a rate gate'))
    },
    placeOf: (key, call) => gates.placeOf(key, call),
    greet: ({ channel }) => void (known.length > 0 && channel.send({ type: 'gates', keys: [...known] })),
    end() {
      endWatch()
      clearTimeout(looking)
    },
  }
}
