// Messages that arrive all the time: a session continues as new all the same, and carries along what arrives at that moment.
import { randomUUID } from 'node:crypto'
import type { WorkflowHandle } from '@temporalio/client'
import { defineAgent, defineTool, type ModelRequest } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { z } from 'zod'
import { QUERIES, type SessionStart } from '../../src/session/protocol/protocol.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { ownSchema, type OwnSchema } from '../support/rows.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { type SlowProxy, startSlowProxy } from '../support/slow-proxy.ts'
import { until } from '../support/until.ts'

/** The events of history at which a session tries to continue as new. After a flush that took too long, it retries half as many later. */
const DUE = size(250, 1_000)
const EVENTS_SOON = 4 * DUE
/** How long each statement of a flush takes. */
const FLUSH_STEP_MS = 30

/** Asks for a signature, then is done. */
const signer = defineAgent({
  name: 'signer',
  instructions: 'Have it signed.',
  model: scripted((request) => (answersIn(request) === 0 ? [use('sign', 'this')] : 'signed')),
  tools: [
    defineTool({
      name: 'sign',
      description: 'Signs it.',
      input: z.object({ what: z.string() }),
      effect: 'idempotent',
      approval: true,
      execute: ({ what }) => `${what} is signed`,
    }),
  ],
})

let schema: OwnSchema
let store: Store
let here: Deployment
/** Between the workers and the store: makes flushes slow enough for messages to arrive during one. */
let proxy: SlowProxy
let player: Stage
let worker: RunningWorker

beforeAll(async () => {
  const { databaseUrl } = inject('stack')
  schema = await ownSchema(databaseUrl, 'steady')
  proxy = await startSlowProxy(databaseUrl)
  here = await deploy({ schema: schema.name, history: { events: DUE }, stack: { ...inject('stack'), databaseUrl: proxy.url } })
  store = openStore({ postgres: databaseUrl, schema: schema.name })
  player = stage({ limits: { maxTurns: 10_000 } })
  worker = await here.startWorker({ agents: [player.agent, signer] })
})
afterAll(async () => {
  await here?.stop()
  await proxy?.close()
  await store?.close()
  await schema?.close()
})

/** An execution: what it was started with, and how many events its history has. */
interface Execution {
  carried: SessionStart['carried']
  events: number
}

/** Sends one message after another, every tenth one twice, until `stop` is called. */
function stream(handle: WorkflowHandle) {
  const sent: string[] = []
  let isOver = false
  const ended = (async () => {
    while (!isOver) {
      const messageId = `m${sent.length}`
      sent.push(messageId)
      await handle.signal('message', { messageId, content: messageId })
      const again = sent.at(-10)
      if (sent.length % 10 !== 0) continue
      await handle.signal('message', { messageId: again, content: 'said before' })
      // No faster than the worker accepts them, however slow the machine is.
      await handle.query(QUERIES.state)
    }
  })()
  return {
    sent,
    async stop(): Promise<void> {
      isOver = true
      await ended
    },
  }
}

async function executionsOf(id: string): Promise<Execution[]> {
  const executions: Execution[] = []
  let runId: string | undefined
  do {
    const { events } = await here.temporal.workflow.getHandle(`pawl:${id}`, runId).fetchHistory()
    const started = events?.[0]?.workflowExecutionStartedEventAttributes
    const start = JSON.parse(Buffer.from(started?.input?.payloads?.[0]?.data ?? '{}').toString()) as Partial<SessionStart>
    executions.unshift({ carried: start.carried, events: events?.length ?? 0 })
    runId = started?.continuedExecutionRunId || undefined
  } while (runId)
  return executions
}

