// Which workers serve what: agents and tools that no worker has, that only some have, and that differ between builds.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Agent, defineAgent, defineTool, type ModelRequest, type Tool, ToolError } from 'pawl'
import type { ResultTimeoutError } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import type { WorkerTuner } from '@temporalio/worker'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type Partition, startPartition } from '../support/partition.ts'
import { answersIn, inOrder, resultsIn, stage, use } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { type Gate, gate, until } from '../support/until.ts'

const RETRY = { maxRetries: 5, baseDelay: 10 }

/** Runs `work` with a deployment of its own, which stops afterwards. */
async function deployed(work: (own: Deployment) => Promise<void>): Promise<void> {
  const own = await deploy()
  try {
    await work(own)
  } finally {
    await own.stop()
  }
}

/** The number of events in the history once it stays the same while others retry, which they do every second. */
function settledLength(own: Deployment, id: string): Promise<number> {
  const length = async (): Promise<number> => (await own.temporal.workflow.getHandle(`pawl:${id}`).describe()).historyLength
  return until('it only waits', async () => {
    const before = await length()
    await sleep(1_500)
    return before === (await length()) && before
  })
}

function build(name: string, answer: (request: ModelRequest) => ScriptedAnswer, tools: Tool[]): Agent {
  return defineAgent({ name, instructions: '', model: scripted(answer), tools, retry: RETRY }) as Agent
}

describe.concurrent('an agent that no worker serves', () => {
  it('an agent that no worker serves puts the session into error after the grace period, until a worker serves it', () =>
    deployed(async (own) => {
      const [player, other] = [stage(), stage({ name: 'other' })]
      await own.startWorker({ agents: [other.agent] })
      const { session } = player.play(own.pawl, { model: () => 'served after all' }, { notServedAfter: '300ms' })
      const run = await session.send('hello')
      const state = await until('the session is in error', async () => {
        const now = await session.state()
        return now.status === 'error' && now
      })
      expect(state.error).toMatchObject({ code: 'agent_not_served', strategy: 'automatic', reason: expect.stringContaining('player') })
      await expect(session.recover({ strategy: 'restart_run' })).rejects.toMatchObject({ code: 'recovers_by_itself' })
      await own.startWorker({ agents: [player.agent] })
      expect(await run.result({ timeout: 30_000 })).toMatchObject({ run: 1, text: 'served after all' })
      expect(await session.state()).toMatchObject({ status: 'idle', error: null })
      const events = await eventsOf(session)
      expect(ofType(events, 'model_attempt_failed')).toEqual([])
      expect(ofType(events, 'recovery_ended')).toMatchObject([{ strategy: 'automatic', run: 1 }])
    }))

  it('an agent that no worker serves is served by one whose machine is then lost: that attempt at the model call has a row', {
    timeout: 90_000,
  }, async () => {
    const partitions: Partition[] = []
    await deployed(async (own) => {
      const entered = gate()
      const lateWith = (model: Parameters<typeof scripted>[0]): Agent =>
        defineAgent({ name: 'late', instructions: '', model: scripted(model), tools: [] }) as Agent
      const partition = await startPartition(own.stack.temporalAddress)
      partitions.push(partition)
      try {
        const other = await own.startWorker({ agents: [stage({ name: 'other' }).agent] })
        const session = own.pawl.session(`late-${randomUUID()}`, { agent: 'late', notServedAfter: '300ms' })
        const run = await session.send('hello')
        await until('the session is in error', async () => (await session.state()).error?.code === 'agent_not_served')
        await other.stop()
        const holds = lateWith((_, { signal }) => entered.pass(signal).then(() => 'too late'))
        await own.startWorker({ agents: [holds], temporal: { address: partition.address }, tuner: ONE_ATTEMPT })
        await entered.reached
        await until('the server knows that the model was asked', async () => {
          const { raw } = await own.temporal.workflow.getHandle(`pawl:${session.id}`).describe()
          const [details] = raw.pendingActivities?.[0]?.heartbeatDetails?.payloads ?? []
          return Buffer.from(details?.data ?? []).includes('"begun":true')
        })
        partition.begin()
        await own.startWorker({ agents: [lateWith(() => 'served after all')] })
        expect(await run.result({ timeout: 60_000 })).toMatchObject({ run: 1, text: 'served after all' })
        const events = await eventsOf(session)
        const failed = ofType(events, 'model_attempt_failed').map(({ error }) => error)
        // The workflow was on that machine, too, so the next attempt may not be able to read the session at first.
        expect(failed[0]).toMatchObject({ attempt: 1, class: 'HeartbeatTimeout' })
        expect(ofType(events, 'model_completed')).toMatchObject([{ attempt: failed.length + 1 }])
      } finally {
        entered.open()
        partition.end()
      }
    })
    for (const partition of partitions) await partition.close()
  })

  it('a result that times out says that no worker serves the agent, and how to start one', () =>
    deployed(async (own) => {
      const [player, other] = [stage(), stage({ name: 'other' })]
      await own.startWorker({ agents: [other.agent] })
      const { session } = player.play(own.pawl, {})
      const run = await session.send('hello')
      const attempts = async (): Promise<number> => (await session.status()).waitsFor[0]?.attempt ?? 0
      await until('workers have handed the step back', async () => (await attempts()) >= 3)
      const { code, message } = (await run.result({ timeout: '4s' }).catch((error: unknown) => error)) as ResultTimeoutError
      expect(code).toBe('result_timeout')
      expect(message).toContain('Run 1 is in turn 1. The session waits for a worker on task queue')
      expect(message).toContain('does not serve the agent "player"')
      expect(message).toContain('Start one that serves the agent "player" with `pawl worker <module>`')
    }))

  it('a session whose agent no worker serves adds no history while it waits; abandoning the run leaves it idle', () =>
    deployed(async (own) => {
      const [player, other] = [stage(), stage({ name: 'other' })]
      await own.startWorker({ agents: [other.agent] })
      const { session, id } = player.play(own.pawl, {}, { notServedAfter: '200ms' })
      const run = await session.send('hello')
      await until('the session is in error', async () => (await session.state()).status === 'error')
      expect(await settledLength(own, id)).toBeLessThan(60)
      await session.recover({ strategy: 'abandon', by: 'me' })
      expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted', run: 1 })
      expect((await session.state()).status).toBe('idle')
    }))
})

