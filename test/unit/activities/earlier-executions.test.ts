// Which executions came before one, by a server whose lists are late or wrong: what the store and the histories say is found all the same.
import type { Client } from '@temporalio/client'
import { WorkflowNotFoundError } from '@temporalio/client'
import { describe, expect, it } from 'vitest'
import { cutOffBefore } from '../../../src/activities/earlier-executions.ts'

/** An execution as the server has it: how it ended, when it began, and what continued it. */
interface Execution {
  status: string
  at: number
  next?: string
}

/** A server with these executions of one session, of which its lists know those that `listed` says, the n-th time that it is asked. */
function serverOf(executions: Record<string, Execution>, listed: (asked: number) => readonly string[]) {
  let asked = 0
  const looks: string[] = []
  const client = {
    options: { namespace: 'n' },
    workflow: {
      async *list() {
        for (const runId of listed(asked++)) yield { runId }
      },
      getHandle: (workflowId: string, runId: string) => ({
        async describe() {
          const found = executions[runId]
          if (!found) throw new WorkflowNotFoundError('gone', workflowId, runId)
          return { status: { name: found.status }, startTime: new Date(found.at) }
        },
      }),
    },
    connection: {
      workflowService: {
        async getWorkflowExecutionHistory({ execution: { runId } }: { execution: { runId: string } }) {
          looks.push(runId)
          const newExecutionRunId = executions[runId]?.next
          return { history: { events: [{ workflowExecutionContinuedAsNewEventAttributes: { newExecutionRunId } }] } }
        },
      },
    },
  }
  return { client: client as unknown as Client, asked: () => asked, looks }
}

const before = (client: Client, last: string | null) => cutOffBefore('s', { own: 'own', last }, client)
const OWN = { own: { status: 'RUNNING', at: 90 } }

describe('the executions before one that were ended from outside', () => {
  it('are known by the store and the histories, though no list has them', async () => {
    const { client, asked } = serverOf(
      {
        a: { status: 'CONTINUED_AS_NEW', at: 10, next: 'b' },
        b: { status: 'CONTINUED_AS_NEW', at: 20, next: 'c' },
        c: { status: 'TERMINATED', at: 30 },
        ...OWN,
      },
      () => [],
    )
    expect(await before(client, 'a')).toEqual(['c'])
    expect(asked()).toBe(1)
  })

  it('are all that were ended since the one that the store knows began, oldest first, by what the server itself says of each', async () => {
    const { client } = serverOf(
      {
        old: { status: 'TERMINATED', at: 5 },
        a: { status: 'FAILED', at: 10 },
        b: { status: 'TERMINATED', at: 30 },
        c: { status: 'COMPLETED', at: 20 },
        d: { status: 'TIMED_OUT', at: 25 },
        ...OWN,
      },
      () => ['own', 'b', 'c', 'd', 'gone', 'old'],
    )
    expect(await before(client, 'a')).toEqual(['a', 'd', 'b'])
  })

  it('are looked for in the lists until these know of the one that asks, where the store knows of none', async () => {
    const { client, asked } = serverOf({ a: { status: 'TERMINATED', at: 10 }, ...OWN }, (asked) => (asked < 3 ? [] : ['own', 'a']))
    expect(await before(client, null)).toEqual(['a'])
    expect(asked()).toBe(4)
  })

  it('are none, without a look, once the one that asks has loaded the session', async () => {
    const { client, asked } = serverOf(OWN, () => ['own'])
    expect(await before(client, 'own')).toEqual([])
    expect(asked()).toBe(0)
  })

  it('are none where the session closed in good order, or nothing is left of it', async () => {
    const { client } = serverOf({ a: { status: 'COMPLETED', at: 10 }, ...OWN }, () => ['own'])
    expect(await before(client, 'a')).toEqual([])
    expect(await before(client, 'gone')).toEqual([])
    const { client: lost, looks } = serverOf({ a: { status: 'CONTINUED_AS_NEW', at: 10, next: 'gone' }, ...OWN }, () => [])
    expect(await before(lost, 'a')).toEqual([])
    expect(looks).toEqual(['a'])
  })
})
