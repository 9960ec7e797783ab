// Tools that declare what they return (`output`): what happens to results that do not match, by effect.
import { randomUUID } from 'node:crypto'
import { type Agent, defineAgent, defineTool, type SessionEvent } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, resultsIn, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import type { BasicToolOptions } from '../../src/agent/tool.ts'

const RECEIPT = z.object({ id: z.string(), cents: z.number().int() })
const FITS = { id: 'r1', cents: 7 }
const ODD = { id: 'r1', cents: 'seven' }

let here: Deployment
/** What the bodies of a session return, and how often they were entered. */
const given = new Map<string, { value: unknown; entered: number }>()

const giving = (
  name: string,
  effect: 'read' | 'idempotent' | 'external',
  more: Partial<Pick<BasicToolOptions<z.ZodType, unknown>, 'onUnknown' | 'output' | 'toModel' | 'verify'>> & { execute?: () => never } = {},
) =>
  defineTool({
    name,
    description: name,
    effect,
    input: z.object({ what: z.string() }),
    output: RECEIPT,
    retry: { maxRetries: 2, baseDelay: 10 },
    execute(_input, ctx) {
      const of = given.get(ctx.sessionId) ?? expect.fail('nothing to give')
      of.entered += 1
      return of.value
    },
    ...more,
  })

const agent = defineAgent({
  name: 'fitting',
  instructions: '',
  model: scripted((request): ScriptedAnswer => {
    const [result] = resultsIn(request)
    if (answersIn(request) === 0) return [use(String(request.messages[0]?.content), 'it')]
    return JSON.stringify(result)
  }),
  tools: [
    giving('read', 'read'),
    giving('idempotent', 'idempotent'),
    giving('external', 'external', { onUnknown: 'tell_model' }),
    giving('hides', 'idempotent', { toModel: (receipt) => `receipt ${(receipt as typeof FITS).id.toUpperCase()}` }),
    giving('dated', 'read', { output: z.object({ at: z.date() }) }),
    giving('hangs', 'idempotent', { output: z.string().refine(() => new Promise<boolean>(() => undefined)) }),
    giving('changes', 'idempotent', { output: z.object({ id: z.string().toUpperCase() }) }),
    giving('verified', 'external', {
      onUnknown: 'tell_model',
      execute() {
        throw new Error('the reply was lost')
      },
      verify: (_input, ctx) => ({ happened: true, result: given.get(ctx.sessionId)?.value }),
    }),
  ],
}) as Agent

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [agent] })
})
afterAll(() => here?.stop())

interface Outcome {
  session: SessionHandle
  events: SessionEvent[]
  told: { content: string; isError: boolean }
  entered: number
}

/** Runs the tool in a session of its own, where its body returns the value. */
async function play(tool: string, value: unknown): Promise<Outcome> {
  const session = here.pawl.session(`f-${randomUUID()}`, { agent: 'fitting' })
  given.set(session.id, { value, entered: 0 })
  const { text } = await (await session.send(tool)).result({ timeout: 30_000 })
  return {
    session,
    events: await eventsOf(session),
    told: JSON.parse(text) as Outcome['told'],
    entered: given.get(session.id)?.entered ?? 0,
  }
}

describe.concurrent('a result that matches', () => {
  it.each(['read', 'idempotent', 'external'])('a result that matches is the result of a tool with effect %s', async (tool) => {
    const { told } = await play(tool, FITS)
    expect(told).toMatchObject({ isError: false, content: '{"id":"r1","cents":7}' })
  })

  it('a result that matches is checked as the tool returns it, before it becomes JSON', async () => {
    const { told } = await play('dated', { at: new Date(0) })
    expect(told).toMatchObject({ isError: false, content: '{"at":"1970-01-01T00:00:00.000Z"}' })
  })

  it('a result that matches is only checked: it is recorded as it is, not as the schema would transform it', async () => {
    const { told } = await play('changes', { id: 'r1', more: true })
    expect(told.content).toBe('{"id":"r1","more":true}')
  })
})

describe.concurrent('a result that does not match', () => {
  it('a read’s result that does not match becomes an error result without a retry; the failed attempt is recorded', async () => {
    const { told, entered, events } = await play('read', ODD)
    expect(entered).toBe(1)
    expect(told).toMatchObject({ isError: true, content: expect.stringMatching(/does not match its output schema.*cents/s) })
    expect(ofType(events, 'tool_failed')).toMatchObject([{ code: 'invalid_result', attempt: 1 }])
    expect(ofType(events, 'tool_attempt_failed')).toMatchObject([
      { error: { attempt: 1, class: 'InvalidResult', code: 'invalid_result', retryable: false } },
    ])
    expect(ofType(events, 'tool_completed')).toEqual([])
  })

  it.each(['idempotent', 'external'])(
    'a result that does not match counts as happened if the tool is %s: it is recorded, and the model is told',
    async (tool) => {
      const { told, entered, events, session } = await play(tool, ODD)
      expect(entered).toBe(1)
      expect(ofType(events, 'tool_completed')).toMatchObject([{ value: ODD }])
      expect(ofType(events, 'tool_failed')).toEqual([])
      expect(told).toMatchObject({ isError: false })
      expect(told.content).toMatch(
        /^The call completed, but its result does not match.*cents.*The result:\n\{"id":"r1","cents":"seven"\}$/s,
      )
      await until('it is stored', async () => (await here.pawl.sessions.get(session.id)).status === 'idle')
      expect(await session.toolCalls()).toMatchObject([{ status: 'completed', result: ODD }])
    },
  )

  it('a result that does not match is shown through toModel like any other', async () => {
    const { told } = await play('hides', ODD)
    expect(told.content).toMatch(/^The call completed, but.*\nThe result:\nreceipt R1$/s)
  })

  it('a result that does not match is hidden from the model if toModel fails on it', async () => {
    const { told, events } = await play('hides', { secret: 's3cret' })
    expect(told.content).toMatch(/^The call completed, but its result does not match/)
    expect(told.content).not.toContain('s3cret')
    expect(ofType(events, 'tool_completed')).toMatchObject([{ value: { secret: 's3cret' } }])
  })

  it('a mismatched result that verify found also counts as happened', async () => {
    const { told, events } = await play('verified', ODD)
    expect(ofType(events, 'tool_resolved')).toMatchObject([{ by: 'verify', happened: true }])
    expect(ofType(events, 'tool_completed')).toMatchObject([{ value: ODD }])
    expect(told).toMatchObject({
      isError: false,
      content: expect.stringMatching(/^The call completed, but its result does not match.*cents/s),
    })
  })

  it('a result that does not match or that the schema never finishes checking does not hold up its call', async () => {
    const { told, entered } = await play('hangs', 'a text')
    expect(entered).toBe(1)
    expect(told).toMatchObject({ isError: false, content: expect.stringMatching(/could not be checked.*The result:\na text$/s) })
  })
})
