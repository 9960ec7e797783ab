// Agents with `output`: what ends their runs, what goes back to the model, and where the output is found.
import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { toStandardJsonSchema } from '@valibot/to-json-schema'
import { type } from 'arktype'
import { type AssistantBlock, defineAgent, defineHook, type Hook, type HookInputs, type JsonObject, type ModelRequest } from 'pawl'
import type { SettledRun } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import pg from 'pg'
import * as v from 'valibot'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, inOrder, type Played, resultsIn, type Scene, stage, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { type Ended, runPawl } from './cli/processes.ts'

const schema = `output_${randomUUID().replaceAll('-', '').slice(0, 16)}`

/** What the schema makes of it differs from what the model submits: a default, a transform, a date. */
const REFUND = z.object({
  order: z.string().regex(/^A\d+$/, 'an order is an A and digits'),
  cents: z.number().int(),
  currency: z.string().default('EUR'),
  day: z.iso
    .date()
    .transform((text) => new Date(text))
    .optional(),
})
const player = stage({ name: 'refunder', output: REFUND })

const stops = new Map<string, HookInputs['agentStop'][]>()
const seen: { sessionId: string; tool: string; result: unknown }[] = []
const hooked = stage({
  name: 'hooked',
  output: REFUND,
  limits: { maxTurns: 6 },
  hooks: [
    defineHook({
      on: 'agentStop',
      run(input, ctx) {
        const before = stops.get(ctx.sessionId) ?? []
        stops.set(ctx.sessionId, [...before, input])
        return ctx.metadata.checkTwice && before.length === 0 ? { appendContext: 'Look at the amount again.' } : undefined
      },
    }),
    defineHook({
      on: 'preToolUse',
      tools: 'submit_output',
      run({ args }, ctx) {
        if (ctx.metadata.deny && ctx.turn === 1) return { deny: 'not yet' }
        return ctx.metadata.halve ? { modify: { ...args, cents: Number(args.cents) / 2 } } : undefined
      },
    }),
    defineHook({
      on: 'postToolUse',
      run({ tool, result }, ctx) {
        seen.push({ sessionId: ctx.sessionId, tool, result })
      },
    }),
  ] as Hook[],
})

const byValibot = stage({ name: 'by_valibot', output: toStandardJsonSchema(v.object({ n: v.pipe(v.number(), v.maxValue(9)) })) })
const byArktype = stage({ name: 'by_arktype', output: type({ n: 'number <= 9' }) })
const asynchronous = stage({
  name: 'asynchronous',
  output: z.object({
    n: z.number().refine(async (n) => {
      await Promise.resolve()
      if (n === 13) throw new Error('the check broke')
      return n < 9
    }, 'too many'),
  }),
})
const stages = [player, hooked, byValibot, byArktype, asynchronous]

let here: Deployment
let database: pg.Client
beforeAll(async () => {
  here = await deploy({ schema })
  await here.startWorker({ agents: stages.map(({ agent }) => agent) })
  database = new pg.Client(inject('stack').databaseUrl)
  await database.connect()
})
afterAll(async () => {
  await here?.stop()
  await database?.query(`drop schema if exists ${schema} cascade`)
  await database?.end()
})

const GOOD = { order: 'A7', cents: 500 }
const BAD = { order: 'seven', cents: 500 }
const OUTPUT = { ...GOOD, currency: 'EUR' }

const submit = (input: unknown): AssistantBlock[] => [
  { type: 'tool_use', id: 'toolu_o', name: 'submit_output', input: input as JsonObject },
]

/** A model that returns these answers one after another, however often it is asked. */
const says = (...answers: readonly ScriptedAnswer[]): Scene => ({ model: inOrder(...answers) })

async function settle({ session }: Played, text = 'Refund order A7.', metadata: JsonObject = {}): Promise<SettledRun> {
  return (await session.send(text, { metadata })).settled({ timeout: 30_000 })
}

/** What the model was told last, whether as the result of a call or as text. */
function lastContentOf(request: ModelRequest | undefined): string {
  return JSON.stringify(request?.messages.at(-1)?.content)
}

