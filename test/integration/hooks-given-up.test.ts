// Hooks that are due when a run has ended and that never finish: pawl gives up on them, and the session has its next run. Workflow
// interceptors shorten the two minutes that this takes.
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { type Agent, defineAgent, defineHook, defineTool, type ToolUseBlock } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { foldedState } from '../support/folded.ts'
import { gate, until } from '../support/until.ts'

const use = (name: string): ToolUseBlock => ({ type: 'tool_use', id: `toolu_${name}`, name, input: {} })

/** By session: the hooks that ran, and what the hook on a result waits for. */
const ran = new Map<string, string[]>()
const waits = new Map<string, (signal: AbortSignal) => Promise<void>>()

function note(sessionId: string, hook: string): void {
  ran.set(sessionId, [...(ran.get(sessionId) ?? []), hook])
}

const agent = defineAgent({
  name: 'audited',
  instructions: 'Work.',
  model: scripted(({ messages }) => (messages.some(({ role }) => role === 'assistant') ? 'done' : [use('work'), use('ask')])),
  tools: [
    defineTool({ name: 'work', description: 'Works.', effect: 'read', input: z.object({}), execute: () => 'worked' }),
    defineTool({ name: 'ask', description: 'Asks a client.', effect: 'read', input: z.object({}), execute: 'client' }),
  ],
  hooks: [
    defineHook({
      on: 'postToolUse',
      name: 'audit',
      timeout: '10m',
      run: async (_input, { sessionId, signal, emit }) => {
        note(sessionId, 'audit')
        await waits.get(sessionId)?.(signal)
        emit('audited')
      },
    }),
    defineHook({ on: 'turnEnd', name: 'end', run: (_input, { sessionId }) => note(sessionId, 'end') }),
  ],
}) as Agent
const other = defineAgent({ name: 'other', instructions: '', model: scripted(() => 'done') }) as Agent

let here: Deployment
beforeAll(async () => {
  here = await deploy()
})
afterAll(() => here?.stop())

/** A worker whose workflows give the hooks at the end of a run little time. */
const serveHurried = (one: Agent, on = here): Promise<RunningWorker> =>
  on.startWorker({
    agents: [one],
    interceptors: { workflowModules: [fileURLToPath(new URL('../support/own/hurried-end-hooks.js', import.meta.url))] },
  })

/** A session in the middle of a turn, one of whose calls has its result. */
async function waiting(on: Deployment): Promise<SessionHandle> {
  const session = on.pawl.session(`given-up-${randomUUID()}`, { agent: 'audited' }) as SessionHandle
  const run = await session.send('go')
  expect(await run.settled({ timeout: 60_000 })).toMatchObject({ status: 'waiting' })
  return session
}

const endOf = (session: SessionHandle) => until('they have ended', async () => ofType(await eventsOf(session), 'hooks_ended')[0], 40_000)

describe.concurrent('hooks at the end of a run', () => {
  it('hooks at the end of a run that take too long are told to stop and given up: the next run does not run them again', async () => {
    await serveHurried(agent)
    const session = await waiting(here)
    const stopped = gate()
    waits.set(session.id, async (signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      void stopped.pass()
    })
    await session.interrupt()
    const message = 'No worker ran the hooks to their end within two minutes.'
    expect(await endOf(session)).toMatchObject({ run: 1, turn: 1, error: { code: 'timeout', message } })
    await stopped.reached
    waits.delete(session.id)
    expect(await (await session.send('and now?')).result({ timeout: 60_000 })).toMatchObject({ text: 'done' })
    const events = await eventsOf(session)
    expect(ofType(events, 'hook_answered').map(({ run, hook }) => [run, hook])).toEqual([[2, 'end']])
    expect(ofType(events, 'emitted')).toEqual([])
    expect(ran.get(session.id)).toEqual(['audit', 'end'])
    expect((await foldedState(session)).hooksDue).toBeUndefined()
  })

  it('hooks at the end of a run of an agent that is not served are requested again and again, then given up', async () => {
    const there = await deploy()
    try {
      const worker = await there.startWorker({ agents: [agent] })
      const session = await waiting(there)
      await worker.stop()
      await session.interrupt()
      const without = await serveHurried(other, there)
      const error = { code: 'agent_not_served', message: 'No worker served the agent for two minutes.' }
      expect(await endOf(session)).toMatchObject({ run: 1, turn: 1, error })
      expect(await asks(there, session)).toBe(12)
      await without.stop()
      await there.startWorker({ agents: [agent] })
      expect(await (await session.send('and now?')).result({ timeout: 60_000 })).toMatchObject({ text: 'done' })
      expect(ran.get(session.id)).toEqual(['end'])
    } finally {
      await there.stop()
    }
  })

  it('hooks at the end of a run are carried out if the agent is served again in time', async () => {
    const there = await deploy()
    try {
      const worker = await there.startWorker({ agents: [agent] })
      const session = await waiting(there)
      await worker.stop()
      await session.interrupt()
      const without = await there.startWorker({ agents: [other] })
      await until('they were asked for', async () => (await asks(there, session)) > 0)
      await without.stop()
      await there.startWorker({ agents: [agent] })
      expect((await endOf(session)).error).toBeUndefined()
      const events = await eventsOf(session)
      expect(ofType(events, 'hook_answered').map(({ run, hook }) => [run, hook])).toEqual([
        [1, 'audit'],
        [1, 'end'],
      ])
      expect(ofType(events, 'emitted')).toMatchObject([{ run: 1, hook: 'audit', name: 'audited' }])
    } finally {
      await there.stop()
    }
  })
})

/** How many activities for the hooks have ended. */
async function asks({ temporal }: Deployment, { id }: SessionHandle): Promise<number> {
  const { events = [] } = await temporal.workflow.getHandle(`pawl:${id}`).fetchHistory()
  const scheduled = events?.filter((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'endHooks') ?? []
  const ends = new Set(events?.map((event) => String(event.activityTaskCompletedEventAttributes?.scheduledEventId)))
  return scheduled.filter(({ eventId }) => ends.has(String(eventId))).length
}