describe.concurrent('a tool that no worker has any longer', () => {
  const input = z.object({ what: z.string() })
  const put = (execute: NonNullable<Tool['execute']>): Tool =>
    defineTool({ name: 'put', description: 'put', input, effect: 'idempotent', retry: RETRY, execute })
  const script = inOrder([use('put', 'it')], (request) => `told: ${String(resultsIn(request)[0]?.content)}`)

  it('a call of a tool that no worker serves is executed once one does; waiting in error adds no history', () =>
    deployed(async (own) => {
      const failing = gate()
      const name = `a-${randomUUID()}`
      const first = await own.startWorker({
        agents: [
          build(name, script, [
            put(() => {
              failing.open()
              throw new ToolError('not now', { retryAfter: 1_000 })
            }),
          ]),
        ],
      })
      const session = own.pawl.session(undefined, { agent: name, notServedAfter: '5s' })
      const run = await session.send('go')
      await failing.pass()
      await first.stop()
      const without = await own.startWorker({ agents: [build(name, script, [])] })
      // At once, and not only with the error.
      const waits = await until('the status says what it waits for', async () => {
        const { status, waitsFor } = await session.status()
        return status === 'running' && waitsFor.every((wait) => wait.for === 'worker') && waitsFor.length > 0 && waitsFor
      })
      expect(waits).toMatchObject([{ for: 'worker', callId: 't_1_1_0', tool: 'put', reason: 'a worker that has the tool "put"' }])
      await until('the session is in error', async () => (await session.state()).error?.code === 'agent_not_served')
      await settledLength(own, session.id)
      await without.stop()
      await own.startWorker({ agents: [build(name, script, [put(() => 'there')])] })
      expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'told: there' })
      expect((await session.state()).status).toBe('idle')
    }))
})

