// Recovering many sessions at once: choose them, see what a strategy would do to each, apply it, and see what became of each.
import { useState } from 'preact/hooks'
import type { RecoveryPreview } from '../../../src/session/recovery/preview.ts'
import { answered, api, Refused } from '../api/client.ts'
import type { SessionRow } from '../api/rows.ts'
import { useLoaded, whyNotDone, wordsFor } from '../loading.ts'
import { linkTo } from '../route.ts'
import { eachOf } from '../session/each-of.ts'
import { previewsOf, recoverSession, wordsOf } from '../session/recovery.ts'
import { Ago, Problem, Status } from './common.tsx'

const REFRESH_MS = 5_000
const SHOWN = 200
/** Requests at a time: a person's click must not keep the service from others. */
const AT_ONCE = 4
const STRATEGIES = ['', 'continue_run', 'restart_from_last_effect', 'restart_run', 'abandon'] as const

/** What is known of a chosen session: what would be done, and what became of it. */
interface Planned {
  /** The newest event that the preview may be about. */
  seen: number
  strategy?: string
  words: string
  /** It cannot be recovered that way. */
  isRefused?: boolean
  outcome?: { tone: 'good' | 'bad'; text: string }
}

export default function RecoverMany() {
  const { data, problem, again } = useLoaded(
    'sessions in error',
    (signal) => answered(api.GET('/v1/sessions', { params: { query: { status: ['error'], children: true, limit: SHOWN } }, signal })),
    REFRESH_MS,
  )
  const [marked, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [strategy, setStrategy] = useState('')
  const [reason, setReason] = useState('')
  const [plan, setPlan] = useState<ReadonlyMap<string, Planned>>()
  const [progress, setProgress] = useState<{ done: number; of: number }>()
  const listed = data?.items ?? []
  // Those that have recovered meanwhile are no longer to be chosen.
  const chosen = new Set(listed.flatMap(({ sessionId }) => (marked.has(sessionId) ? [sessionId] : [])))
  const rows = listed.filter(({ sessionId }) => !plan || plan.has(sessionId))
  // A session that has been recovered leaves the list, and its result stays.
  const gone = [...(plan?.keys() ?? [])].filter((id) => !listed.some(({ sessionId }) => sessionId === id))
  const choose = (id: string): void => {
    const next = new Set(chosen)
    if (!next.delete(id)) next.add(id)
    setChosen(next)
  }
  const preview = async (): Promise<void> => {
    const sessions = listed.filter(({ sessionId }) => chosen.has(sessionId))
    const made = new Map<string, Planned>()
    setProgress({ done: 0, of: sessions.length })
    await eachOf(sessions, AT_ONCE, async (row) => {
      made.set(row.sessionId, await plannedFor(row, strategy))
      setProgress({ done: made.size, of: sessions.length })
    })
    setPlan(made)
    setProgress(undefined)
  }
  const apply = async (): Promise<void> => {
    const due = [...(plan ?? [])].filter(([, { isRefused, outcome }]) => !isRefused && outcome?.tone !== 'good')
    let done = 0
    setProgress({ done, of: due.length })
    await eachOf(due, AT_ONCE, async ([id, planned]) => {
      const outcome = await outcomeOf(id, planned, reason.trim())
      done += 1
      setProgress({ done, of: due.length })
      setPlan((before) => new Map(before).set(id, { ...planned, outcome }))
    })
    setProgress(undefined)
    again()
  }
  if (data && listed.length === 0 && !plan) return null
  const isBusy = progress !== undefined
  const due = [...(plan?.values() ?? [])].filter(({ isRefused, outcome }) => !isRefused && outcome?.tone !== 'good').length
  return (
    <section aria-label="Sessions in error">
      <h2>Sessions in error</h2>
      <Problem text={problem} again={again} />
      <div class="line">
        {!plan && (
          <>
            <button type="button" onClick={() => setChosen(new Set(chosen.size === listed.length ? [] : listed.map(({ sessionId }) => sessionId)))}>
              {chosen.size === listed.length ? 'Choose none' : `Choose all ${listed.length}`}
            </button>
            <select aria-label="Strategy" value={strategy} onChange={(event) => setStrategy(event.currentTarget.value)}>
              {STRATEGIES.map((one) => (
                <option key={one} value={one}>
                  {one === '' ? 'the suggested strategy of each' : one.replaceAll('_', ' ')}
                </option>
              ))}
            </select>
            <button type="button" class="primary" disabled={chosen.size === 0 || isBusy} onClick={() => void preview()}>
              Preview {chosen.size}
            </button>
          </>
        )}
        {plan && (
          <>
            <input type="text" aria-label="Reason" placeholder="Reason" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
            <button type="button" class="primary" disabled={due === 0 || isBusy} onClick={() => void apply()}>
              Recover {due}
            </button>
            <button type="button" disabled={isBusy} onClick={() => setPlan(undefined)}>
              Back
            </button>
          </>
        )}
        {!plan && data?.cursor !== undefined && <span class="aside">the newest {listed.length}; others follow when these have recovered</span>}
        {progress && <progress aria-label="Progress" value={progress.done} max={Math.max(1, progress.of)} />}
      </div>
      <ul class="cards">
        {rows.map((row) => (
          <Row key={row.sessionId} row={row} planned={plan?.get(row.sessionId)} isChosen={chosen.has(row.sessionId)} choose={plan ? undefined : choose} />
        ))}
        {gone.map((id) => (
          <li class="card line" key={id}>
            <a href={linkTo(['sessions', id])}>{id}</a> <Outcome planned={plan?.get(id)} />
          </li>
        ))}
      </ul>
    </section>
  )
}

interface RowProps {
  row: SessionRow
  planned: Planned | undefined
  isChosen: boolean
  choose: ((id: string) => void) | undefined
}

function Row({ row, planned, isChosen, choose }: RowProps) {
  return (
    <li class="card">
      <div class="line">
        {choose && (
          <input type="checkbox" aria-label={`Choose ${row.sessionId}`} checked={isChosen} onChange={() => choose(row.sessionId)} />
        )}
        <a href={linkTo(['sessions', row.sessionId])}>{row.sessionId}</a> <Status is={row.error?.code ?? 'error'} tone="bad" />{' '}
        <span class="aside">{row.agent}</span>
        <span class="spring" />
        <Ago at={row.updatedAt} />
      </div>
      {row.error && <p class="text">{row.error.reason}</p>}
      {planned && (
        <p>
          {planned.strategy !== undefined && <strong>{planned.strategy.replaceAll('_', ' ')}: </strong>}
          {planned.words} <Outcome planned={planned} />
        </p>
      )}
    </li>
  )
}

function Outcome({ planned }: { planned: Planned | undefined }) {
  if (!planned?.outcome) return null
  return <span class={planned.outcome.tone}>{planned.outcome.text}</span>
}

/** What the strategy would do to the session; an empty one is the one that pawl suggests. */
async function plannedFor({ sessionId: session, run, flushedSeq: seq }: SessionRow, wanted: string): Promise<Planned> {
  try {
    const previews = previewsOf(await answered(api.GET('/v1/sessions/{session}/runs/{run}', { params: { path: { session, run } } })))
    const found = previews.find(({ strategy, suggested }: RecoveryPreview) => (wanted === '' ? suggested : strategy === wanted))
    if (!found) {
      const words = wanted === '' ? 'pawl suggests no strategy that works by itself: open the session' : `${wanted.replaceAll('_', ' ')} is not possible`
      return { seen: seq, words, isRefused: true }
    }
    return { seen: seq, strategy: found.strategy, words: wordsOf(found) }
  } catch (error) {
    return { seen: seq, words: wordsFor(error), isRefused: true }
  }
}

async function outcomeOf(session: string, { strategy = '', seen: seenSeq }: Planned, reason: string): Promise<NonNullable<Planned['outcome']>> {
  try {
    await recoverSession(session, { strategy, seenSeq, ...(reason !== '' && { reason }) })
    return { tone: 'good', text: 'recovered' }
  } catch (error) {
    const hasMoved = error instanceof Refused && (error.code === 'session_moved' || error.code === 'not_in_error')
    const why = whyNotDone(error)
    return { tone: 'bad', text: hasMoved ? `it has moved on meanwhile: ${why}` : why }
  }
}
