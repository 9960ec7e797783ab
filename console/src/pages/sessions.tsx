import { answered, api } from '../api/client.ts'
import type { SessionRow } from '../api/rows.ts'
import { useListed } from '../loading.ts'
import { linkTo, type Place, replaceQuery } from '../route.ts'
import { Ago, dollars, Empty, More, Problem, Status } from '../parts/common.tsx'
import { FilterField } from '../parts/filter-field.tsx'

const STATUSES = ['running', 'waiting', 'error', 'idle', 'closed'] as const
const REFRESH_MS = 3_000
const PAGE = 50

type Filter = Record<'status' | 'agent' | 'tag', string>

function chosenIn({ status, agent, tag }: Filter) {
  return { ...(status && { status: [status as (typeof STATUSES)[number]] }), ...(agent && { agent }), ...(tag && { tag }) }
}

/** The sessions, newest first. The filters are in the address. */
export function Sessions({ place: { query } }: { place: Place }) {
  const filter: Filter = { status: query.get('status') ?? '', agent: query.get('agent') ?? '', tag: query.get('tag') ?? '' }
  const key = JSON.stringify(filter)
  const { data, problem, again, more } = useListed<SessionRow>(
    key,
    (page, signal) => answered(api.GET('/v1/sessions', { params: { query: { ...chosenIn(filter), ...page } }, signal })),
    { size: PAGE, everyMs: REFRESH_MS, idOf: ({ sessionId }) => sessionId },
  )
  const set = (change: Partial<Filter>): void => replaceQuery(['sessions'], { ...filter, ...change })
  const rows = data?.items ?? []
  return (
    <main>
      <header class="bar">
        <h1>Sessions</h1>
        <div class="filters">
          <select aria-label="Status" value={filter.status} onChange={(event) => set({ status: event.currentTarget.value })}>
            <option value="">any status</option>
            {STATUSES.map((status) => (
              <option key={status}>{status}</option>
            ))}
          </select>
          <FilterField label="Agent" value={filter.agent} onEnter={(agent) => set({ agent })} />
          <FilterField label="Tag" value={filter.tag} onEnter={(tag) => set({ tag })} />
        </div>
      </header>
      <Problem text={problem} again={again} />
      {data && rows.length === 0 && <NoSessions isFiltered={key !== JSON.stringify({ status: '', agent: '', tag: '' })} />}
      {rows.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Sessions">
          <table>
            <thead>
              <tr>
                <th scope="col">Session</th>
                <th scope="col">Status</th>
                <th scope="col">Agent</th>
                <th scope="col" class="number">Runs</th>
                <th scope="col" class="number">Cost</th>
                <th scope="col">Last activity</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <Row key={row.sessionId} row={row} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <More of={data} more={more} text="Older sessions" />
    </main>
  )
}

function Row({ row }: { row: SessionRow }) {
  return (
    <tr>
      <th scope="row">
        <a href={linkTo(['sessions', row.sessionId])}>{row.sessionId}</a>
        {row.tags.length > 0 && <span class="tags">{row.tags.join(' · ')}</span>}
      </th>
      <td>
        <Status is={row.status} />
        {row.paused && <span class="why">paused</span>}
        {row.error && <span class="why">{row.error.code}</span>}
        {row.waiting > 0 && <span class="why">{row.waiting} to decide</span>}
      </td>
      <td>{row.agent}</td>
      <td class="number">{row.run}</td>
      <td class="number">{row.usd === null ? '' : dollars(row.usd)}</td>
      <td>
        <Ago at={row.updatedAt} />
      </td>
    </tr>
  )
}

function NoSessions({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered)
    return (
      <Empty title="No session matches">
        <a href={linkTo(['sessions'])}>Show all sessions</a>
      </Empty>
    )
  return (
    <Empty title="No sessions yet">
      <p>
        Start one from your backend with <code>pawl.session(id, {'{ agent }'}).send(text)</code>, or in a terminal with <code>pawl chat</code>.
      </p>
    </Empty>
  )
}
