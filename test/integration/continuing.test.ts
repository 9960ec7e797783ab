// Long sessions continue as new: the model and the senders do not notice, and earlier effects are not repeated.
import type { WorkflowHandle } from '@temporalio/client'
import type { ModelRequest } from 'pawl'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, type Played, resultsIn, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { until } from '../support/until.ts'

/** The number of history events at which sessions continue as new. */
const DUE = size(200, 1_000)
/** More turns than fit into two such histories. */
const TURNS = size(44, 205)
const FLOOD = DUE + 100
/** Runs of one turn, each begun as soon as the one before it has ended. */
const CHATS = size(100, 400)
const CLOSED_AT = size(8, 30)
const SECRET = 'a-result-that-must-be-in-history-once'

type Execution = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>

/** The histories of a session's executions, oldest first. */
async function executionsOf(here: Deployment, id: string): Promise<Execution[]> {
  const executions: Execution[] = []
  let runId: string | undefined
  do {
    const { events } = await here.temporal.workflow.getHandle(`pawl:${id}`, runId).fetchHistory()
    executions.unshift(events ?? [])
    runId = events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId || undefined
  } while (runId)
  return executions
}

/** All the text that an event holds, including that of its payloads. */
function textIn(held: unknown): string {
  if (held instanceof Uint8Array) return Buffer.from(held).toString()
  if (held === null || typeof held !== 'object') return String(held)
  return Object.entries(held)
    .map(([key, value]) => `${key} ${textIn(value)}`)
    .join('\n')
}

function checkTranscript(request: ModelRequest, turn: number): string | undefined {
  const { messages } = request
  if (answersIn(request) !== turn) return `turn ${turn}: ${answersIn(request)} answers`
  const asked = messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : [])),
  )
  const told = messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.flatMap((block) => (block.type === 'tool_result' ? [block.tool_use_id] : [])),
  )
  if (asked.join() !== told.join()) return `turn ${turn}: ${asked.length} calls and ${told.length} results`
  if (new Set(asked).size !== turn) return `turn ${turn}: ${new Set(asked).size} different calls`
  const last = turn > 0 && resultsIn(request)[0]?.content
  const due = turn === TURNS ? `[idempotent replay of t_1_1_0]\nresult 0 ${SECRET}` : `result ${turn - 1} ${SECRET}`
  if (turn > 0 && last !== due) return `turn ${turn}: the last result is ${String(last).slice(0, 80)}`
  return undefined
}

describe(`a session of ${TURNS} turns`, () => {
  let here: Deployment
  let player: Stage
  let worker: RunningWorker
  let played: Played
  let executions: Execution[]
  const wrong: string[] = []
  const sent: string[] = []

  beforeAll(async () => {
    here = await deploy({ history: { events: DUE } })
    player = stage({ limits: { maxTurns: 1_000 } })
    worker = await here.startWorker({ agents: [player.agent] })
    played = player.play(here.pawl, {
      async model(request) {
        const turn = answersIn(request)
        const problem = checkTranscript(request, turn)
        if (problem) wrong.push(problem)
        // Messages that arrive during the run, the newest just as the session is about to continue as new.
        if (turn % 20 === 10) {
          const messageId = `m${turn}`
          sent.push(messageId)
          await played.session.send(messageId, { messageId })
        }
        // The close is requested in the first execution and done in the last. A message id from the first is sent again in a later one.
        if (turn === CLOSED_AT) await played.session.close()
        if (turn === TURNS - 15) await played.session.send('start', { messageId: 'start' })
        if (turn === TURNS) return 'done'
        // The last call repeats the first one, which an earlier execution and another worker handled.
        const thing = turn === TURNS - 1 ? 0 : turn
        return [use('put', `thing ${thing}`, thing)]
      },
      put: ({ n }) => `result ${n} ${SECRET}`,
    })
    const run = await played.session.send('start', { messageId: 'start' })
    // Halfway through, another worker takes over, which has none of the events.
    await until('half of the turns are made', () => played.requests.length > TURNS / 2, 60_000)
    await worker.stop()
    worker = await here.startWorker({ agents: [player.agent] })
    await run.result({ timeout: 90_000 })
    executions = await executionsOf(here, played.id)
  })
  afterAll(() => here?.stop())

  it('a long session continues as new close to the limit', () => {
    expect(executions.length).toBeGreaterThanOrEqual(2)
    for (const events of executions.slice(0, -1)) {
      expect(events.length).toBeGreaterThan(0.9 * DUE)
      expect(events.length).toBeLessThan(1.3 * DUE)
      expect(events.at(-1)?.workflowExecutionContinuedAsNewEventAttributes).toBeTruthy()
    }
  })

  it('a long session sends the model a complete transcript, in order, at every turn', () => {
    expect(wrong).toEqual([])
    expect(played.requests.length).toBe(TURNS + 1)
  })

  it('a long session shows the model every message that was sent during the run, once and in order', () => {
    expect(saidIn(played.requests.at(-1)!)).toEqual(['start', ...sent])
  })

  it('a long session executes each effect once, even one that is asked for again much later', () => {
    expect(played.count('put')).toBe(TURNS - 1)
  })

  it('a long session has its events without a gap, with and without the side store', async () => {
    await until('the session is closed', async () => (await played.session.state()).status === 'closed')
    const events = await eventsOf(played.session)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
    expect(ofType(events, 'tool_completed')).toHaveLength(TURNS)
    const withoutStore = await here.connect({ postgres: false })
    expect(await eventsOf(withoutStore.session(played.id))).toEqual(events)
    const tail = []
    for await (const event of withoutStore.session(played.id).events({ after: events.length - 3 })) tail.push(event)
    expect(tail).toEqual(events.slice(-3))
  })

  it('a long session closes at its end, as was requested long before', async () => {
    await until('the session is closed', async () => (await played.session.state()).status === 'closed')
    expect(ofType(await eventsOf(played.session), 'session_closed')).toHaveLength(1)
  })

  it('a long session still knows its earlier message ids, even after it is resumed', async () => {
    const answers = played.requests.length
    await (await played.session.send('start', { messageId: 'start' })).result({ timeout: 20_000 })
    await (await played.session.send('m10', { messageId: 'm10' })).result({ timeout: 20_000 })
    expect(played.requests.length).toBe(answers)
    expect((await played.session.state()).run).toBe(1)
  })

  it('a long session has no transcript in any activity’s input: inputs stay as small as at the beginning', () => {
    const inputs = executions.flatMap((events) =>
      events.flatMap(({ activityTaskScheduledEventAttributes: scheduled }) =>
        scheduled ? [{ type: scheduled.activityType?.name, text: Buffer.from(scheduled.input?.payloads?.[0]?.data ?? []).toString() }] : [],
      ),
    )
    const models = inputs.filter(({ type }) => type === 'callModel')
    expect(models).toHaveLength(TURNS + 1)
    expect(Math.max(...models.map(({ text }) => text.length))).toBeLessThan(600)
    expect(inputs.filter(({ text }) => text.includes(SECRET))).toEqual([])
  })

  it('a long session has each result in its history once, and not in what continue-as-new carries over', () => {
    const holding = executions.flat().filter((event) => textIn(event).includes(SECRET))
    expect(holding).toHaveLength(TURNS - 1)
    const carried = executions
      .slice(1)
      .map(([started]) => started?.workflowExecutionStartedEventAttributes?.input?.payloads?.[0]?.data?.length ?? 0)
    expect(Math.max(...carried)).toBeLessThan(256 * 1024)
  })

  it('a long session adds as many bytes of history per turn at the end as at the beginning', () => {
    const [first = [], last = []] = [executions[0], executions.at(-1)]
    const bytesPerTurn = (events: Execution): number => {
      const turns = events.filter(
        ({ activityTaskScheduledEventAttributes: scheduled }) => scheduled?.activityType?.name === 'callModel',
      ).length
      const bytes = events.slice(1).reduce((sum, event) => sum + textIn(event).length, 0)
      return bytes / turns
    }
    expect(bytesPerTurn(last) / bytesPerTurn(first)).toBeLessThan(1.05)
  })
})

