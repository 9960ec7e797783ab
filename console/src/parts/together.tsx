// One decision for a group of calls. It approves each call that the person has seen, and no other; later ones, too, by a standing approval
// if the person wants that.
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { RememberRequest } from '../../../src/session/standing/facts.ts'
import { useActing } from '../acting.ts'
import { answered, api } from '../api/client.ts'
import type { PendingRow } from '../api/rows.ts'
import { whyNotDone, wordsFor } from '../loading.ts'
import { linkTo } from '../route.ts'
import { eachOf } from '../session/each-of.ts'
import { groupOf, hasChanged, keyOf, type Looked, sessionsOf, unlisted } from '../session/groups.ts'
import { coveragesOf, rememberFor } from '../session/remembering.ts'
import { Problem, Value } from './common.tsx'

interface TogetherProps {
  /** As the list has them now, longest wait first. */
  rows: readonly [PendingRow, ...PendingRow[]]
  onDecided(): void
}

/** The most that one decision is about. */
const MOST = 1_000
/** Requests at a time: a person's click must not keep the service from others. */
const AT_ONCE = 4

/** What became of the calls. */
interface Done {
  approved: number
  /** Those that were not approved, and why. */
  refused: readonly { row: PendingRow; why: string }[]
}

export function Together({ rows, onDecided }: TogetherProps) {
  const group = groupOf(rows[0])
  const [looked, setLooked] = useState<Looked>({ seen: [], listed: new Set() })
  const [unread, setUnread] = useState<string>()
  const [nth, setNth] = useState(0)
  const [isLater, setLater] = useState(false)
  const [note, setNote] = useState('')
  const [isRule, setRule] = useState(false)
  const [done, setDone] = useState<Done>()
  const [progress, setProgress] = useState(0)
  const { act, isSending, problem } = useActing()
  const look = (): void => {
    answered(api.GET('/v1/pending', { params: { query: { ...(group !== undefined && { group }), limit: MOST } } })).then(
      ({ items }) => (setLooked({ seen: items as PendingRow[], listed: new Set(rows.map(keyOf)) }), setUnread(undefined), setNth(0)),
      (error: unknown) => setUnread(wordsFor(error)),
    )
  }
  useEffect(look, [group])
  const { seen } = looked
  const coverages = useMemo(() => coveragesOf(seen.map(({ input }) => input)), [seen])
  const [first] = seen
  const coverage = coverages[nth]
  if (done) return <Outcome of={done} />
  if (isRule)
    return (
      <p role="status">
        Approved. What still waits here after some seconds, the <a href={linkTo(['rules'])}>standing approval</a> does not cover: decide it alone.
      </p>
    )
  if (!first || !coverage) return <Problem text={unread} again={look} />
  const isOther = !isSending && hasChanged(looked, rows)
  const others = unlisted(looked, rows)
  const approve = async (): Promise<void> => {
    if (isLater) {
      await approveOne(first, note, rememberFor(seen, coverage.matching))
      return setRule(true)
    }
    // If the first one cannot be approved as the person has seen it, none is.
    await approveOne(first, note)
    let count = 1
    const refused: { row: PendingRow; why: string }[] = []
    setProgress(count)
    await eachOf(seen.slice(1), AT_ONCE, async (row) => {
      await approveOne(row, note).catch((error: unknown) => refused.push({ row, why: whyNotDone(error) }))
      setProgress(++count)
    })
    setDone({ approved: seen.length - refused.length, refused })
  }
  return (
    <section class="going-back" aria-label="Decide together">
      <label>
        <input type="checkbox" checked={isLater} onChange={(event) => setLater(event.currentTarget.checked)} /> later calls, too
      </label>
      {isLater && (
        <label>
          With{' '}
          <select value={nth} onChange={(event) => setNth(Number(event.currentTarget.value))}>
            {coverages.map(({ title }, index) => (
              <option key={title} value={index}>
                {title}
              </option>
            ))}
          </select>
        </label>
      )}
      <Preview seen={seen} title={coverage.title} isLater={isLater} />
      {others.length > 0 && (
        <ul class="alike" aria-label="Calls that the list does not show">
          {others.map((row) => (
            <li key={keyOf(row)}>
              <a href={linkTo(['sessions', row.sessionId])}>{row.sessionId}</a> <code>{row.callId}</code>
              <Value of={row.input} />
            </li>
          ))}
        </ul>
      )}
      {isOther && (
        <div class="changed" role="alert">
          <strong>Other calls wait now than those you have seen.</strong>{' '}
          <button type="button" onClick={look}>
            Look again
          </button>
        </div>
      )}
      <div class="choices">
        <input type="text" aria-label="Note" placeholder="Note" value={note} onInput={(event) => setNote(event.currentTarget.value)} />
        <button type="button" class="primary" disabled={isSending || isOther} onClick={() => act(approve, onDecided)}>
          Approve {seen.length} calls
        </button>
        {isSending && <progress aria-label="Progress" value={progress} max={seen.length} />}
        <Problem text={problem} />
      </div>
    </section>
  )
}

async function approveOne({ sessionId, callId, digest }: PendingRow, note: string, remember?: RememberRequest): Promise<void> {
  const said = note.trim() === '' ? {} : { note: note.trim() }
  const body = { digest: digest ?? '', ...said, ...(remember && { remember: remember as never }) }
  await answered(api.POST('/v1/sessions/{session}/calls/{call}/approve', { params: { path: { session: sessionId, call: callId } }, body }))
}

function Outcome({ of: { approved, refused } }: { of: Done }) {
  return (
    <div role="status">
      <p>Approved {approved} calls.</p>
      {refused.length > 0 && (
        <ul class="alike" aria-label="Calls that were not approved">
          {refused.map(({ row, why }) => (
            <li key={keyOf(row)}>
              <a href={linkTo(['sessions', row.sessionId])}>{row.sessionId}</a> <code>{row.callId}</code> <span class="bad">{why}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

function Preview({ seen, title, isLater }: { seen: readonly PendingRow[]; title: string; isLater: boolean }) {
  const sessions = sessionsOf(seen)
  const shown = sessions.slice(0, 5).join(', ')
  const where = sessions.length > 1 ? 'in sessions of this agent with the same context' : 'in this session'
  return (
    <ul class="preview" aria-label="Preview">
      <li class="quiet">
        Approves {seen.length} calls of {seen[0]?.tool} in {sessions.length > 5 ? `${shown} and ${sessions.length - 5} more` : shown}.
      </li>
      {isLater ? (
        <li class="warn">
          Approves later calls {where} without asking, until somebody revokes the rule: {title}.
        </li>
      ) : (
        <li class="quiet">Later calls ask a person again.</li>
      )}
    </ul>
  )
}