/** The waits of a session's workflow, in order: how long each is, and whether it began before the previous one ended. */
async function waitsOf(own: Deployment, id: string): Promise<{ ms: number; overlaps: boolean }[]> {
  const { events } = await own.temporal.workflow.getHandle(`pawl:${id}`).fetchHistory()
  const pending = new Set<string>()
  return (events ?? []).flatMap(({ eventId, timerStartedEventAttributes: started, timerFiredEventAttributes: fired }) => {
    if (fired) pending.delete(String(fired.startedEventId))
    const { seconds, nanos } = started?.startToFireTimeout ?? {}
    const ms = Number(seconds ?? 0) * 1_000 + Number(nanos ?? 0) / 1_000_000
    if (!started || !WAITS.includes(ms)) return []
    const overlaps = pending.size > 0
    pending.add(String(eventId))
    return [{ ms, overlaps }]
  })
}

const SESSIONS = size(20, 50)
/** The pauses before the workflow asks again. No other timer of these tests has one of these lengths. */
const WAITS = [50, 100, 200, 400, 800, 1_600, 3_200, 5_000]

it('parallel reads that no worker serves wait together, and none makes the others wait longer', () =>
  deployed(async (own) => {
    const READS = 12
    const name = `a-${randomUUID()}`
    const calls = Array.from({ length: READS }, (_, n) => use('look', `at ${n}`))
    const script = inOrder(calls, (request) =>
      resultsIn(request)
        .map(({ content }) => String(content))
        .join(),
    )
    const look = (execute: NonNullable<Tool['execute']>): Tool =>
      defineTool({ name: 'look', description: 'look', input: z.object({ what: z.string() }), effect: 'read', retry: RETRY, execute })
    let failed = 0
    const failing = look(() => {
      failed += 1
      throw new ToolError('not now', { retryAfter: 1_500 })
    })
    const first = await own.startWorker({ agents: [build(name, script, [failing])] })
    const session = own.pawl.session(undefined, { agent: name })
    const run = await session.send('go')
    await until('all have failed once', () => failed >= READS)
    await first.stop()
    const without = await own.startWorker({ agents: [build(name, script, [])] })
    await until('they have waited for a while', async () => (await waitsOf(own, session.id)).some(({ ms }) => ms >= 800), 60_000)
    await without.stop()
    await own.startWorker({ agents: [build(name, script, [look(() => 'seen')])] })
    expect(await run.result({ timeout: 60_000 })).toMatchObject({ text: Array.from({ length: READS }, () => 'seen').join() })
    const waits = await waitsOf(own, session.id)
    expect(waits.filter(({ overlaps }) => overlaps)).toEqual([])
    for (const [index, { ms }] of waits.entries())
      expect([WAITS[0], WAITS[WAITS.indexOf(waits[index - 1]?.ms ?? 0) + 1] ?? 5_000]).toContain(ms)
  }))

