// Finds the executions before a given one even if the server's lists are late or wrong: the store and the histories fill the gaps.
import type { Client } from '@temporalio/client'
import { WorkflowNotFoundError } from '@temporalio/client'
import { describe, expect, it } from 'vitest'
import { cutOffBefore } from '../../../src/activities/earlier-executions.ts'

/** An execution as the server knows it: how it ended, when it began, and what continued it. */
interface Execution {
  status: string
  at: number
  next?: string
}

/** A server with these executions of one session. `listed` says which of them its lists contain at the n-th request. */
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

const before = (client: Client, last: string | null) => cutOffBefore('s', { own: 'own', last, erasedAt: null }, client)
const OWN = { own: { status: 'RUNNING', at: 90 } }

describe('the earlier executions that were ended from outside', () => {
  it('earlier executions are found through the store and the histories even if lists contain only the current one', async () => {
    const { client, asked } = serverOf(
      {
        a: { status: 'CONTINUED_AS_NEW', at: 10, next: 'b' },
        b: { status: 'CONTINUED_AS_NEW', at: 20, next: 'c' },
        c: { status: 'TERMINATED', at: 30 },
        ...OWN,
      },
      () => ['own'],
    )
    expect(await before(client, 'a')).toEqual({ cutOff: ['c'] })
    expect(asked()).toBe(1)
  })

  it('the earlier executions begin with the one that the store knows, oldest first', async () => {
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
    expect(await before(client, 'a')).toEqual({ cutOff: ['a', 'd', 'b'] })
  })

  it.each([{ last: null }, { last: 'z' }])(
    'earlier executions unknown to the store are looked up until the lists contain the asking execution: $last',
    async ({ last }) => {
      const { client, asked } = serverOf({ z: { status: 'COMPLETED', at: 5 }, a: { status: 'TERMINATED', at: 10 }, ...OWN }, (asked) =>
        asked < 3 ? [] : ['own', 'a'],
      )
      expect(await before(client, last)).toEqual({ cutOff: ['a'], ...(last !== null && { closed: last }) })
      expect(asked()).toBe(4)
    },
  )

  it('earlier executions are not looked up once the asking execution has loaded the session', async () => {
    const { client, asked } = serverOf(OWN, () => ['own'])
    expect(await before(client, 'own')).toEqual({ cutOff: [] })
    expect(asked()).toBe(0)
  })

  it('no earlier executions were ended if the session closed normally, which is named, or if nothing is left of it', async () => {
    const { client } = serverOf({ a: { status: 'COMPLETED', at: 10 }, ...OWN }, () => ['own'])
    expect(await before(client, 'a')).toEqual({ cutOff: [], closed: 'a' })
    expect(await before(client, 'gone')).toEqual({ cutOff: [] })
    const { client: lost, looks } = serverOf({ a: { status: 'CONTINUED_AS_NEW', at: 10, next: 'gone' }, ...OWN }, () => ['own'])
    expect(await before(lost, 'a')).toEqual({ cutOff: [] })
    expect(looks).toEqual(['a'])
  })
})