/** Expects that every call in a request has its result in the message after it, as the API demands. */
function expectValid({ messages }: ModelRequest): void {
  for (const [index, { role, content }] of messages.entries()) {
    if (role !== 'assistant' || typeof content === 'string') continue
    const asked = content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : []))
    const next = messages[index + 1]?.content ?? []
    const given = typeof next === 'string' ? [] : next.flatMap((block) => (block.type === 'tool_result' ? [block.tool_use_id] : []))
    expect(given).toEqual(asked)
  }
}

describe.concurrent('an output that matches', () => {
  it('an output that matches ends the run in the form that the schema makes of the model’s answer', async () => {
    const played = player.play(here.pawl, says(submit({ ...GOOD, day: '2026-11-23' })))
    const result = await (await played.session.send('Refund order A7.')).result({ timeout: 30_000 })
    expect(result).toMatchObject({ run: 1, text: '', output: { ...OUTPUT, day: '2026-11-23T00:00:00.000Z' } })
    expect(played.requests).toHaveLength(1)
    expect(played.requests[0]?.tools.at(-1)).toMatchObject({ name: 'submit_output', input_schema: { required: ['order', 'cents'] } })
  })

  it('an output that matches appears in the transcript of the next run as a call with a result', async () => {
    const played = player.play(here.pawl, says(submit(GOOD), submit({ ...GOOD, cents: 7 })))
    await settle(played)
    expect(await settle(played, 'And seven cents.')).toMatchObject({ status: 'completed', run: 2, output: { cents: 7 } })
    const [, second] = played.requests
    expectValid(second!)
    expect(resultsIn(second!)).toEqual([{ id: 't_1_1_0', content: 'The output was accepted.', isError: false }])
    expect(second?.messages.at(-1)).toEqual({ role: 'user', content: 'And seven cents.' })
  })

  it('an output that matches may come after other calls, and after text', async () => {
    const played = player.play(here.pawl, { ...says([use('look', 'A7')], [{ type: 'text', text: 'Done.' }, ...submit(GOOD)]) })
    expect(await settle(played)).toMatchObject({ status: 'completed', text: 'Done.', output: OUTPUT })
  })

  it.each([
    ['Valibot', byValibot],
    ['ArkType', byArktype],
  ])('an output that matches may be checked by %s', async (_, by) => {
    const played = by.play(here.pawl, says(submit({ n: 10 }), submit({ n: 9 })))
    expect(await settle(played)).toMatchObject({ status: 'completed', output: { n: 9 } })
    expect(lastContentOf(played.requests[1])).toMatch(/→ at n/)
  })
})

describe.concurrent('an answer that is not a valid output', () => {
  it('an answer that is not a valid output is returned to the model with every issue, and the next answer may be valid', async () => {
    const played = player.play(here.pawl, says(submit({ order: 'seven' }), submit(GOOD)))
    expect(await settle(played)).toMatchObject({ status: 'completed', output: OUTPUT })
    const [, second] = played.requests
    expectValid(second!)
    const [told] = resultsIn(second!)
    expect(told).toMatchObject({
      isError: true,
      content: expect.stringMatching(/does not match its schema.*A and digits.*at order.*at cents/s),
    })
  })

  it('an answer that is not a valid output may be text without the call: the model is told to make the call', async () => {
    const played = player.play(here.pawl, says('I refunded order A7.', submit(GOOD)))
    expect(await settle(played)).toMatchObject({ status: 'completed', output: OUTPUT })
    expect(lastContentOf(played.requests[1])).toMatch(/From the system.*call submit_output/)
  })

  it('an answer that is not a valid output may be one that was cut off: the model is told to be shorter', async () => {
    const cut = { content: submit(GOOD), stopReason: 'max_tokens' as const }
    const text = { content: [{ type: 'text' as const, text: 'I' }], stopReason: 'max_tokens' as const }
    const played = player.play(here.pawl, says(cut, text, submit(GOOD)))
    expect(await settle(played)).toMatchObject({ status: 'completed', output: OUTPUT })
    for (const request of played.requests.slice(1)) expect(lastContentOf(request)).toContain('cut off')
  })

  it('calls that accompany an invalid output are made, and the model has their results before it tries again', async () => {
    const played = player.play(here.pawl, says([use('put', 'money'), ...submit(GOOD)], submit(GOOD)))
    expect(await settle(played)).toMatchObject({ status: 'completed', output: OUTPUT })
    expect(played.count('put')).toBe(1)
    expect(resultsIn(played.requests[1]!)).toMatchObject([
      { isError: false },
      { isError: true, content: expect.stringContaining('only call') },
    ])
  })

  it('an answer that is not a valid output may be one of more than 250,000 bytes', async () => {
    const played = player.play(here.pawl, says(submit({ ...GOOD, currency: 'x'.repeat(260_000) }), submit(GOOD)))
    expect(await settle(played)).toMatchObject({ status: 'completed', output: OUTPUT })
    expect(lastContentOf(played.requests[1])).toContain('the limit is 250,000')
  })

  it('an answer that is not a valid output is also found by asynchronous checks, and by checks that throw', async () => {
    const played = asynchronous.play(here.pawl, says(submit({ n: 9 }), submit({ n: 13 }), submit({ n: 8 })))
    expect(await settle(played)).toMatchObject({ status: 'completed', output: { n: 8 } })
    expect(played.requests.slice(1).map(lastContentOf)).toEqual([
      expect.stringContaining('too many'),
      expect.stringContaining('the check broke'),
    ])
  })
})