describe.concurrent('a tool that has become stricter since its call was resolved', () => {
  it('a call of a tool whose effect has become stricter runs with the new effect and a key, and is not repeated', () =>
    deployed(async (own) => {
      const name = `a-${randomUUID()}`
      const input = z.object({ what: z.string() })
      const failing = gate()
      const keys: string[] = []
      const script = inOrder([use('touch', 'it')], [use('touch', 'it')], 'done')
      const lax = defineTool({
        name: 'touch',
        description: 'touch',
        input,
        effect: 'read',
        execute() {
          failing.open()
          throw new ToolError('not now', { retryAfter: 1_000 })
        },
      })
      const strict = defineTool({
        name: 'touch',
        description: 'touch',
        input,
        effect: 'external',
        execute: (_input, ctx) => void keys.push(ctx.idempotencyKey),
      })
      const first = await own.startWorker({ agents: [build(name, script, [lax])] })
      const session = own.pawl.session(undefined, { agent: name })
      const run = await session.send('go')
      await failing.pass()
      await first.stop()
      await own.startWorker({ agents: [build(name, script, [strict])] })
      expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'done' })
      expect(keys).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/)])
      const events = await eventsOf(session)
      expect(ofType(events, 'tool_completed').map(({ callId, replayOf }) => [callId, replayOf])).toEqual([
        ['t_1_1_0', undefined],
        ['t_1_2_0', 't_1_1_0'],
      ])
      expect(ofType(events, 'tool_issued').map(({ callId, effect }) => [callId, effect])).toEqual([
        ['t_1_1_0', 'read'],
        ['t_1_1_0', 'external'],
        ['t_1_2_0', 'external'],
      ])
    }))

  it('a call is resolved again if its tool’s schema has changed; arguments that no longer match become an error result', () =>
    deployed(async (own) => {
      const name = `a-${randomUUID()}`
      const failing = gate()
      const script = inOrder([use('touch', 'it'), use('touch', 'that')], (request) =>
        resultsIn(request)
          .map(({ content }) => content)
          .join(' | '),
      )
      const before = defineTool({
        name: 'touch',
        description: 'touch',
        input: z.object({ what: z.string() }),
        effect: 'idempotent',
        execute() {
          failing.open()
          throw new ToolError('not now', { retryAfter: 1_000 })
        },
      })
      const after = defineTool({
        name: 'touch',
        description: 'touch',
        input: z.object({ what: z.enum(['it', 'them']), how: z.string().default('gently') }),
        effect: 'idempotent',
        execute: ({ what, how }) => `${what} ${how}`,
      })
      const first = await own.startWorker({ agents: [build(name, script, [before])] })
      const session = own.pawl.session(undefined, { agent: name })
      const run = await session.send('go')
      await failing.pass()
      await first.stop()
      await own.startWorker({ agents: [build(name, script, [after])] })
      const { text } = await run.result({ timeout: 30_000 })
      expect(text).toMatch(/^it gently \| The arguments do not match/)
    }))
})

const fixed = (numSlots: number) => ({ type: 'fixed-size', numSlots }) as const
/** With an attempt in progress, a worker polls for no other one, so that the server assigns none to it once it is cut off. */
const ONE_ATTEMPT: WorkerTuner = {
  workflowTaskSlotSupplier: fixed(10),
  activityTaskSlotSupplier: fixed(1),
  localActivityTaskSlotSupplier: fixed(1),
  nexusTaskSlotSupplier: fixed(1),
}

it(
  'an effect that completed long ago does not happen again because another build, with another key, resolves a call of it',
  { timeout: 120_000 },
  () =>
    deployed(async (own) => {
      const name = `a-${randomUUID()}`
      const looking = gate()
      const applied: string[] = []
      // The state of a session has the newest 100 keys.
      const others = Array.from({ length: 101 }, (_, n) => use('put', `other ${n}`))
      const script = (request: ModelRequest): ScriptedAnswer => {
        if (answersIn(request) === 0) return [use('put', 'it'), ...others]
        if (answersIn(request) === 1) return [use('look', 'around'), use('put', 'IT')]
        return `told: ${String(resultsIn(request).at(-1)?.content)}`
      }
      const put = (input: z.ZodType<{ what: string }>, keyOf: (what: string) => string): Tool =>
        defineTool({
          name: 'put',
          description: 'put',
          input,
          effect: 'idempotent',
          idempotency: ({ what }) => keyOf(what),
          execute: ({ what }) => void applied.push(what),
        }) as Tool
      const look = defineTool({
        name: 'look',
        description: 'look',
        input: z.object({ what: z.string() }),
        effect: 'read',
        execute: () => looking.pass(),
      })
      const without = z.object({ what: z.string() })
      const first = await own.startWorker({ agents: [build(name, script, [look, put(without, (what) => what)])] })
      const session = own.pawl.session(undefined, { agent: name })
      const run = await session.send('go')
      await looking.reached
      const stopped = first.stop()
      looking.open()
      await stopped
      const withMore = z.object({ what: z.string(), how: z.string().default('gently') })
      await own.startWorker({ agents: [build(name, script, [look, put(withMore, (what) => what.toLowerCase())])] })
      expect((await run.result({ timeout: 60_000 })).text).toContain('t_1_1_0')
      expect(applied.filter((what) => what.toLowerCase() === 'it')).toEqual(['it'])
    }),
)

