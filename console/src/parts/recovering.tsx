// Taking a session out of `error`, with what each strategy would do.
import { useState } from 'preact/hooks'
import type { SessionEvent } from '../../../src/session/events.ts'
import type { RecoveryPreview } from '../../../src/session/recovery/preview.ts'
import { answered, api, Refused } from '../api/client.ts'
import { whyNotDone, wordsFor } from '../loading.ts'
import { mayChoose, previewsOf, recoverSession, wordsOf } from '../session/recovery.ts'
import { Changed } from './changed.tsx'
import { Problem, Waits, WAITS_FOR_WORKER } from './common.tsx'
import { lazy } from './lazy.tsx'

const Choosing = lazy(async () => (await import('./choosing.tsx')).default)

/** The server stops waiting for a worker earlier than that. */
const LONGEST_MS = 30_000
const ASKS_WORKER = 'Asking a worker what the session is doing now. If none answers within some seconds, what is stored is shown.'
const NO_ANSWER = 'The server has not answered. Try again.'
const isTimeout = (error: unknown): boolean => error instanceof DOMException && error.name === 'TimeoutError'

interface RecoverProps {
  session: string
  scopes: readonly string[]
  run: number | undefined
  events: readonly SessionEvent[]
}

/** What each strategy would do, as the function says that carries it out. */
export function Recover({ session, scopes, run, events }: RecoverProps) {
  const [shown, setShown] = useState<{ previews: RecoveryPreview[]; seen: number; isSelective: boolean }>()
  const [isChoosing, setChoosing] = useState(false)
  const [problem, setProblem] = useState<string>()
  const [isRefused, setRefused] = useState(false)
  const [isSending, setSending] = useState(false)
  const [isAsking, setAsking] = useState(false)
  const newest = events.at(-1)?.seq ?? 0
  const load = async (): Promise<void> => {
    setAsking(true)
    try {
      // Read before the previews: what they may lack is then refused.
      const report = await answered(
        api.GET('/v1/sessions/{session}/runs/{run}', { params: { path: { session, run: run ?? 0 } }, signal: AbortSignal.timeout(LONGEST_MS) }),
      )
      setShown({ seen: newest, previews: previewsOf(report), isSelective: mayChoose(report) })
      setProblem(undefined)
      setRefused(false)
    } catch (error) {
      setProblem(isTimeout(error) ? NO_ANSWER : wordsFor(error))
    }
    setAsking(false)
  }
  const recover = async (strategy: string): Promise<void> => {
    setSending(true)
    try {
      await recoverSession(session, { strategy, seenSeq: shown?.seen ?? newest })
      setProblem(undefined)
    } catch (error) {
      setRefused(error instanceof Refused && error.code === 'session_moved')
      setProblem(whyNotDone(error))
    }
    setSending(false)
  }
  if (run === undefined) return null
  return (
    <div class="recover">
      {!shown && (
        <button type="button" disabled={isAsking} onClick={() => void load()}>
          Recover…
        </button>
      )}
      {isAsking && <Waits text={ASKS_WORKER} />}
      {isSending && <Waits text={WAITS_FOR_WORKER} />}
      {shown?.previews.map((preview) => (
        <div class="line" key={preview.strategy}>
          <button type="button" class={preview.suggested ? 'primary' : ''} disabled={isSending} onClick={() => void recover(preview.strategy)}>
            {preview.strategy.replaceAll('_', ' ')}
          </button>
          <span>{wordsOf(preview)}</span>
        </div>
      ))}
      {shown?.isSelective && (
        <div class="line">
          <button type="button" aria-expanded={isChoosing} onClick={() => setChoosing(!isChoosing)}>
            Choose per call…
          </button>
          <span>keeps, skips or repeats each call of the newest turn</span>
        </div>
      )}
      {shown?.isSelective && isChoosing && <Choosing session={session} scopes={scopes} events={events} />}
      {shown && !isChoosing && <Changed events={events} seen={shown.seen} isRefused={isRefused} lookAgain={() => void load()} />}
      <Problem text={problem} />
    </div>
  )
}