/** Sends messages until an execution of the session starts with events that are not yet stored. Returns the ids of the messages. */
async function sendUntilCarried(id: string): Promise<string[]> {
  const handle = here.temporal.workflow.getHandle(`pawl:${id}`)
  const speaking = stream(handle)
  proxy.delayMs = FLUSH_STEP_MS
  try {
    let newest = ''
    await until(
      'events are carried along',
      async () => {
        const { runId } = await handle.describe()
        if (runId === newest) return false
        newest = runId
        return (await executionsOf(id)).some(({ carried }) => (carried?.tail?.length ?? 0) > 0)
      },
      90_000,
    )
  } finally {
    proxy.delayMs = 0
    await speaking.stop()
  }
  return speaking.sent
}

/** Whether a request fails to begin with all of the previous one, to the letter. */
function differsFrom(before: ModelRequest | undefined, { system, messages }: ModelRequest): boolean {
  if (!before) return false
  const kept = { system, messages: messages.slice(0, before.messages.length) }
  return JSON.stringify(kept) !== JSON.stringify({ system: before.system, messages: before.messages })
}

/** Drops the schema and migrates again. */
async function wipe(): Promise<void> {
  await schema.drop()
  // The first call finds the tables missing; the next one creates them.
  await store.head('anybody').catch(() => undefined)
  expect(await store.head('anybody')).toBeNull()
}

async function expectNothingLost(id: string, session: SessionHandle, sent: readonly string[]): Promise<void> {
  const events = await eventsOf(session)
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
  expect(ofType(events, 'message_received').map(({ messageId }) => messageId)).toEqual(['start', ...sent])
  const withoutStore = await here.connect({ postgres: false })
  // A workflow task during which a signal arrives is rejected and runs again: the store has the times of the accepted one.
  expect(await eventsOf(withoutStore.session(id))).toEqual(events)
  await rowsMatchEvents(inject('stack'), id, { schema: schema.name })
  // The executions overlap in the events that were carried along, which must produce rows only once.
  await wipe()
  expect(await here.pawl.rebuild({ session: id })).toMatchObject({ restored: 1, failed: 0 })
  await rowsMatchEvents(inject('stack'), id, { schema: schema.name })
}

describe('a session that receives messages all the time', () => {
  it('a steady stream of messages makes a session continue as new in mid-run, and the model notices nothing', {
    timeout: 180_000,
  }, async () => {
    let isOver = false
    const played = player.play(here.pawl, {
      model: (request) => (isOver ? 'done' : [use('look', `at ${answersIn(request)}`)]),
    })
    const { session, id, requests } = played
    const run = await session.send('start', { messageId: 'start' })
    const sent = await sendUntilCarried(id)
    // Another process, which has none of the events, continues the session.
    await worker.stop()
    worker = await here.startWorker({ agents: [player.agent, signer] })
    await session.send('the end', { messageId: 'the end' })
    isOver = true
    await run.result({ timeout: 60_000 })

    const executions = await executionsOf(id)
    for (const { events } of executions.slice(0, -1)) expect(events).toBeLessThan(EVENTS_SOON)
    await expectNothingLost(id, session, [...sent, 'the end'])
    const shown = requests.at(-1)!
    expect([...saidIn(shown)].sort()).toEqual([...new Set(saidIn(shown))].sort())
    expect(['start', ...sent, 'the end'].slice(0, saidIn(shown).length)).toEqual(saidIn(shown))
    expect(requests.filter((request, index) => differsFrom(requests[index - 1], request))).toEqual([])
  })

  it('a session that receives messages all the time continues as new while it waits, and carries out the decision', {
    timeout: 180_000,
  }, async () => {
    const id = `signed-${randomUUID()}`
    const session = here.pawl.session(id, { agent: 'signer' })
    const run = await session.send('start', { messageId: 'start' })
    await until('it waits', async () => (await session.state()).status === 'waiting')
    const sent = await sendUntilCarried(id)
    for (const { events } of (await executionsOf(id)).slice(0, -1)) expect(events).toBeLessThan(EVENTS_SOON)
    const [call] = (await session.state()).current?.calls ?? []
    await session.approve(call?.callId ?? '', { digest: call?.digest ?? '' })
    await run.result({ timeout: 60_000 })
    await expectNothingLost(id, session, sent)
  })
})
