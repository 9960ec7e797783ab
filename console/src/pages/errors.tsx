import { answered, api } from '../api/client.ts'
import type { ErrorRow } from '../api/rows.ts'
import { useListed, useLoaded } from '../loading.ts'
import { Ago, Empty, More, Problem, Status } from '../parts/common.tsx'
import { lazy } from '../parts/lazy.tsx'
import { linkTo } from '../route.ts'

const RecoverMany = lazy(async () => (await import('../parts/recover-many.tsx')).default)
const REFRESH_MS = 5_000
const PAGE = 100
const idOf = ({ sessionId, seq }: ErrorRow): string => `${sessionId} ${seq}`

/** What failed: how often runs did in the last 24 hours, and the newest failures. */
export function Errors({ scopes }: { scopes: readonly string[] }) {
  const report = useLoaded('failures', (signal) => answered(api.GET('/v1/failures', { params: { query: {} }, signal })), REFRESH_MS)
  const list = useListed<ErrorRow>('errors', (page, signal) => answered(api.GET('/v1/errors', { params: { query: page }, signal })), {
    size: PAGE,
    everyMs: REFRESH_MS,
    idOf,
  })
  return (
    <main>
      <header class="bar">
        <h1>Errors</h1>
      </header>
      <Problem text={report.problem ?? list.problem} again={list.again} />
      {scopes.includes('operate') && <RecoverMany />}
      {report.data && report.data.agents.length > 0 && (
        <>
          <h2>Runs of the last 24 hours</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Runs">
            <table>
              <thead>
                <tr>
                  {['Agent', 'Runs', 'Failed', 'Healed by itself', 'By a person', 'Still in error', 'Failed attempts'].map((name, index) => (
                    <th key={name} scope="col" class={index > 0 ? 'number' : ''}>
                      {name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {report.data.agents.map((row) => (
                  <tr key={row.agent}>
                    <th scope="row">{row.agent}</th>
                    {[row.runs, row.failed, row.healedByItself, row.healedByPerson, row.open, row.failedAttempts].map((count, index) => (
                      <td key={index} class="number">
                        {count.toLocaleString('en')}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      {list.data?.items.length === 0 && (
        <Empty title="Nothing has failed">
          <p>Every failed attempt at a model call or a tool appears here, those of killed processes included.</p>
        </Empty>
      )}
      {list.data && list.data.items.length > 0 && (
        <>
          <h2>Newest failures</h2>
          <ul class="cards">
            {list.data.items.map((row) => (
              <li class="card" key={idOf(row)}>
                <div class="line">
                  <strong>{row.context}</strong> <Status is={row.code ?? row.class} tone={row.attempt === null ? 'bad' : 'warn'} />
                  {row.attempt !== null && <span class="aside">attempt {row.attempt}</span>}
                  {row.context === 'run' && <span class="aside">{row.endedBy ? `left by ${row.endedBy}` : 'still in error'}</span>}
                  <span class="spring" />
                  <Ago at={row.at} />
                </div>
                <p class="text">{row.message}</p>
                <p class="aside">
                  <a href={linkTo(['sessions', row.sessionId], { at: String(row.seq) })}>{row.sessionId}</a> · {row.agent}
                </p>
              </li>
            ))}
          </ul>
          <More of={list.data} more={list.more} text="Older failures" />
        </>
      )}
    </main>
  )
}
