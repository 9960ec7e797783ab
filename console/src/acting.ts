// Requests that change something: one at a time, with what went wrong.
import { useRef, useState } from 'preact/hooks'
import { whyNotDone } from './loading.ts'

export interface Acting {
  problem: string | undefined
  isSending: boolean
  /** Sends the request; `then` is called once the server has accepted it. */
  act(request: () => Promise<unknown>, then?: () => void): void
}

export function useActing(): Acting {
  const [problem, setProblem] = useState<string>()
  const [isSending, setSending] = useState(false)
  // A second click may come before the button is disabled.
  const isBusy = useRef(false)
  const act = (request: () => Promise<unknown>, then?: () => void): void => {
    if (isBusy.current) return
    isBusy.current = true
    setSending(true)
    request()
      .then(
        () => {
          setProblem(undefined)
          then?.()
        },
        (error: unknown) => setProblem(whyNotDone(error)),
      )
      .finally(() => {
        isBusy.current = false
        setSending(false)
      })
  }
  return { problem, isSending, act }
}