describe.concurrent('a call that may have taken effect before another build resolves it again', () => {
  const without = z.object({ what: z.string() })
  const withMore = z.object({ what: z.string(), how: z.string().default('gently') })
  /** The default of another schema changes it. */
  const idempotency = (given: object): string => JSON.stringify(given)
  const about = { name: 'touch', description: 'touch', idempotency } as const
  const script = inOrder([use('touch', 'it')], (request) => `told: ${String(resultsIn(request)[0]?.content)}`)
  /** The earlier build's tool: it notes the key of each attempt, and may have taken effect when it throws. */
  const loses = (keys: string[], failing: Gate): Tool =>
    defineTool({
      ...about,
      input: without,
      effect: 'idempotent',
      execute(_input, ctx) {
        keys.push(ctx.idempotencyKey)
        failing.open()
        throw new ToolError('the answer was lost', { retryAfter: 1_000 })
      },
    })

  it('a call that may have taken effect keeps its key when another build that would choose another key resolves it again', () =>
    deployed(async (own) => {
      const name = `a-${randomUUID()}`
      const failing = gate()
      const keys: string[] = []
      const before = loses(keys, failing)
      const after = defineTool({
        ...about,
        input: withMore,
        effect: 'idempotent',
        execute({ how }, ctx) {
          keys.push(ctx.idempotencyKey)
          return how
        },
      })
      const first = await own.startWorker({ agents: [build(name, script, [before])] })
      const session = own.pawl.session(undefined, { agent: name })
      const run = await session.send('go')
      await failing.pass()
      await first.stop()
      await own.startWorker({ agents: [build(name, script, [after])] })
      expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'told: gently' })
      expect(keys).toEqual(['touch:{"what":"it"}', 'touch:{"what":"it"}'])
    }))

  it('a call that may have taken effect is verified under its key before a stricter build asks for an approval of it', () =>
    deployed(async (own) => {
      const name = `a-${randomUUID()}`
      const failing = gate()
      const applied: string[] = []
      const lax = loses(applied, failing)
      const strict = defineTool({
        ...about,
        input: withMore,
        effect: 'external',
        approval: true,
        settleAfter: 0,
        execute(_input, ctx) {
          applied.push(ctx.idempotencyKey)
          return 'done again'
        },
        verify: (_input, ctx) => (applied.includes(ctx.idempotencyKey) ? { happened: true, result: 'done once' } : { happened: false }),
      })
      const first = await own.startWorker({ agents: [build(name, script, [lax])] })
      const session = own.pawl.session(undefined, { agent: name })
      const run = await session.send('go')
      await failing.pass()
      await first.stop()
      await own.startWorker({ agents: [build(name, script, [strict])] })
      const how = await run.settled({ timeout: 30_000 })
      // Whoever approves it does not know that it has been made.
      if (how.status === 'waiting') {
        const [call] = how.pending
        await session.approve(call?.callId ?? '', { digest: call?.digest ?? '' })
      }
      expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'told: done once' })
      expect(applied).toEqual(['touch:{"what":"it"}'])
      expect(ofType(await eventsOf(session), 'approval_requested')).toEqual([])
    }))

  it('a call that may have taken effect is not reported as unexecuted if a person denies it under another build', () =>
    deployed(async (own) => {
      const name = `a-${randomUUID()}`
      const failing = gate()
      const keys: string[] = []
      const after = defineTool({ ...about, input: withMore, effect: 'idempotent', approval: true, execute: () => 'done again' })
      const first = await own.startWorker({ agents: [build(name, script, [loses(keys, failing)])] })
      const session = own.pawl.session(undefined, { agent: name })
      const run = await session.send('go')
      await failing.pass()
      await first.stop()
      await own.startWorker({ agents: [build(name, script, [after])] })
      const how = await run.settled({ timeout: 30_000 })
      const [call] = how.status === 'waiting' ? how.pending : []
      await session.deny(call?.callId ?? '', { digest: call?.digest ?? '', reason: 'too late' })
      const { text } = await run.result({ timeout: 30_000 })
      expect(text).toBe(
        'told: This call was not approved. It was not executed again, but it may have taken effect in an earlier attempt. Reason: too late',
      )
      expect(ofType(await eventsOf(session), 'tool_failed')).toMatchObject([{ code: 'denied', attempt: keys.length }])
    }))

  it('a call that may have taken effect keeps the count of its attempts when another build requires its approval', () =>
    deployed(async (own) => {
      const name = `a-${randomUUID()}`
      const failing = gate()
      const keys: string[] = []
      const attempts: number[] = []
      const after = defineTool({
        ...about,
        input: withMore,
        effect: 'idempotent',
        approval: true,
        execute(_input, ctx) {
          attempts.push(ctx.attempt)
          keys.push(ctx.idempotencyKey)
          return 'done'
        },
      })
      const first = await own.startWorker({ agents: [build(name, script, [loses(keys, failing)])] })
      const session = own.pawl.session(undefined, { agent: name })
      const run = await session.send('go')
      await failing.pass()
      await first.stop()
      await own.startWorker({ agents: [build(name, script, [after])] })
      const how = await run.settled({ timeout: 30_000 })
      const made = keys.length
      const [call] = how.status === 'waiting' ? how.pending : []
      expect(call).toMatchObject({ reason: 'An earlier attempt of this call failed, and may have taken effect.' })
      await session.approve(call?.callId ?? '', { digest: call?.digest ?? '' })
      expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'told: done' })
      expect(attempts).toEqual([made + 1])
      expect(new Set(keys).size).toBe(1)
      expect(ofType(await eventsOf(session), 'tool_attempt_failed').map(({ error }) => error.attempt)).toEqual(
        Array.from({ length: made }, (_, index) => index + 1),
      )
    }))

  it(
    'an attempt whose worker was lost counts, although the next one reaches a stricter build, which verifies it',
    { timeout: 90_000 },
    () =>
      deployed(async (own) => {
        const name = `a-${randomUUID()}`
        const entered = gate()
        const applied: string[] = []
        const partition = await startPartition(own.stack.temporalAddress)
        const lax = defineTool({
          name: 'touch',
          description: 'touch',
          input: without,
          effect: 'idempotent',
          timeout: '1s',
          execute(_input, ctx) {
            applied.push(ctx.idempotencyKey)
            partition.begin()
            entered.open()
            return new Promise(() => undefined)
          },
        })
        const strict = defineTool({
          name: 'touch',
          description: 'touch',
          input: without,
          effect: 'external',
          timeout: '1s',
          settleAfter: 0,
          execute(_input, ctx) {
            applied.push(ctx.idempotencyKey)
            return 'done again'
          },
          verify: (_input, ctx) => (applied.includes(ctx.idempotencyKey) ? { happened: true, result: 'done once' } : { happened: false }),
        })
        try {
          await own.startWorker({ agents: [build(name, script, [lax])], temporal: { address: partition.address }, tuner: ONE_ATTEMPT })
          const session = own.pawl.session(undefined, { agent: name })
          const run = await session.send('go')
          await entered.pass()
          await own.startWorker({ agents: [build(name, script, [strict])] })
          expect(await run.result({ timeout: 60_000 })).toMatchObject({ text: 'told: done once' })
          expect(applied).toHaveLength(1)
          const failed = ofType(await eventsOf(session), 'tool_attempt_failed')
          expect(failed.map(({ error }) => [error.attempt, error.class])).toEqual([[1, 'HeartbeatTimeout']])
        } finally {
          partition.end()
          await partition.close()
        }
      }),
  )
})

