import { useState } from 'preact/hooks'
import { useActing } from '../acting.ts'
import { answered, api, Refused } from '../api/client.ts'
import type { ApprovalRuleRow } from '../api/rows.ts'
import { MOST, useListed, useLoaded } from '../loading.ts'
import { Ago, dollars, More, Problem, Value } from '../parts/common.tsx'
import { FilterField } from '../parts/filter-field.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { NewBudget } from '../parts/new-budget.tsx'
import { Table } from '../parts/table.tsx'
import { linkTo, type Place, replaceQuery } from '../route.ts'
import type { RuleMatching } from '../../../src/session/standing/facts.ts'
import { wordsForMatching } from '../session/remembering.ts'

const REFRESH_MS = 5_000
const PAGE = 200

/** What decides in a person's place: standing approvals, and budgets that sessions share. */
export function Rules({ scopes, place }: { scopes: readonly string[]; place: Place }) {
  return (
    <main>
      <header class="bar">
        <h1>Rules</h1>
      </header>
      <Approvals mayRevoke={scopes.includes('approve')} query={place.query} />
      {scopes.includes('operate') && <Budgets />}
    </main>
  )
}

function Approvals({ mayRevoke, query }: { mayRevoke: boolean; query: URLSearchParams }) {
  const filter = { agent: query.get('agent') ?? '', tool: query.get('tool') ?? '' }
  const { agent, tool } = filter
  const isFiltered = agent !== '' || tool !== ''
  const { data, problem, again, more } = useListed<ApprovalRuleRow>(
    `approval rules ${JSON.stringify(filter)}`,
    async ({ limit }, signal) => {
      // This list has no cursors: one more shows that there are more.
      const asked = { limit: Math.min(MOST, limit + 1), ...(agent && { agent }), ...(tool && { tool }) }
      const { items } = await answered(api.GET('/v1/approval-rules', { params: { query: asked }, signal }))
      return { items: items.slice(0, limit), ...(items.length > limit && { cursor: '' }) }
    },
    { size: PAGE, everyMs: REFRESH_MS, idOf: ({ id }) => id },
  )
  const set = (change: Partial<typeof filter>): void => replaceQuery(['rules'], { ...filter, ...change })
  const { act, isSending, problem: refused } = useActing()
  const revoke = (rule: string) => () => answered(api.POST('/v1/approval-rules/{rule}/revoke', { params: { path: { rule } }, body: {} }))
  return (
    <section aria-label="Standing approvals">
      <div class="line">
        <h2>Standing approvals</h2>
        <span class="spring" />
        <div class="filters">
          <FilterField label="Agent" value={agent} onEnter={(agent) => set({ agent })} />
          <FilterField label="Tool" value={tool} onEnter={(tool) => set({ tool })} />
        </div>
      </div>
      <Problem text={problem ?? refused} again={again} />
      {data?.items.length === 0 && <p class="aside">{isFiltered ? 'None matches.' : 'None: every call that needs an approval asks a person.'}</p>}
      <ul class="cards">
        {data?.items.map((rule) => (
          <li class="card" key={rule.id} aria-label={`Rule for ${rule.tool}`}>
            <div class="line">
              <strong>{rule.tool}</strong> <span>{wordsForMatching(rule.matching as RuleMatching)}</span>
              <span class="spring" />
              <Ago at={rule.givenAt} />
              {mayRevoke && (
                <Confirm text="Revoke" question="Revoke it? Later calls ask a person again." disabled={isSending} onConfirm={() => act(revoke(rule.id), again)} />
              )}
            </div>
            <p class="aside">
              {rule.agent} · given by {rule.givenBy ?? 'somebody'} in <a href={linkTo(['sessions', rule.sessionId])}>{rule.sessionId}</a> ·{' '}
              {rule.for === 'session' ? 'for that session' : 'for sessions with this context'} · used {rule.used}
              {rule.uses !== null && ` of ${rule.uses}`}
              {rule.until !== null && ` · until ${new Date(rule.until).toLocaleString()}`}
              {rule.approvers !== null && ` · as ${rule.approvers.role}`}
            </p>
            {rule.members !== null && <Value of={rule.members} />}
            {rule.note !== null && <p>{rule.note}</p>}
          </li>
        ))}
      </ul>
      <More of={data} more={more} text="Older approvals" />
      {data?.items.length === MOST && <p class="aside">No more than the newest {MOST.toLocaleString('en')} can be listed: filter by agent or tool to find others.</p>}
    </section>
  )
}

function Budgets() {
  const { data, problem, again } = useLoaded(
    'shared budgets',
    async (signal) => {
      try {
        return (await answered(api.GET('/v1/budgets', { signal }))).items
      } catch (error) {
        // They are an operator's, and a tenant's caller does not see them.
        if (error instanceof Refused && error.code === 'forbidden') return null
        throw error
      }
    },
    REFRESH_MS,
  )
  const { act, isSending, problem: refused } = useActing()
  const [isSetting, setSetting] = useState(false)
  const hasSet = (): void => {
    setSetting(false)
    again()
  }
  if (data === null) return null
  const remove = (budget: string) => () => answered(api.POST('/v1/budgets/{budget}/remove', { params: { path: { budget } } }))
  return (
    <section aria-label="Shared budgets">
      <div class="line">
        <h2>Shared budgets</h2>
        <span class="spring" />
        {data && (
          <button type="button" aria-expanded={isSetting} onClick={() => setSetting(!isSetting)}>
            Set a budget…
          </button>
        )}
      </div>
      <Problem text={problem ?? refused} again={again} />
      {data && isSetting && <NewBudget onDone={hasSet} />}
      {data?.length === 0 && <p class="aside">None: sessions spend within their own limits.</p>}
      {data && data.length > 0 && (
        <Table label="Budgets" columns={['Budget', '#Spent', '#Set aside', '#Limit', 'Used', 'Ends', 'Change']}>
          {data.map(({ id, tag, agent, spentUsd, reservedUsd, maxUsd, until, warnedAt }) => (
            <tr key={id}>
              <th scope="row">
                {tag ?? agent} <span class="why">{id.split(' ')[0]}</span>
              </th>
              <td class={`number ${spentUsd >= maxUsd ? 'bad' : warnedAt === null ? '' : 'warn'}`}>{dollars(spentUsd)}</td>
              <td class="number">{dollars(reservedUsd)}</td>
              <td class="number">{dollars(maxUsd)}</td>
              <td>
                <meter min={0} max={maxUsd} value={Math.min(maxUsd, spentUsd)} aria-label={`Used of ${id}`} />
              </td>
              <td>
                <Ago at={until} />
              </td>
              <td>
                <Confirm text="Remove" question={`Remove the budget of ${tag ?? agent}?`} disabled={isSending} onConfirm={() => act(remove(id), again)} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  )
}