describe('an idle session', () => {
  it('an idle session also continues as new under any number of signals that are not messages', async () => {
    const here = await deploy({ history: { events: DUE } })
    try {
      const player = stage()
      await here.startWorker({ agents: [player.agent] })
      const { session, id, requests } = player.play(here.pawl, {})
      await (await session.send('one')).result({ timeout: 20_000 })
      const handle = here.temporal.workflow.getHandle(`pawl:${id}`)
      for (let sent = 0; sent < FLOOD; sent += 50) await Promise.all(Array.from({ length: 50 }, () => handle.signal('nonsense', 1)))
      await until('it has continued', async () => (await executionsOf(here, id)).length > 1)
      await (await session.send('two')).result({ timeout: 20_000 })
      expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two'])
      expect(ofType(await eventsOf(session), 'message_rejected')).toHaveLength(FLOOD)
    } finally {
      await here.stop()
    }
  })

  it('a message that is sent as soon as the run before it has ended makes no workflow task fail when the session continues as new', async () => {
    const here = await deploy({ history: { events: 100 } })
    try {
      const player = stage()
      await here.startWorker({ agents: [player.agent] })
      const { session, id } = player.play(here.pawl, {})
      for (let n = 0; n < CHATS; n++) await (await session.send(`m${n}`)).result({ timeout: 60_000 })
      const executions = await executionsOf(here, id)
      expect(executions.length).toBeGreaterThan(CHATS / 20)
      // A command that would end an execution is refused if a message has arrived meanwhile, and the whole history is replayed.
      expect(executions.flat().filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([])
    } finally {
      await here.stop()
    }
  })

  it('another worker can fork an idle session that has made no event since it continued as new', async () => {
    const here = await deploy({ history: { events: 100 } })
    try {
      const player = stage()
      const worker = await here.startWorker({ agents: [player.agent] })
      const { session, id } = player.play(here.pawl, {})
      await (await session.send('one')).result({ timeout: 20_000 })
      const handle = here.temporal.workflow.getHandle(`pawl:${id}`)
      // An interrupt of an idle session only adds an event to its history.
      for (let sent = 0; sent < 150; sent += 50) await Promise.all(Array.from({ length: 50 }, () => handle.signal('interrupt')))
      await until('it has continued', async () => (await executionsOf(here, id)).length > 1)
      await worker.stop()
      await here.startWorker({ agents: [player.agent] })
      const copy = player.play(here.pawl, {}, { id: (await session.fork()).id })
      await (await copy.session.send('two')).result({ timeout: 20_000 })
      expect(saidIn(copy.requests.at(-1)!)).toEqual(['one', 'two'])
    } finally {
      await here.stop()
    }
  })
})
