// Sessions of thousands of turns, and turns of hundreds of calls: the model sees the same, and each thing is done once, as in a short one.
import { createHash } from 'node:crypto'
import { type Agent, defineAgent, defineTool, type Message, type ModelRequest } from 'pawl'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { size } from '../support/sizes.ts'
import { answersIn, resultsIn, type Stage, stage, use } from '../support/scenes.ts'

/** In the soak, 5,000 turns in total; `PAWL_TURNS=5000` makes them all in one session. */
const TURNS = Number(process.env.PAWL_TURNS ?? size(50, 1_500))
const BESIDE = { sessions: size(1, Math.max(0, Math.ceil((5_000 - TURNS) / 500))), turns: size(30, 500) }
/** A message is sent at these turns, under an id that is sent again many turns later. */
const MESSAGE_EVERY = size(10, 100)
const REPEATED_AFTER = size(20, 400)

/** Events of history at which sessions continue as new. */
const DUE = size(150, 1_000)

const READS = size(40, 200)
const READING_TURNS = 3

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const said = (content: string): Message => ({ role: 'user', content })

/** One long session: its script, and its outcome. */
interface LongSession {
  id: string
  turns: number
  /** What was put, in order. */
  put: number[]
  /** Requests that did not match the script byte for byte. */
  wrong: string[]
  /** The thing that a turn puts; the last turn puts the first one's again. */
  thingOf(turn: number): number
  hasMessageAt(turn: number): boolean
  check(request: ModelRequest): void
}

/** What its model should see is derived from the script alone, as the session grows. */
function longSession(id: string, turns: number): LongSession {
  let expected = JSON.stringify(said('start'))
  let upTo = 1
  let first: string | undefined
  const wrong: string[] = []
  const thingOf = (turn: number): number => (turn === turns ? 1 : turn)
  const hasMessageAt = (turn: number): boolean => turn % MESSAGE_EVERY === 0 && turn < turns

  function addedBy(turn: number): Message[] {
    const callId = `t_1_${turn}_0`
    const content = turn === turns ? '[idempotent replay of t_1_1_0]\nput 1' : `put ${turn}`
    return [
      { role: 'assistant', content: [{ type: 'tool_use', id: callId, name: 'put', input: { thing: thingOf(turn) } }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: callId, content }] },
      ...(hasMessageAt(turn) ? [said(`m${turn}`)] : []),
    ]
  }

  return {
    id,
    turns,
    put: [],
    wrong,
    thingOf,
    hasMessageAt,
    check({ messages, ...rest }) {
      const { turn } = rest
      for (; upTo < turn; upTo++) for (const message of addedBy(upTo)) expected += `,${JSON.stringify(message)}`
      const shown = JSON.stringify(messages)
      if (sha256(shown) !== sha256(`[${expected}]`)) wrong.push(`turn ${turn} ends with ${shown.slice(-500)}`)
      const around = JSON.stringify({ ...rest, turn: 0 })
      first ??= around
      if (around !== first) wrong.push(`turn ${turn}: ${around}`)
    },
  }
}

