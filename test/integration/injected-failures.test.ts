// External failures that outlast the retries: many sessions at once get through them without a person.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { ModelError, ToolError } from 'pawl'
import { startStack } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connectRetail, type RetailClient, RetailError } from '../retail/client.ts'
import { resultHash } from '../retail/database.ts'
import { carryOutTasks } from '../retail/drive.ts'
import { startRetail } from '../retail/process.ts'
import { hasWorkload, readExpected, readTasks, readToolSpecs } from '../retail/workload.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { ofType } from '../support/events.ts'
import { outage } from '../support/outage.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn, inOrder, resultsIn, type Scene, type Stage, stage, use } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { gate, until } from '../support/until.ts'

const SESSIONS = size(8, 20)
/** Ten minutes at full size. */
const AWAY_MS = size(4_000, 600_000)
/** The default policy at full size; otherwise the same with shorter waits. */
const RECOVERY = { baseDelay: Math.ceil((5_000 * AWAY_MS) / 600_000), maxDelay: AWAY_MS }
/** Five minutes at full size. */
const BACKEND_DOWN_MS = size(1_500, 300_000)

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage({ limits: { maxTurns: 1_000 }, retry: { maxRetries: 1, baseDelay: 10 }, recovery: RECOVERY })
  await here.startWorker({ agents: [player.agent] })
})
afterAll(() => here?.stop())

/** Plays the scene in all sessions at once, and returns how they ended. */
async function playAll(sceneOf: () => Scene) {
  const plays = Array.from({ length: SESSIONS }, () => player.play(here.pawl, sceneOf()))
  const runs = await Promise.all(plays.map(({ session }) => session.send('pay it')))
  const ended = await Promise.all(runs.map((run) => run.settled({ timeout: AWAY_MS * 3 + 30_000 })))
  return plays.map(({ session, count }, index) => ({ session, count, end: ended[index] }))
}

describe('every run ends by itself, and every effect happens once,', () => {
  it(
    'every run ends by itself when the provider is overloaded for ten minutes in the middle of the runs',
    async () => {
      const script = inOrder([use('look', 'around')], [use('pay', 'it')], [use('look', 'again')], 'paid')
      let since: number | undefined
      const played = await playAll(() => {
        let answered = 0
        return {
          model(request) {
            // Overloaded for all of them from the moment when the first one has paid.
            if (answered >= 2) since ??= Date.now()
            if (since !== undefined && Date.now() - since < AWAY_MS)
              throw new ModelError('overloaded_error', 'overloaded', { retryable: true })
            answered += 1
            return script(request)
          },
        }
      })
      for (const { end, count, session } of played) {
        expect(end).toMatchObject({ status: 'completed', text: 'paid' })
        expect(count('pay')).toBe(1)
        expect((await session.state()).status).toBe('idle')
      }
      expect(since).toBeDefined()
    },
    AWAY_MS * 3 + 60_000,
  )

  it(
    'every effect happens once when the backend of a tool is down: the model is told about failed calls and repeats them',
    async () => {
      const since = Date.now()
      const played = await playAll(() => {
        let done = 0
        return {
          async put() {
            await sleep(BACKEND_DOWN_MS / 100)
            if (Date.now() - since < BACKEND_DOWN_MS) throw new ToolError('the backend is down', { code: 'backend_down' })
            done += 1
            return `done ${done}`
          },
          model(request) {
            const result = resultsIn(request).at(-1)
            if (result && !result.isError) return `the answer is: ${String(result.content)}`
            return [use('put', 'it', answersIn(request))]
          },
        }
      })
      for (const { end } of played) expect(end).toMatchObject({ status: 'completed', text: 'the answer is: done 1' })
    },
    BACKEND_DOWN_MS + 60_000,
  )

  it('every run ends by itself when Temporal and Postgres crash while sessions are in error, and again during the recovery', async () => {
    const stack = await startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] })
    const own = await deploy({ stack })
    try {
      const actor = stage({ name: 'player', retry: { maxRetries: 0 }, recovery: { baseDelay: '3s', maxDelay: '3s' } })
      await own.startWorker({ agents: [actor.agent] })
      const crash = async (): Promise<void> => {
        await Promise.all([stack.temporal.stop('crash'), stack.postgres.stop('crash')])
        await Promise.all([stack.temporal.start(), stack.postgres.start()])
      }
      let isBack = false
      const door = gate()
      const plays = Array.from({ length: 5 }, () =>
        actor.play(own.pawl, {
          async model(request, { signal }) {
            if (answersIn(request) === 0) return [use('pay', 'it')]
            if (!isBack) throw new ModelError('overloaded_error', 'overloaded', { retryable: true })
            await door.pass(signal)
            return 'paid'
          },
        }),
      )
      const runs = await Promise.all(plays.map(({ session }) => session.send('pay it')))
      for (const { session } of plays) await until('it is in error', async () => (await session.state()).status === 'error')
      const messages = await Promise.all(plays.map(({ session }) => session.send('and thank you', { messageId: 'thanks' })))
      await crash()
      isBack = true
      await door.reached
      await crash()
      door.open()
      for (const run of [...runs, ...messages]) expect(await run.result({ timeout: 90_000 })).toMatchObject({ text: 'paid' })
      for (const { id, session, count } of plays) {
        expect(count('pay')).toBe(1)
        expect(await session.status()).toMatchObject({ status: 'idle', error: null })
        const { events, rows } = await rowsMatchEvents(stack, id)
        // No message was lost. The one that was sent during the error takes part in the run, or gets its own if a recovery had just begun.
        expect([[1], [1, 2]]).toContainEqual(ofType(events, 'run_completed').map(({ run }) => run))
        expect(ofType(events, 'turn_started').flatMap(({ takes }) => takes)).toHaveLength(2)
        expect(rows.recoveries.length).toBeGreaterThan(0)
        expect(rows.recoveries.filter(({ outcome }) => outcome === 'completed')).toHaveLength(1)
        expect(rows.recoveries.every(({ strategy, outcome }) => strategy === 'continue_run' && outcome !== null)).toBe(true)
      }
    } finally {
      await own.stop()
      await stack.stop()
    }
  }, 180_000)
})

