import { answered, api } from '../api/client.ts'
import { useLoaded } from '../loading.ts'
import { Ago, Empty, Problem, Status } from '../parts/common.tsx'
import { linkTo, type Place } from '../route.ts'
import { spellingsOf } from '../session/spellings.ts'

/** The longest text that the lists accept as a tag, and as a key or the id of an effect. */
const LONGEST_TAG = 200
const LONGEST_KEY = 1_000

/** What several searches have found is listed once. */
const once = <T,>(found: readonly T[], keyOf: (one: T) => string): T[] => [...new Map(found.map((one) => [keyOf(one), one])).values()]

/** Finds sessions by their id or by a tag, also as separate words, and by the key or the effect of a call, such as a refund's id. */
export function Search({ place: { query } }: { place: Place }) {
  const text = query.get('q') ?? ''
  const { data, problem, again } = useLoaded(`search ${text}`, async (signal) => {
    const spellings = spellingsOf(text)
    const tags = spellings.filter((tag) => tag.length <= LONGEST_TAG)
    const calls = (by: { key: string } | { effectId: string }) =>
      text.length > LONGEST_KEY ? { items: [] } : answered(api.GET('/v1/tool-calls', { params: { query: { ...by, limit: 50 } }, signal }))
    const [reports, tagged, keys, effects] = await Promise.all([
      Promise.all(spellings.map((session) => api.GET('/v1/sessions/{session}', { params: { path: { session } }, signal }))),
      Promise.all(tags.map((tag) => answered(api.GET('/v1/sessions', { params: { query: { tag, limit: 50 } }, signal })))),
      calls({ key: text }),
      calls({ effectId: text }),
    ])
    const named = reports.flatMap(({ data }) => (data ? [data] : []))
    const known = new Set(named.map(({ sessionId }) => sessionId))
    const sessions = once(tagged.flatMap(({ items }) => items), ({ sessionId }) => sessionId).filter(({ sessionId }) => !known.has(sessionId))
    return { named, sessions, calls: once([...keys.items, ...effects.items], ({ sessionId, callId }) => `${sessionId} ${callId}`) }
  })
  const isEmpty = data && data.named.length === 0 && data.sessions.length === 0 && data.calls.length === 0
  return (
    <main>
      <header class="bar">
        <h1>Search</h1>
        <span class="aside">{text}</span>
      </header>
      <Problem text={problem} again={again} />
      {!data && problem === undefined && <p class="aside">Searching …</p>}
      {isEmpty && (
        <Empty title="Nothing has this id">
          <p>Search for a session’s id, a whole tag such as <code>customer:42</code>, the idempotency key of a call, or the id of an effect, such as a refund’s.</p>
        </Empty>
      )}
      <ul class="cards">
        {data?.named.map(({ sessionId, status, agent }) => (
          <li class="card line" key={sessionId}>
            <a href={linkTo(['sessions', sessionId])}>{sessionId}</a> <Status is={status} /> <span class="aside">{agent}</span>
          </li>
        ))}
        {data?.sessions.map((row) => (
          <li class="card line" key={row.sessionId}>
            <a href={linkTo(['sessions', row.sessionId])}>{row.sessionId}</a> <Status is={row.status} /> <span class="aside">{row.agent}</span>
            {row.waiting > 0 && <span class="warn">{row.waiting} to decide</span>}
            <span class="spring" />
            <Ago at={row.updatedAt} />
          </li>
        ))}
        {data?.calls.map((row) => (
          <li class="card line" key={`${row.sessionId} ${row.callId}`}>
            <strong>{row.tool}</strong> <Status is={row.status} /> <a href={linkTo(['sessions', row.sessionId])}>{row.sessionId}</a>
            <span class="aside">
              {row.key} {row.effectId}
            </span>
          </li>
        ))}
      </ul>
    </main>
  )
}