describe.concurrent('a run whose answers go back to the model', () => {
  const FOUR = [submit(BAD), 'done', submit(BAD), submit(BAD)] as const

  it('a run fails with invalid_output at the fourth invalid output, and reports the last problem', async () => {
    const played = player.play(here.pawl, says(...FOUR, submit(GOOD)))
    expect(await settle(played)).toMatchObject({
      status: 'failed',
      code: 'invalid_output',
      reason: expect.stringMatching(/4 answers.*A and digits/s),
      strategy: 'continue_run',
    })
    expect(played.requests).toHaveLength(4)
    const { error } = await played.session.state()
    expect(error).toMatchObject({ options: ['continue_run', 'selective', 'restart_run', 'abandon', 'manual'] })
    expect(error).not.toHaveProperty('nextAttemptAt')
  })

  it('a run that failed with invalid_output can be continued, and the model gets three more attempts', async () => {
    const played = player.play(here.pawl, says(...FOUR, submit(BAD), submit(BAD), submit(BAD), submit(GOOD)))
    const run = await played.session.send('Refund order A7.')
    expect(await run.settled({ timeout: 30_000 })).toMatchObject({ status: 'failed', code: 'invalid_output' })
    await played.session.recover({ by: 'ann' })
    expect(await until('the run is over', async () => (await played.session.state()).status === 'idle')).toBe(true)
    expect(await run.settled({ timeout: 30_000 })).toMatchObject({ status: 'completed', run: 1, output: OUTPUT })
    expect(played.requests).toHaveLength(8)
    for (const request of played.requests) expectValid(request)
  })

  it('the message after a run with invalid outputs gets a run of its own, with a valid transcript', async () => {
    const played = player.play(here.pawl, says(...FOUR, submit(GOOD)))
    await settle(played)
    expect(await settle(played, 'Try A7.')).toMatchObject({ status: 'completed', run: 2, output: OUTPUT })
    expectValid(played.requests.at(-1)!)
    expect(answersIn(played.requests.at(-1)!)).toBe(4)
  })

  it('a run that requires an output fails at once if the model refuses to answer', async () => {
    const refused = { content: [], stopReason: 'refusal' as const }
    const played = player.play(here.pawl, says(refused))
    expect(await settle(played)).toMatchObject({ status: 'failed', code: 'invalid_output', reason: expect.stringContaining('refused') })
    expect(played.requests).toHaveLength(1)
  })
})

