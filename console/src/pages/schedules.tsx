import { useState } from 'preact/hooks'
import { useActing } from '../acting.ts'
import { answered, api } from '../api/client.ts'
import { useLoaded } from '../loading.ts'
import { Ago, Empty, Problem, Status } from '../parts/common.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { NewSchedule, WHILE_BUSY } from '../parts/new-schedule.tsx'
import { useRequestKey } from '../request-key.ts'
import { linkTo } from '../route.ts'

const REFRESH_MS = 5_000
/** As many as a page of the list can have. */
const MOST = 1_000

/** Messages that are sent at regular times. */
export function Schedules({ scopes }: { scopes: readonly string[] }) {
  const { data, problem, again } = useLoaded('schedules', (signal) => answered(api.GET('/v1/schedules', { params: { query: { limit: MOST } }, signal })), REFRESH_MS)
  const [isCreating, setCreating] = useState(false)
  const mayChange = scopes.includes('operate')
  const created = (): void => {
    setCreating(false)
    again()
  }
  return (
    <main>
      <header class="bar">
        <h1>Schedules</h1>
        {data && <span class="aside">{data.cursor === undefined ? data.items.length : `the first ${data.items.length}`}</span>}
        <span class="spring" />
        {mayChange && (
          <button type="button" aria-expanded={isCreating} onClick={() => setCreating(!isCreating)}>
            New schedule…
          </button>
        )}
      </header>
      {mayChange && isCreating && <NewSchedule onDone={created} />}
      <Problem text={problem} again={again} />
      {data?.items.length === 0 && (
        <Empty title="No schedules">
          <p>
            A schedule sends a message to a session at regular times. Create one here, with <code>pawl schedule create</code>, or
            with <code>pawl.schedules.create</code>.
          </p>
        </Empty>
      )}
      <ul class="cards">
        {data?.items.map((schedule) => (
          <Card key={schedule.id} schedule={schedule} mayChange={mayChange} again={again} />
        ))}
      </ul>
    </main>
  )
}

interface ScheduleRow {
  id: string
  agent: string
  session: string | null
  overlap: string
  paused: boolean
  note: string | null
  timeZone: string
  every?: string | number
  cron?: string | readonly string[]
  next: readonly string[]
  recent: readonly { time: string; startedAt: string }[]
}

function Card({ schedule, mayChange, again }: { schedule: ScheduleRow; mayChange: boolean; again(): void }) {
  const { id, agent, session, overlap, paused, note, next, recent } = schedule
  const { act, isSending, problem } = useActing()
  const params = { path: { schedule: id } }
  const pause = () => answered(api.POST('/v1/schedules/{schedule}/pause', { params, body: {} }))
  const unpause = () => answered(api.POST('/v1/schedules/{schedule}/unpause', { params, body: {} }))
  const keyed = useRequestKey()
  const trigger = () => keyed('trigger', (header) => answered(api.POST('/v1/schedules/{schedule}/trigger', { params: { ...params, header } })))
  const remove = () => answered(api.POST('/v1/schedules/{schedule}/delete', { params }))
  const [last] = recent.toSorted((one, other) => Date.parse(other.startedAt) - Date.parse(one.startedAt))
  return (
    <li class="card" aria-label={`Schedule ${id}`}>
      <div class="line">
        <strong>{id}</strong> <Status is={paused ? 'paused' : 'on'} tone={paused ? 'warn' : 'good'} /> <span class="aside">{timesOf(schedule)}</span>
        <span class="spring" />
        {mayChange && (
          <div class="actions">
            <button type="button" disabled={isSending} onClick={() => act(paused ? unpause : pause, again)}>
              {paused ? 'Unpause' : 'Pause'}
            </button>
            <button type="button" disabled={isSending} onClick={() => act(trigger, again)}>
              Send now
            </button>
            <Confirm text="Delete" question={`Delete ${id}? Its sessions stay.`} disabled={isSending} onConfirm={() => act(remove, again)} />
          </div>
        )}
      </div>
      <p class="aside">
        {agent} · {session === null ? 'a new session each time' : <a href={linkTo(['sessions', session])}>{session}</a>} · while the session is busy,{' '}
        {WHILE_BUSY[overlap] ?? overlap}
        {paused && note !== null && ` · ${note}`}
      </p>
      <p class="aside">
        {next[0] !== undefined && (
          <>
            next <Ago at={next[0]} />
          </>
        )}
        {last && (
          <>
            {next[0] !== undefined && ' · '}last <Ago at={last.startedAt} />
            {session === null && (
              <>
                {' '}
                <a href={linkTo(['sessions', `${id}:${last.time.replace(/\.\d+Z$/, 'Z')}`])}>its session</a>
              </>
            )}
          </>
        )}
      </p>
      <Problem text={problem} />
    </li>
  )
}

function timesOf({ every, cron, timeZone }: ScheduleRow): string {
  if (every !== undefined) return `every ${typeof every === 'number' ? `${every / 1_000} s` : every}`
  if (cron !== undefined) return `${[cron].flat().join(' and ')} (${timeZone})`
  return `by calendar (${timeZone})`
}
