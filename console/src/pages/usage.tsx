import { answered, api } from '../api/client.ts'
import type { UsageRow } from '../api/rows.ts'
import { useListed } from '../loading.ts'
import { dollars, Empty, More, Problem } from '../parts/common.tsx'
import { lazy } from '../parts/lazy.tsx'
import { linkTo, type Place, replaceQuery } from '../route.ts'

const BY = ['day', 'agent', 'model', 'session'] as const
const REFRESH_MS = 15_000
const PAGE = 100
const Chart = lazy(async () => (await import('../parts/chart.tsx')).default)
const compact = (count: number): string => count.toLocaleString('en', { notation: 'compact' })

/** What was spent, by day, agent, model or session. */
export function Usage({ place: { query } }: { place: Place }) {
  const by = BY.find((one) => one === query.get('by')) ?? 'day'
  const { data, problem, again, more } = useListed<UsageRow>(
    `usage ${by}`,
    (page, signal) => answered(api.GET('/v1/usage', { params: { query: { by, ...page } }, signal })),
    { size: PAGE, everyMs: REFRESH_MS, idOf: ({ key }) => key },
  )
  const most = Math.max(...(data?.items ?? []).map(({ usd }) => usd), 0)
  return (
    <main>
      <header class="bar">
        <h1>Usage</h1>
        <select aria-label="By" value={by} onChange={(event) => replaceQuery(['usage'], { by: event.currentTarget.value })}>
          {BY.map((one) => (
            <option key={one} value={one}>
              by {one}
            </option>
          ))}
        </select>
      </header>
      <Problem text={problem} again={again} />
      {data?.items.length === 0 && (
        <Empty title="Nothing was spent yet">
          <p>Model calls appear here once they have completed.</p>
        </Empty>
      )}
      {data && data.items.length > 0 && <SumChart by={by} items={data.items} />}
      {data && data.items.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Usage">
          <table>
            <thead>
              <tr>
                <th scope="col">{by[0]?.toUpperCase() + by.slice(1)}</th>
                <th scope="col" class="number">
                  Model calls
                </th>
                <th scope="col" class="number">
                  Tokens in
                </th>
                <th scope="col" class="number">
                  Tokens out
                </th>
                <th scope="col" class="number">
                  Cost
                </th>
                <th scope="col">Share of the largest</th>
              </tr>
            </thead>
            <tbody>
              {data.items.map(({ key, calls, usage, usd, unpriced }) => (
                <tr key={key}>
                  <th scope="row">{by === 'session' ? <a href={linkTo(['sessions', key])}>{key}</a> : key}</th>
                  <td class="number">{calls.toLocaleString('en')}</td>
                  <td class="number">{usage.input_tokens.toLocaleString('en')}</td>
                  <td class="number">{usage.output_tokens.toLocaleString('en')}</td>
                  <td class="number">{unpriced === calls ? 'no price' : `${dollars(usd)}${unpriced > 0 ? ` + ${unpriced} without a price` : ''}`}</td>
                  <td>
                    <meter min={0} max={most || 1} value={usd} aria-label={`Share of ${key}`} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <More of={data} more={more} text={by === 'day' ? 'Earlier days' : 'Lower costs'} />
    </main>
  )
}

type Sum = { key: string; calls: number; usd: number; usage: { input_tokens: number; output_tokens: number } }

/** What the bars show: the first of these that is known. */
const MEASURES: readonly [title: string, of: (sum: Sum) => number, format: (value: number) => string][] = [
  ['Cost', ({ usd }) => usd, dollars],
  ['Tokens', ({ usage }) => usage.input_tokens + usage.output_tokens, compact],
  ['Model calls', ({ calls }) => calls, compact],
]

/** Days in order; of the others, the largest first. */
function SumChart({ by, items }: { by: string; items: readonly Sum[] }) {
  const [title, of, format] = MEASURES.find(([, value]) => items.some((sum) => value(sum) > 0)) ?? []
  if (title === undefined || !of || !format) return null
  const ordered = by === 'day' ? items.toReversed() : items
  return <Chart title={`${title} by ${by}`} format={format} bars={ordered.map((sum) => ({ name: sum.key, value: of(sum) }))} />
}
