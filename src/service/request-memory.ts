// The memory that requests may use at the same time: those of one caller, and all. A request that finds none free waits for its turn.
import { ServiceError } from './errors.ts'

/** Settings of a handler's requests. */
export interface RequestMemorySettings {
  /** Bytes for all requests in progress. */
  totalBytes: number
  /** Bytes for those of one caller. */
  callerBytes: number
  /** How long a request waits for its turn. */
  patienceMs: number
}

/** The memory of a handler's requests. */
export interface RequestMemory {
  /** Reserves memory for a request; the result releases it, once. @throws ServiceError `too_busy`. */
  reserve(caller: string, bytes: number, signal: AbortSignal): Promise<() => void>
}

interface WaitingRequest {
  caller: string
  bytes: number
  begin(): void
}

/** The maximum number of waiting requests of one caller. A caller with more does not wait for its answers. */
const MAX_WAITING = 1_000

/** The memory, all of it free. */
export function requestMemory({ totalBytes, callerBytes, patienceMs }: RequestMemorySettings): RequestMemory {
  const used = new Map<string, number>()
  const waiting = new Set<WaitingRequest>()
  let all = 0

  const usedBy = (caller: string): number => used.get(caller) ?? 0
  const fits = ({ caller, bytes }: WaitingRequest): boolean => all + bytes <= totalBytes && usedBy(caller) + bytes <= callerBytes

  function use({ caller, bytes }: WaitingRequest): () => void {
    all += bytes
    used.set(caller, usedBy(caller) + bytes)
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      all -= bytes
      const left = usedBy(caller) - bytes
      if (left > 0) used.set(caller, left)
      else used.delete(caller)
      for (const one of waiting) if (fits(one)) one.begin()
    }
  }

  return {
    async reserve(caller, bytes, signal) {
      if (bytes === 0) return () => undefined
      // A request that needs more than the total is answered alone.
      const asked = { caller, bytes: Math.min(bytes, callerBytes, totalBytes), begin: () => undefined }
      const before = [...waiting].filter((one) => one.caller === caller).length
      if (before === 0 && fits(asked)) return use(asked)
      if (before >= MAX_WAITING) throw tooBusy(asked)
      return new Promise((resolve, reject) => {
        const stop = (error: unknown): void => {
          leave()
          reject(error)
        }
        const onAbort = (): void => stop(signal.reason)
        const timer = setTimeout(() => stop(tooBusy(asked)), patienceMs)
        const one: WaitingRequest = {
          ...asked,
          begin() {
            leave()
            resolve(use(asked))
          },
        }
        function leave(): void {
          waiting.delete(one)
          clearTimeout(timer)
          signal.removeEventListener('abort', onAbort)
        }
        signal.addEventListener('abort', onAbort, { once: true })
        waiting.add(one)
      })
    },
  }

  function tooBusy({ caller, bytes }: WaitingRequest): ServiceError {
    if (usedBy(caller) + bytes > callerBytes) {
      const text = 'Too many of your requests are being answered at the same time. Read the answers, and send fewer requests at once.'
      return new ServiceError('too_busy', 429, text)
    }
    return new ServiceError('too_busy', 503, 'The server is answering as many requests as its memory allows. Send the request again.')
  }
}
