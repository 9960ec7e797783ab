// Budgets of a tree of agents: what is granted, reserved, reported and raised.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { codeOf } from '../support/codes.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { startSlowProxy } from '../support/slow-proxy.ts'
import { ask, passOn, resultsIn, treeStage } from '../support/tree.ts'
import { gate, until } from '../support/until.ts'
import { workflowIdOf } from '../../src/session/protocol/protocol.ts'

let here: Deployment
/** A call costs 0.01 USD: 100 output tokens at 100 USD a million. */
const MODEL = { maxTokens: 100, price: { input: 0, output: 100 } }
const USAGE = { input_tokens: 0, output_tokens: 100, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
const CALL_USD = 0.01
const tree = treeStage({ boss: { limits: { maxUsd: 0.1 } }, model: MODEL })
const lavish = treeStage({ helper: { limits: { maxUsd: 0.025 } }, below: { background: true }, model: MODEL })
const spending = treeStage({ boss: { limits: { maxUsd: 0.025 } }, call: { background: true }, model: MODEL })
const capped = treeStage({ boss: { limits: { maxUsd: 0.1 } }, model: MODEL, call: { budget: { maxUsd: 0.02 } } })

const paid = (text: string) => ({ content: [{ type: 'text' as const, text }], usage: USAGE })
const asking = (...asks: Parameters<typeof passOn>) => {
  const script = passOn(...asks)
  return async (request: Parameters<typeof script>[0]) => {
    const answer = await script(request)
    return typeof answer === 'string' ? paid(answer) : { content: answer as never, usage: USAGE }
  }
}

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: tree.agents })
})
afterAll(() => here?.stop())

const TIMEOUT = { timeout: 30_000 }

it('the calls of a turn share what is left, and what they spend counts in their parent', async () => {
  const { session } = tree.play(here.pawl, {
    boss: asking(ask('helper', 'a'), ask('helper', 'b'), ask('helper', 'c')),
    helper: () => paid('ok'),
  })
  const run = await session.send('go')
  expect((await run.result(TIMEOUT)).text).toBe('got: ok | ok | ok')
  const events = await eventsOf(session)
  // 0.09 USD are left after the boss's first call.
  expect(ofType(events, 'answer_requested').map(({ child }) => child?.budget)).toEqual(Array(3).fill({ maxUsd: 0.03 }))
  expect(ofType(events, 'spent')).toHaveLength(3)
  expect(ofType(events, 'spent')[0]).toMatchObject({ usd: CALL_USD, tokens: 100, note: 'agent helper' })
  expect((await session.state()).spend).toMatchObject({ usd: 5 * CALL_USD, tokens: 500 })
})

it('a child without budget waits; raising the root’s limit passes the new amount down, and all of it stays within the limit', async () => {
  const { session, sessionsOf, count } = tree.play(here.pawl, {
    boss: asking(ask('helper', 'a'), ask('helper', 'b')),
    helper: asking(ask('clerk', 'x'), ask('clerk', 'y')),
    clerk: ({ messages }) =>
      resultsIn(messages).length < 3
        ? { content: [{ type: 'tool_use', id: `u${resultsIn(messages).length}`, name: 'pay', input: { what: 'small' } }], usage: USAGE }
        : paid('done'),
  })
  const run = await session.send('go')
  await until('every clerk is out of budget', async () => {
    const clerks = sessionsOf('clerk')
    const states = await Promise.all(clerks.map((id) => here.pawl.session(id).state()))
    return states.length === 4 && states.every(({ error }) => error?.code === 'budget_exhausted')
  })
  const before = count('clerk')
  const [clerk = ''] = sessionsOf('clerk')
  expect((await here.pawl.session(clerk).state()).error?.reason).toMatch(/Raise the budget of the session that called it/)
  expect(await codeOf(here.pawl.session(clerk).raise({ maxUsd: 1, scope: 'session' }))).toBe('granted_limit')
  const budgets = await here.pawl.session(clerk).budgets()
  expect(JSON.stringify(budgets)).toContain('0.0175')
  await session.raise({ maxUsd: 1, by: 'ann' })
  expect((await run.result(TIMEOUT)).text).toBe('got: got: done | done | got: done | done')
  expect(count('clerk')).toBeGreaterThan(before)
  const { spend } = await session.state()
  const calls = count('boss') + count('helper') + count('clerk')
  expect(spend?.usd).toBeCloseTo(calls * CALL_USD, 9)
  expect(spend?.usd).toBeLessThanOrEqual(1)
})