it('a call whose outcome is unknown is verified even by a build with another schema', () =>
  deployed(async (own) => {
    const name = `a-${randomUUID()}`
    const pay = [use('pay', 'the bill')]
    const script = inOrder(pay, 'who knows', pay, (request) => String(resultsIn(request)[0]?.content))
    const first = await own.startWorker({
      agents: [
        build(name, script, [
          defineTool({
            name: 'pay',
            description: 'pay',
            input: z.object({ what: z.string() }),
            effect: 'external',
            onUnknown: 'tell_model',
            execute() {
              throw new Error('lost')
            },
            verify: () => ({ happened: 'unknown' }),
          }),
        ]),
      ],
    })
    const session = own.pawl.session(undefined, { agent: name, notServedAfter: '1s' })
    await (await session.send('go')).result({ timeout: 20_000 })
    await first.stop()
    const paid: string[] = []
    await own.startWorker({
      agents: [
        build(name, script, [
          defineTool({
            name: 'pay',
            description: 'pay',
            input: z.object({ what: z.string(), how: z.string().optional() }),
            effect: 'external',
            execute: ({ what }) => paid.push(what),
            verify: () => ({ happened: true, result: 'paid long ago' }) as never,
          }),
        ]),
      ],
    })
    const { text } = await (await session.send('again')).result({ timeout: 20_000 })
    expect(text).toBe('[idempotent replay of t_1_1_0]\npaid long ago')
    expect(paid).toEqual([])
  }))

