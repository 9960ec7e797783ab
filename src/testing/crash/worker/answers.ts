// Detects responses from outside to a tool's body: HTTP by fetch or node:http, through Node's diagnostics channels, and Postgres by pg.
import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'

/** Reports responses to the body that made the request. */
export interface Answers {
  /** Runs `body`; `onAnswer` is called at each response from outside, before the body continues. */
  during<T>(onAnswer: () => void, body: () => T): T
  /** For drivers that Node does not tell of: the asker of now, to be called with the answer. */
  asker(): (() => void) | undefined
}

/** The requests that Node tells of: the channel at their start, and the one at their answer. */
const CHANNELS = [
  ['undici:request:create', 'undici:request:headers'],
  ['http.client.request.start', 'http.client.response.finish'],
] as const

/** Starts to listen, for as long as the process lives. */
export function listenForAnswers(): Answers {
  const askers = new AsyncLocalStorage<() => void>()
  const asked = new WeakMap<object, () => void>()
  for (const [asks, answered] of CHANNELS) {
    subscribe(asks, (message) => {
      const asker = askers.getStore()
      if (asker) asked.set((message as { request: object }).request, asker)
    })
    subscribe(answered, (message) => asked.get((message as { request: object }).request)?.())
  }
  return {
    during: (onAnswer, body) => askers.run(onAnswer, body),
    asker: () => askers.getStore(),
  }
}
