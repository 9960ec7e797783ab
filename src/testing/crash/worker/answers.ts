// When the outside answers a tool's body: HTTP by fetch or node:http, as Node itself tells of it, and Postgres by pg.
import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'

/** Tells of answers to whoever asked from within. */
export interface Answers {
  /** Runs `body`; `onAnswer` is called, before the body goes on, with each answer that the outside gives it. */
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
