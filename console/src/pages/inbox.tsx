import { answered, api } from '../api/client.ts'
import type { PendingRow } from '../api/rows.ts'
import { useListed } from '../loading.ts'
import { linkTo, type Place, replaceQuery } from '../route.ts'
import { Ago, Empty, More, Problem, Status, Value } from '../parts/common.tsx'
import { FilterField } from '../parts/filter-field.tsx'
import { Decision } from '../parts/deciding.tsx'
import { lazy } from '../parts/lazy.tsx'
import { groupsOf, keyOf } from '../session/groups.ts'

const Alike = lazy(async () => (await import('../parts/alike.tsx')).default)

const REFRESH_MS = 3_000
/** How many more calls a click shows. */
const STEP = 100
const KINDS = ['approval', 'client', 'question', 'unknown'] as const
const WHAT: Record<string, string> = {
  approval: 'waits for approval',
  client: 'waits for an answer',
  question: 'asks the user',
  unknown: 'may have happened',
}

/** All calls that wait for a person, longest wait first; those that one decision would settle are one entry. The filters are in the address. */
export function Inbox({ scopes, place: { query } }: { scopes: readonly string[]; place: Place }) {
  const filter = { kind: query.get('kind') ?? '', agent: query.get('agent') ?? '', tag: query.get('tag') ?? '' }
  const { data, problem, again, more } = useListed<PendingRow>(
    `inbox ${JSON.stringify(filter)}`,
    (page, signal) => answered(api.GET('/v1/pending', { params: { query: { ...page, ...chosenIn(filter) } }, signal })),
    { size: STEP, everyMs: REFRESH_MS, idOf: keyOf },
  )
  const set = (change: Partial<typeof filter>): void => replaceQuery(['inbox'], { ...filter, ...change })
  return (
    <main>
      <header class="bar">
        <h1>Inbox</h1>
        {data && <span class="aside">{data.hasMore ? `the ${data.items.length} that wait longest` : `${data.items.length} waiting`}</span>}
        <span class="spring" />
        <div class="filters">
          <select aria-label="Kind" value={filter.kind} onChange={(event) => set({ kind: event.currentTarget.value })}>
            <option value="">any kind</option>
            {KINDS.map((kind) => (
              <option key={kind} value={kind}>
                {WHAT[kind]}
              </option>
            ))}
          </select>
          <FilterField label="Agent" value={filter.agent} onEnter={(agent) => set({ agent })} />
          <FilterField label="Tag" value={filter.tag} onEnter={(tag) => set({ tag })} />
        </div>
      </header>
      <Problem text={problem} again={again} />
      {data?.items.length === 0 && query.size > 0 && (
        <Empty title="No call that waits matches">
          <a href={linkTo(['inbox'])}>Show all calls</a>
        </Empty>
      )}
      {data?.items.length === 0 && query.size === 0 && (
        <Empty title="Nothing waits for a person">
          <p>Calls appear here when their tool needs an approval, when a client must answer, or when pawl cannot tell whether an effect happened.</p>
        </Empty>
      )}
      <ul class="cards">
        {groupsOf(data?.items ?? []).map(({ key, rows: [row, ...others] }) =>
          row && others.length === 0 ? (
            <Card key={key} row={row} scopes={scopes} onDecided={again} />
          ) : (
            row && <Alike key={key} rows={[row, ...others]} scopes={scopes} onDecided={again} />
          ),
        )}
      </ul>
      <More of={data} more={more} text="Newer calls" />
    </main>
  )
}

/** The filters that are set. */
function chosenIn({ kind, agent, tag }: { kind: string; agent: string; tag: string }) {
  return { ...(kind && { kind: [kind as (typeof KINDS)[number]] }), ...(agent && { agent }), ...(tag && { tag }) }
}

function Card({ row, scopes, onDecided }: { row: PendingRow; scopes: readonly string[]; onDecided(): void }) {
  return (
    <li class="card">
      <div class="line">
        <strong>{row.tool}</strong> <span>{WHAT[row.kind]}</span> <Status is={row.effect} tone="quiet" />
        <span class="spring" />
        <Ago at={row.waitingSince} />
      </div>
      <p class="aside">
        <a href={linkTo(['sessions', row.sessionId])}>{row.sessionId}</a> · {row.agent}
      </p>
      {row.kind === 'question' ? (
        <p>
          {row.question.from} asks: {row.question.message}
        </p>
      ) : (
        row.reason && <p>{row.reason}</p>
      )}
      <Value of={row.input} />
      {/* The next call of the group takes the place of this one. */}
      <Decision key={keyOf(row)} call={row} scopes={scopes} onDecided={onDecided} />
    </li>
  )
}
