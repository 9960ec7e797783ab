// What a supervisor remembers of a worker process: enough to hand its sessions over, and never more than a process can have cached.
import { ChildProcess } from 'node:child_process'
import { Client, Connection } from '@temporalio/client'
import { expect, it } from 'vitest'
import { type Child, MOST_CACHED, newChild, note } from '../../../src/worker/supervised-child.ts'

const aChild = (): Child => newChild(new ChildProcess(), 1, new Client({ connection: Connection.lazy() }))

/** The process has made an event of a session, perhaps once more. */
function hear(child: Child, workflowId: string, { executionId = `${workflowId}-1`, seq = 1 } = {}): void {
  const entries = [{ seq, prev: '', digest: '', json: '{}' }]
  note(child, { type: 'log', key: { sessionId: workflowId, epoch: 'e' }, entries, workflowId, executionId })
}

const executionsOf = ({ cached }: Child): string[] => [...cached.values()].map(({ executionId }) => executionId)

it('the newest execution of each session is taken to be cached, those heard of last first', () => {
  const child = aChild()
  hear(child, 'a')
  hear(child, 'b')
  hear(child, 'a', { executionId: 'a-2', seq: 2 })
  expect(executionsOf(child)).toEqual(['a-2', 'b-1'])
})

it('an execution that has ended, and is replayed for what it knows, is not taken for the one that goes on', () => {
  const child = aChild()
  hear(child, 'a', { executionId: 'a-2', seq: 9 })
  hear(child, 'a', { executionId: 'a-1', seq: 3 })
  // It is replayed itself, from its own first event on.
  hear(child, 'a', { executionId: 'a-2', seq: 6 })
  hear(child, 'a', { executionId: 'a-1', seq: 5 })
  expect(executionsOf(child)).toEqual(['a-2'])
})

it('a process that serves ever more sessions is remembered to have the newest of them, and no more than it can have', () => {
  const child = aChild()
  for (let n = 0; n < MOST_CACHED + 500; n++) hear(child, `s${n}`)
  expect(child.cached.size).toBe(MOST_CACHED)
  expect(child.cached.has('s499')).toBe(false)
  // One that is spoken to now and then stays.
  hear(child, 's500')
  hear(child, 'another')
  expect(child.cached.size).toBe(MOST_CACHED)
  expect([child.cached.has('s500'), child.cached.has('s501'), child.cached.has('another')]).toEqual([true, false, true])
})