describe(`${TURNS} turns in one run, and ${BESIDE.sessions} sessions of ${BESIDE.turns} beside it`, () => {
  let here: Deployment
  const long = [
    longSession('long', TURNS),
    ...Array.from({ length: BESIDE.sessions }, (_, at) => longSession(`beside-${at}`, BESIDE.turns)),
  ]
  const byId = new Map(long.map((one) => [one.id, one]))
  const find = (id: string): LongSession => byId.get(id) ?? expect.fail(`no session ${id}`)

  beforeAll(async () => {
    here = await deploy({ history: { events: DUE } })
    await here.startWorker({ agents: [agent()] })
  })
  afterAll(() => here?.stop())

  function agent(): Agent {
    const put = defineTool({
      name: 'put',
      description: 'Puts a thing.',
      input: z.object({ thing: z.number() }),
      effect: 'idempotent',
      execute({ thing }, { sessionId }) {
        find(sessionId).put.push(thing)
        return `put ${thing}`
      },
    })
    return defineAgent({
      name: 'long',
      instructions: 'Go on.',
      limits: { maxTurns: TURNS + 1 },
      model: scripted(async (request) => {
        const one = find(request.sessionId)
        const { turn } = request
        one.check(request)
        if (turn > one.turns) return 'done'
        await sendMessages(one, turn)
        return [{ type: 'tool_use', id: 'toolu_put', name: 'put', input: { thing: one.thingOf(turn) } }]
      }),
      tools: [put],
    }) as Agent
  }

  /** Sends a message, and again one from long before and the very first one: their ids are known, whichever execution saw them. */
  async function sendMessages(one: LongSession, turn: number): Promise<void> {
    if (!one.hasMessageAt(turn)) return
    const session = here.pawl.session(one.id, { agent: 'long' })
    await session.send(`m${turn}`, { messageId: `m${turn}` })
    if (turn > REPEATED_AFTER) await session.send(`m${turn - REPEATED_AFTER}`, { messageId: `m${turn - REPEATED_AFTER}` })
    await session.send('start', { messageId: 'start' })
  }

  it('in a long run, the model sees at every turn what it would see in one execution, and each effect happens once', {
    timeout: 1_500_000,
  }, async () => {
    const began = performance.now()
    await Promise.all(
      long.map(async ({ id }) => {
        const run = await here.pawl.session(id, { agent: 'long' }).send('start', { messageId: 'start' })
        expect(await run.result({ timeout: 1_400_000 })).toMatchObject({ run: 1, text: 'done' })
      }),
    )
    const turns = long.reduce((sum, one) => sum + one.turns, 0)
    console.log(`${turns} turns: ${((performance.now() - began) / turns).toFixed(1)} ms a turn`)

    for (const { id, turns: own, wrong, put } of long) {
      expect(wrong.slice(0, 3), id).toEqual([])
      expect(put, id).toEqual(Array.from({ length: own - 1 }, (_, index) => index + 1))
      const session = here.pawl.session(id)
      // Known since the first execution, and sent again after the run.
      expect(await (await session.send('start', { messageId: 'start' })).result({ timeout: 60_000 })).toMatchObject({ run: 1 })
      const { rows } = await rowsMatchEvents(here.stack, id, { after: (await session.state()).seq - 50 })
      expect(rows.tool_calls).toHaveLength(own)
      expect(rows.tool_calls.filter(({ status }) => status === 'replayed')).toMatchObject([{ replay_of: 't_1_1_0' }])
      expect(rows.messages.filter(({ kind }) => kind === 'user')).toHaveLength(Math.ceil(own / MESSAGE_EVERY))
    }
  })
})

describe(`${READS} reads in each turn`, () => {
  let here: Deployment
  let player: Stage

  beforeAll(async () => {
    here = await deploy({ history: { events: DUE } })
    player = stage()
    await here.startWorker({ agents: [player.agent] })
  })
  afterAll(() => here?.stop())

  it('reads of a turn run side by side up to a limit, are answered in order, and the run continues as new', async () => {
    let inProgress = 0
    let highest = 0
    const { session, id, requests, count } = player.play(here.pawl, {
      model(request) {
        const turn = answersIn(request)
        return turn < READING_TURNS ? Array.from({ length: READS }, (_, n) => use('look', `${turn}`, n)) : 'done'
      },
      async look({ what, n }) {
        inProgress += 1
        highest = Math.max(highest, inProgress)
        await new Promise((resolve) => setTimeout(resolve, 1 + ((n ?? 0) % 7)))
        inProgress -= 1
        return `${what}.${n}`
      },
    })
    const run = await session.send('read')
    expect(await run.result({ timeout: 110_000 })).toMatchObject({ text: 'done' })
    expect(count('look')).toBe(READS * READING_TURNS)
    expect(highest).toBeGreaterThan(1)
    expect(highest).toBeLessThanOrEqual(20)
    for (const [turn, request] of requests.slice(1).entries()) {
      expect(resultsIn(request)).toEqual(
        Array.from({ length: READS }, (_, n) => ({ id: `t_1_${turn + 1}_${n}`, content: `${turn}.${n}`, isError: false })),
      )
    }
    const { events, rows } = await rowsMatchEvents(here.stack, id)
    expect(ofType(events, 'tool_completed')).toHaveLength(READS * READING_TURNS)
    expect(rows.tool_calls).toHaveLength(READS * READING_TURNS)
    const { raw, runId } = await here.temporal.workflow.getHandle(`pawl:${id}`).describe()
    expect(raw.workflowExecutionInfo?.firstRunId).not.toBe(runId)
  })
})