it(`with two builds on one queue, none of ${SESSIONS} sessions is ever in error, and each effect happens once`, () =>
  deployed(async (own) => {
    /** Calls `put`, then `stamp` if the build that asks has that tool. */
    const script = (request: ModelRequest): ScriptedAnswer => {
      const turn = answersIn(request)
      if (turn < 2) return [use('look', `at ${turn}`), use('put', `thing ${turn}`)]
      return turn === 2 && request.tools.some(({ name }) => name === 'stamp') ? [use('stamp', 'it'), use('look', 'once more')] : 'done'
    }
    const done = new Map<string, number>()
    const act = (name: string, effect: 'read' | 'external', more: z.ZodRawShape): Tool =>
      defineTool({
        name,
        description: name,
        input: z.object({ what: z.string(), ...more }),
        effect,
        execute(input, { sessionId }) {
          const deed = `${sessionId} ${name} ${String(input.what)}`
          done.set(deed, (done.get(deed) ?? 0) + 1)
          return `${name} done`
        },
      })
    const newer = { more: z.string().optional() }
    const tools = [act('look', 'read', newer), act('put', 'external', newer), act('stamp', 'external', newer)]
    const old = build('clerk', script, [act('look', 'read', {}), act('put', 'external', {})])
    const recent = build('clerk', script, tools)
    const second = build('second', script, tools)
    await Promise.all([own.startWorker({ agents: [old] }), own.startWorker({ agents: [recent, second] })])
    const sessions = Array.from({ length: SESSIONS }, (_, n) => own.pawl.session(undefined, { agent: n % 5 === 0 ? 'second' : 'clerk' }))
    const results = await Promise.all(sessions.map(async (session) => (await session.send('go')).settled({ timeout: 90_000 })))
    expect(results.filter(({ status }) => status !== 'completed')).toEqual([])
    const events = (await Promise.all(sessions.map((session) => eventsOf(session)))).flat()
    for (const type of ['error_entered', 'model_attempt_failed', 'tool_attempt_failed', 'tool_failed', 'tool_unknown'] as const) {
      expect(ofType(events, type)).toEqual([])
    }
    expect(new Set(done.values())).toEqual(new Set([1]))
    expect(done.size).toBe(ofType(events, 'tool_completed').length)
    expect(done.size).toBeGreaterThanOrEqual(SESSIONS * 4)
  }))
