// What Temporal's own view shows of sessions: summaries, current details, search attributes, priorities.
import { randomUUID } from 'node:crypto'
import type { Client, WorkflowHandle } from '@temporalio/client'
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common'
import { temporal } from '@temporalio/proto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { registerSearchAttributes, startIndexed } from '../../src/connect/search-attributes.ts'
import { workflowIdOf } from '../../src/session/protocol/protocol.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { dataConverter } from '../support/own/encrypting.ts'
import { inOrder, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 60_000 }

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
  await here.startWorker({ agents: [player.agent] })
})
afterAll(() => here?.stop())

const workflowOf = (id: string): WorkflowHandle => here.temporal.workflow.getHandle(workflowIdOf(id))

/** Activity types with their summaries, in the order in which they were scheduled, and the bytes of all summaries. */
async function summariesOf(id: string): Promise<{ steps: string[]; bytes: number }> {
  const { events } = await workflowOf(id).fetchHistory()
  const scheduled = (events ?? []).filter((event) => event.activityTaskScheduledEventAttributes)
  const steps = scheduled.map(({ userMetadata, activityTaskScheduledEventAttributes: attributes }) => {
    const text = Buffer.from(userMetadata?.summary?.data ?? []).toString()
    return `${attributes?.activityType?.name}: ${text === '' ? '' : (JSON.parse(text) as string)}`
  })
  const { UserMetadata } = temporal.api.sdk.v1
  const bytes = scheduled.reduce((sum, { userMetadata }) => sum + (userMetadata ? UserMetadata.encode(userMetadata).finish().length : 0), 0)
  return { steps, bytes }
}

/** Each type of activity with its heartbeat timeouts, in seconds, in the executions of a session. */
async function heartbeatTimeoutsOf(client: Client, id: string): Promise<Record<string, number[]>> {
  const found: Record<string, Set<number>> = {}
  for await (const { runId } of client.workflow.list({ query: `WorkflowId = '${workflowIdOf(id)}'` })) {
    const { events } = await client.workflow.getHandle(workflowIdOf(id), runId).fetchHistory()
    for (const { activityTaskScheduledEventAttributes: scheduled } of events ?? []) {
      if (!scheduled) continue
      const type = scheduled.activityType?.name ?? ''
      found[type] = (found[type] ?? new Set()).add(Number(scheduled.heartbeatTimeout?.seconds))
    }
  }
  return Object.fromEntries(Object.entries(found).map(([type, timeouts]) => [type, [...timeouts]]))
}

/** The details, as `temporal workflow metadata` prints them. */
async function detailsOf(id: string): Promise<string> {
  return (await workflowOf(id).query<{ currentDetails: string }>('__temporal_workflow_metadata')).currentDetails
}

const countOf = async (client: Client, query: string): Promise<number> => (await client.workflow.count(query)).count

