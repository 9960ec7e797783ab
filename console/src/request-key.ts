// The key of a request: one that is repeated because its answer was lost has the same key, so that the server carries it out once.
import { useRef } from 'preact/hooks'
import { Refused } from './api/client.ts'

export type KeyHeader = { 'Idempotency-Key': string }

/** Sends a request with the header for its key. `what`: what is requested; the same request again has the same key until it was answered. */
export type Keyed = <T>(what: unknown, request: (header: KeyHeader) => Promise<T>) => Promise<T>

export function useRequestKey(): Keyed {
  const unanswered = useRef<{ text: string; key: string } | undefined>(undefined)
  return async (what, request) => {
    const text = JSON.stringify(what)
    if (unanswered.current?.text !== text) unanswered.current = { text, key: newKey() }
    try {
      const answer = await request({ 'Idempotency-Key': unanswered.current.key })
      unanswered.current = undefined
      return answer
    } catch (error) {
      // The server would answer alike.
      if (error instanceof Refused && error.status < 500) unanswered.current = undefined
      throw error
    }
  }
}

/** `crypto.randomUUID` exists only where the connection is secure. */
const newKey = (): string => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
