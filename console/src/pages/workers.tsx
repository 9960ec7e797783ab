import { useActing } from '../acting.ts'
import { answered, api } from '../api/client.ts'
import { now } from '../clock.ts'
import { useLoaded } from '../loading.ts'
import { Ago, Empty, Problem, Status } from '../parts/common.tsx'
import { Table } from '../parts/table.tsx'

const REFRESH_MS = 5_000
/** An idle worker polls once a minute. */
const QUIET_MS = 75_000

/** Which processes work, which tasks wait for one, and which providers have refused calls. */
export function Workers() {
  const { data, problem, again } = useLoaded('workers', (signal) => answered(api.GET('/v1/workers', { signal })), REFRESH_MS)
  const { act, isSending, problem: refused } = useActing()
  const open = (account: string) => () => answered(api.POST('/v1/workers/gates/open', { body: { account } }))
  const waiting = data?.backlog.filter(({ tasks }) => tasks > 0) ?? []
  return (
    <main>
      <header class="bar">
        <h1>Workers</h1>
        {data && <span class="aside">task queue {data.taskQueue}</span>}
      </header>
      <Problem text={problem ?? refused} again={again} />
      {data?.workers.length === 0 && (
        <Empty title="No worker is running">
          <p>
            No session continues until one polls the task queue “{data.taskQueue}”. Start one with <code>pawl worker</code>. Messages are kept in the
            meantime.
          </p>
        </Empty>
      )}
      {data && data.workers.length > 0 && (
        <Table label="Processes" columns={['Process', 'Build', 'Status', 'Last poll']}>
          {data.workers.map(({ identity, build, polledAt }) => (
            <tr key={identity}>
              <th scope="row">{identity}</th>
              <td>
                <code>{build}</code>
              </td>
              <td>{now() - polledAt < QUIET_MS ? <Status is="polling" tone="good" /> : <Status is="quiet" tone="warn" />}</td>
              <td>
                <Ago at={polledAt} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      {data && (
        <>
          <h2>Tasks that wait for a worker</h2>
          {waiting.length === 0 && <p class="aside">None.</p>}
          {waiting.length > 0 && (
            <Table label="Tasks" columns={['Task queue', 'Type', '#Tasks', '#Oldest']}>
              {waiting.map(({ queue, type, tasks, oldestMs }) => (
                <tr key={`${queue} ${type}`}>
                  <th scope="row">{queue}</th>
                  <td>{type}</td>
                  <td class="number">{tasks.toLocaleString('en')}</td>
                  <td class="number">{Math.round(oldestMs / 1_000)} s</td>
                </tr>
              ))}
            </Table>
          )}
          <h2>Accounts whose calls wait</h2>
          {data.gates.length === 0 && <p class="aside">None: no provider limits the rate.</p>}
          <ul class="cards">
            {data.gates.map(({ account, until }) => (
              <li class="card line" key={account}>
                <strong>{account}</strong> <span>until {new Date(until).toLocaleTimeString()}</span>
                <span class="spring" />
                <button type="button" disabled={isSending} onClick={() => act(open(account), again)}>
                  Open now
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </main>
  )
}
