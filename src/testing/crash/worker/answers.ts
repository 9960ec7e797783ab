// Detects responses from outside to a tool's body: HTTP by fetch or node:http, through Node's diagnostics channels, and Postgres by pg.
import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'

/** Reports responses to the body that made the request. */
export interface ResponseReports {
  /** Runs `body`; `onAnswer` is called at each response from outside, before the body continues. */
  during<T>(onAnswer: () => void, body: () => T): T
  /** For drivers without a diagnostics channel: the current body's `onAnswer`, to be called when the response arrives. */
  asker(): (() => void) | undefined
}

/** The requests that Node reports: the channel for their start, and the one for their response. */
const CHANNELS = [
  ['undici:request:create', 'undici:request:headers'],
  ['http.client.request.start', 'http.client.response.finish'],
] as const

/** Starts to listen; it listens until the process exits. */
export function listenForAnswers(): ResponseReports {
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