it('the tool’s own budget limits a child, but never above what the parent has left', async () => {
  const worker = await deploy()
  await worker.startWorker({ agents: capped.agents })
  try {
    const { session } = capped.play(worker.pawl, {
      boss: asking(...Array.from({ length: 6 }, (_, n) => ask('helper', `${n}`))),
      helper: () => paid('ok'),
    })
    const run = await session.send('go')
    await until('it waits or is done', async () => ofType(await eventsOf(session), 'answer_requested').length === 6)
    const granted = ofType(await eventsOf(session), 'answer_requested').map(({ child }) => child?.budget?.maxUsd ?? Number.NaN)
    expect(granted).toEqual([0.02, 0.02, 0.02, 0.02, 0.01, 0])
    await session.raise({ maxUsd: 1 })
    expect((await run.result(TIMEOUT)).text).toBe(`got: ${Array(6).fill('ok').join(' | ')}`)
  } finally {
    await worker.stop()
  }
})

it('a stop that begins an execution of a child without budget stops the agents that work for it in the background', async () => {
  const worker = await deploy()
  await worker.startWorker({ agents: lavish.agents })
  const open = gate()
  try {
    const played = lavish.play(worker.pawl, {
      boss: asking(ask('helper', 'a')),
      helper: asking(ask('clerk', 'b')),
      clerk: () => open.pass().then(() => paid('too late')),
    })
    const { session, sessionsOf } = played
    const run = await session.send('go')
    await open.reached
    const [helper = '', clerk = ''] = [...sessionsOf('helper'), ...sessionsOf('clerk')]
    await until('it is out of budget', async () => (await worker.pawl.session(helper).state()).error?.code === 'budget_exhausted')
    await worker.temporal.workflow.getHandle(workflowIdOf(helper)).terminate()
    await session.interrupt({ by: 'ann' })
    expect((await run.settled(TIMEOUT)).status).toBe('interrupted')
    await until('the clerk has stopped', async () => ofType(await eventsOf(worker.pawl.session(clerk)), 'run_interrupted').length === 1)
    expect(ofType(await eventsOf(worker.pawl.session(helper)), 'recovery_started').map(({ by }) => by)).toEqual(['agent:boss'])
  } finally {
    open.open()
    await worker.stop()
  }
})

it('a run that is abandoned while its session continues as new stops the agents that work for it in the background', async () => {
  const postgres = await startSlowProxy(inject('stack').databaseUrl)
  const worker = await deploy({ history: { events: 120 } })
  await worker.startWorker({ agents: spending.agents, postgres: postgres.url })
  const open = gate()
  try {
    const { id, session, sessionsOf } = spending.play(worker.pawl, {
      boss: asking(ask('helper', 'a')),
      helper: () => open.pass().then(() => paid('too late')),
    })
    await session.send('go')
    await open.reached
    await until('it is out of budget', async () => (await session.state()).error?.code === 'budget_exhausted')
    const workflow = worker.temporal.workflow.getHandle(workflowIdOf(id))
    while ((await workflow.describe()).historyLength < 105) await workflow.signal('interrupt', {})
    postgres.delayMs = 700
    // From here on, something is always still to be stored. The session rests for a second before it continues as new.
    const isAboutToContinue = async (): Promise<boolean> => {
      const { events = [] } = await workflow.fetchHistory()
      return (events ?? []).some(({ markerRecordedEventAttributes: marker }) => JSON.stringify(marker ?? '').includes('core_patch'))
    }
    for (let asked = 0; asked < 10 && !(await isAboutToContinue()); asked++) await session.checkpoint('again')
    await sleep(1_200)
    await session.recover({ strategy: 'abandon' })
    postgres.delayMs = 0
    const helper = worker.pawl.session(sessionsOf('helper')[0] ?? '')
    await until('the helper has stopped', async () => ofType(await eventsOf(helper), 'run_interrupted').length === 1)
  } finally {
    open.open()
    await worker.stop()
    await postgres.close()
  }
})

it('what a child spends after its parent was interrupted counts for the parent’s session, once', async () => {
  let release = (): void => undefined
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const { session, sessionsOf } = tree.play(
    here.pawl,
    {
      boss: asking(ask('helper', 'slow')),
      helper: async () => {
        await held
        return paid('late')
      },
    },
    { id: `late-${randomUUID()}` },
  )
  const run = await session.send('go')
  const child = await until('the helper is asked', () => sessionsOf('helper')[0])
  const steered = await here.pawl.session(child).send('and then?')
  await session.interrupt({ by: 'ann' })
  expect((await run.settled(TIMEOUT)).status).toBe('interrupted')
  release()
  await steered.settled(TIMEOUT)
  const { spend } = await until('the child has reported', async () => {
    const state = await session.state()
    return (state.spend?.usd ?? 0) > CALL_USD && state
  })
  const childSpend = (await here.pawl.session(child).state()).spend?.usd ?? 0
  expect(spend?.usd).toBeCloseTo(CALL_USD + childSpend, 9)
})
