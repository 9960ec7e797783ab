// Calls of the inbox that one decision would settle: decided together, by a standing approval, or each alone.
import { useState } from 'preact/hooks'
import type { PendingRow } from '../api/rows.ts'
import { linkTo } from '../route.ts'
import { keyOf, ownOf, sessionsOf, sharedBy } from '../session/groups.ts'
import { Ago, Status, Value } from './common.tsx'
import { Decision } from './deciding.tsx'
import { Together } from './together.tsx'

interface AlikeProps {
  /** Longest wait first. */
  rows: readonly [PendingRow, ...PendingRow[]]
  scopes: readonly string[]
  onDecided(): void
}

export default function Alike({ rows, scopes, onDecided }: AlikeProps) {
  const [isOpen, setOpen] = useState(false)
  const [first] = rows
  const sessions = sessionsOf(rows).length
  const shared = sharedBy(rows.map(({ input }) => input))
  return (
    <li class="card" aria-label={`${rows.length} calls of ${first.tool}`}>
      <div class="line">
        <strong>{first.tool}</strong> <span>{rows.length} calls wait for approval</span> <Status is={first.effect} tone="quiet" />
        <span class="spring" />
        <Ago at={first.waitingSince} />
      </div>
      <p class="aside">
        {first.agent} · {sessions === 1 ? 'in one session' : `in ${sessions} sessions with the same context`}
        {'approvers' in first && first.approvers !== null && ` · needs the role ${first.approvers.role}`}
      </p>
      {shared && (
        <>
          <p class="aside">The same in all of them:</p>
          <Value of={shared} />
        </>
      )}
      <ul class="alike">
        {rows.map((row) => (
          <Member key={keyOf(row)} row={row} own={ownOf(row.input, shared)} scopes={scopes} onDecided={onDecided} />
        ))}
      </ul>
      {scopes.includes('approve') && (
        <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Decide together…
        </button>
      )}
      {isOpen && <Together rows={rows} onDecided={onDecided} />}
    </li>
  )
}

interface MemberProps {
  row: PendingRow
  own: unknown
  scopes: readonly string[]
  onDecided(): void
}

function Member({ row, own, scopes, onDecided }: MemberProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <li aria-label={`Call ${row.callId} of ${row.sessionId}`}>
      <div class="line">
        <a href={linkTo(['sessions', row.sessionId])}>{row.sessionId}</a> <code>{row.callId}</code>
        <span class="spring" />
        <Ago at={row.waitingSince} />
        <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Alone…
        </button>
      </div>
      {row.reason && <p>{row.reason}</p>}
      {own !== undefined && <Value of={own} />}
      {isOpen && <Decision call={row} scopes={scopes} onDecided={onDecided} />}
    </li>
  )
}