describe.skipIf(!hasWorkload)('the retail workload', () => {
  it(
    'the retail workload executes every write once while the provider is overloaded and the backend is down',
    async () => {
      const shop = await startRetail({})
      const own = await deploy()
      try {
        const { answer, retailWith } = await import('../retail/agent.ts')
        const tasks = readTasks()
          .sort((one, other) => other.actions.length - one.actions.length)
          .slice(0, size(3, 8))
        const [isOverloaded, isDown] = [outage(20, Math.min(AWAY_MS, 60_000)), outage(30, 1_000)]
        const client = connectRetail(shop.url)
        const flaky: RetailClient = {
          ...client,
          async execute(world, tool, args, options) {
            if (isDown()) throw new RetailError(503, 'down')
            return client.execute(world, tool, args, options)
          },
        }
        const agent = retailWith({
          retry: { maxRetries: 1, baseDelay: 10 },
          recovery: RECOVERY,
          answer(request) {
            if (isOverloaded()) throw new ModelError('overloaded_error', 'overloaded', { retryable: true })
            return answer(request)
          },
        })
        await own.startWorker({ agents: [agent], services: () => ({ retail: flaky }) })
        const outcomes = await carryOutTasks(tasks, tasks.length, ({ id }) =>
          own.pawl.session(`retail-${randomUUID()}`, { agent: 'retail', context: { world: id } }),
        )
        const writers = new Set(readToolSpecs().flatMap((spec) => (spec.effect === 'write' ? [spec.name] : [])))
        for (const { task, results, answer: said } of outcomes) {
          const should = readExpected().get(task.id) ?? expect.fail(task.id)
          const { finalHash, executions } = await client.report(task.id)
          expect({ said, finalHash, results: results.map(resultHash) }, task.id).toEqual({
            said: `Done: ${task.outputs.join(', ')}`,
            finalHash: should.final_hash,
            results: should.results_canonical,
          })
          const writes = (names: readonly string[]): string[] => names.filter((name) => writers.has(name))
          expect(writes(executions.map(({ tool }) => tool))).toEqual(writes(task.actions.map(({ name }) => name)))
        }
      } finally {
        await own.stop()
        await shop.stop()
      }
    },
    AWAY_MS * 3 + 120_000,
  )
})