describe.concurrent('hooks', () => {
  it('hooks of agentStop get the output, and those of the call run once the run has ended', async () => {
    const played = hooked.play(here.pawl, says(submit(GOOD)))
    expect(await settle(played)).toMatchObject({ status: 'completed', output: OUTPUT })
    expect(stops.get(played.id)).toMatchObject([{ result: { output: OUTPUT, stopReason: 'tool_use' } }])
    await until('the hooks of the call have run', () => seen.some(({ sessionId }) => sessionId === played.id))
    expect(seen.filter(({ sessionId }) => sessionId === played.id)).toEqual([
      { sessionId: played.id, tool: 'submit_output', result: OUTPUT },
    ])
  })

  it('hooks of agentStop can make the run continue, and then the next output counts', async () => {
    const played = hooked.play(here.pawl, says(submit(GOOD), submit({ ...GOOD, cents: 400 })))
    expect(await settle(played, 'Refund.', { checkTwice: true })).toMatchObject({ status: 'completed', output: { cents: 400 } })
    expect(lastContentOf(played.requests[1])).toContain('Look at the amount again.')
    expectValid(played.requests[1]!)
  })

  it('hooks may change the output before it is checked, or refuse it', async () => {
    const halved = hooked.play(here.pawl, says(submit(GOOD)))
    expect(await settle(halved, 'Refund.', { halve: true })).toMatchObject({ status: 'completed', output: { cents: 250 } })
    const denied = hooked.play(here.pawl, says(submit(GOOD), submit(GOOD)))
    expect(await settle(denied, 'Refund.', { deny: true })).toMatchObject({ status: 'completed', output: OUTPUT })
    expect(lastContentOf(denied.requests[1])).toContain('not yet')
  })
})

describe.concurrent('the output of a run', () => {
  it('the output of a run is a row in the view `outputs`, and is shown by `pawl show`', async () => {
    const played = player.play(here.pawl, says(submit(BAD), submit(GOOD), 'no', 'no', 'no', 'no', submit({ ...GOOD, cents: 9 })))
    for (const text of ['one', 'two', 'three']) await settle(played, text)
    const { length } = await eventsOf(played.session)
    await until('all is stored', async () => (await here.pawl.sessions.get(played.id)).flushedSeq >= length)
    const { rows } = await database.query(
      `select run, turn, call_id, agent, output from ${schema}.outputs where session_id = $1 order by run`,
      [played.id],
    )
    expect(rows).toEqual([
      { run: 1, turn: 2, call_id: 't_1_2_0', agent: 'refunder', output: OUTPUT },
      { run: 3, turn: 1, call_id: 't_3_1_0', agent: 'refunder', output: { ...OUTPUT, cents: 9 } },
    ])
    const show = (...more: string[]): Promise<Ended> =>
      runPawl(['show', played.id, '--schema', schema, ...more], {
        cwd: tmpdir(),
        env: { DATABASE_URL: inject('stack').databaseUrl },
      })
    const shown = await show()
    expect(shown.stdout).toContain('of run 3: {"cents":9,"order":"A7","currency":"EUR"}')
    expect(JSON.parse((await show('--json')).stdout)).toMatchObject({ output: { run: 3, value: { cents: 9 } } })
  })

  it('the output of a run is recorded by reference: run_completed names the call', async () => {
    const played = player.play(here.pawl, says(submit(GOOD)))
    await settle(played)
    const events = await eventsOf(played.session)
    expect(ofType(events, 'run_completed')).toMatchObject([{ outputCall: 't_1_1_0' }])
    expect(ofType(events, 'tool_completed')).toMatchObject([{ callId: 't_1_1_0', value: OUTPUT, attempt: 0 }])
  })
})

it('an agent whose output has no JSON form is refused when it is declared', () => {
  const declare = (output: z.ZodType | ReturnType<typeof v.object>) => () =>
    defineAgent({ name: 'a', instructions: '', model: scripted(() => 'hi'), output })
  expect(declare(v.object({ n: v.number() }))).toThrow(/The output of agent "a".*wrap it in toStandardJsonSchema/)
  expect(declare(z.string())).toThrow(expect.objectContaining({ code: 'no_json_schema' }))
  expect(declare(z.object({ at: z.date() }))).toThrow(expect.objectContaining({ code: 'no_json_schema' }))
})