describe('a session in Temporal’s view', () => {
  it('a session in Temporal’s view has no stack traces of its promises, because recording them takes a quarter of a replay', async () => {
    const held = gate()
    const { session, id } = player.play(here.pawl, { model: inOrder([use('look', 'a')], 'done'), look: () => held.pass() })
    const run = await session.send('go')
    await held.reached
    expect(await workflowOf(id).query('__stack_trace')).toBe('')
    held.open()
    await run.result(TIMEOUT)
  })

  it('a session in Temporal’s view has a summary, and so have its steps: the turn or the tool, and the attempt', async () => {
    let entries = 0
    const look = (): string => {
      if ((entries += 1) === 1) throw new Error('busy')
      return 'seen'
    }
    const model = inOrder([use('look', 'a')], 'done')
    const { session, id } = player.play(here.pawl, { model, look }, { tags: ['vip', 'eu'] })
    await (await session.send('one')).result(TIMEOUT)
    const { steps, bytes } = await summariesOf(id)
    expect(steps.filter((step) => !/^(flush|loadSession)/.test(step))).toEqual([
      'callModel: turn 1',
      'executeTool: look',
      'executeTool: look, attempt 2',
      'callModel: turn 2',
    ])
    expect(await (await workflowOf(id).describe()).staticSummary()).toBe(`${player.agent.name} (vip, eu)`)
    // Four steps of two turns.
    expect(bytes / 2).toBeLessThan(150)
  })

  it('a session in Temporal’s view is still shown with its agent and its tags after it has continued as new', async () => {
    const own = await deploy({ history: { events: 30 } })
    try {
      await own.startWorker({ agents: [player.agent] })
      const { session, id } = player.play(own.pawl, { model: () => 'done' }, { tags: ['vip'] })
      const first = async () => (await own.temporal.workflow.getHandle(workflowIdOf(id)).describe()).runId
      await (await session.send('one')).result(TIMEOUT)
      const begun = await first()
      await until('it is continued as new', async () => {
        await (await session.send('more')).result(TIMEOUT)
        return (await first()) !== begun
      })
      expect(await detailsOf(id)).toContain(`- **${player.agent.name}** (vip) is idle`)
    } finally {
      await own.stop()
    }
  })

  it('a session in Temporal’s view says what it is doing, without the content of any message', async () => {
    const open = gate()
    const model = inOrder([use('look', 'a secret')], 'done')
    const { session, id } = player.play(here.pawl, { model, look: () => open.pass() })
    const run = await session.send('a secret question')
    const details = await until('the tool runs', async () => {
      const text = await detailsOf(id)
      return text.includes('look') && text
    })
    expect(details).toContain(`- **${player.agent.name}** is running, run 1, turn 1\n- waits for the tool look (t_1_1_0)`)
    expect(details).not.toContain('secret')
    open.open()
    await run.result(TIMEOUT)
    expect(await detailsOf(id)).toContain(`- **${player.agent.name}** is idle\n- waits for a message\n`)
  })

  it('a session in Temporal’s view is found by its agent and its tags, in a namespace that has the search attributes', async () => {
    await registerSearchAttributes(here.temporal.connection as never, here.stack.namespace)
    expect(await registerSearchAttributes(here.temporal.connection as never, here.stack.namespace)).toEqual([])
    const tag = `tag-${randomUUID()}`
    const pawl = await here.connect()
    const { session } = player.play(pawl, { model: () => 'done' }, { tags: [tag, 'x'.repeat(300)] })
    await (await session.send('one')).result(TIMEOUT)
    await until(
      'it is listed',
      async () => (await countOf(here.temporal, `PawlTags = '${tag}' and PawlAgent = '${player.agent.name}'`)) === 1,
    )
  })

  it('a session has no search attributes if there is a codec, which cannot encode them, unless the client wants them', async () => {
    const tag = `tag-${randomUUID()}`
    const attributesOf = async (searchAttributes?: boolean) => {
      const pawl = await here.connect({ dataConverter, ...(searchAttributes && { searchAttributes }) })
      const id = randomUUID()
      // No worker can read it: only the start matters.
      await pawl.session(id, { agent: player.agent.name, tags: [tag] }).send('one', { isNew: true })
      const { typedSearchAttributes } = await workflowOf(id).describe()
      await workflowOf(id).terminate()
      // A worker that finds the session adds the server's own.
      const all = typedSearchAttributes.getAll().filter(({ key }) => key.name.startsWith('Pawl'))
      return all.map(({ key, value }) => [key.name, value])
    }
    expect(await attributesOf()).toEqual([])
    expect((await attributesOf(true)).toSorted()).toEqual([
      ['PawlAgent', player.agent.name],
      ['PawlTags', [tag]],
    ])
  })

  it('a session starts without search attributes in a namespace that lacks them, and tries again after a minute', async () => {
    let now = 0
    const indexed = startIndexed(() => now)
    const unknown = [{ key: defineSearchAttributeKey('PawlNone', SearchAttributeType.KEYWORD), value: 'x' }]
    const tries: boolean[] = []
    const start = () =>
      indexed(unknown, (typed) => {
        tries.push('typedSearchAttributes' in typed)
        const options = { workflowId: `none-${randomUUID()}`, taskQueue: `none-${here.taskQueue}`, args: [], ...typed }
        return here.temporal.workflow.start('none', options)
      })
    for (const at of [0, 59_000, 61_000]) {
      now = at
      await (await start()).terminate()
    }
    expect(tries).toEqual([true, false, false, true, false])
  })

  it('a session with a heartbeat timeout of its own has it in its model calls and tool calls, also after it has continued as new', async () => {
    const own = await deploy({ history: { events: 30 } })
    try {
      await own.startWorker({ agents: [player.agent] })
      const model = inOrder([use('put', 'a'), use('pay', 'b')], 'done')
      const { session, id } = player.play(own.pawl, { model }, { heartbeatTimeout: '1m' })
      const execution = async () => (await own.temporal.workflow.getHandle(workflowIdOf(id)).describe()).runId
      await (await session.send('one')).result(TIMEOUT)
      const first = await execution()
      await until('it is continued as new', async () => {
        await (await session.send('more')).result(TIMEOUT)
        return (await execution()) !== first
      })
      await (await session.send('last')).result(TIMEOUT)
      expect(await heartbeatTimeoutsOf(own.temporal, id)).toMatchObject({ callModel: [60], executeTool: [60] })
    } finally {
      await own.stop()
    }
  })

  it('a session in Temporal’s view passes its priority on', async () => {
    const priority = { priorityKey: 1, fairnessKey: 'acme', fairnessWeight: 2.5 }
    const { session, id } = player.play(here.pawl, { model: () => 'done' }, { priority })
    await (await session.send('one')).result(TIMEOUT)
    expect((await workflowOf(id).describe()).priority).toEqual(priority)
    expect(() => here.pawl.session('s', { agent: 'a', priority: { fairnessKey: 'x'.repeat(65) } })).toThrow('64 bytes')
    expect(() => here.pawl.session('s', { agent: 'a', priority: { priorityKey: 0 } })).toThrow('priorityKey')
  })
})
