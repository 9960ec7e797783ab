// Hooks: where they run, what their answers change, and what is recorded of them.
import { type Agent, type AgentOptions, defineHook, type HookContext, type HookEvent, type ModelRequest } from 'pawl'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { inOrder, type Played, type Scene, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

type Answering = (input: never, ctx: HookContext) => unknown

/** What the hooks of one session answer, by their names. */
type Answers = Readonly<Record<string, Answering>>

let here: Deployment
const answering = new Map<string, Answers>()
const seen = new Map<string, [hook: string, input: unknown][]>()

/** A hook that answers what the test of its session says. */
function hook(on: HookEvent, name: string, more: object = {}) {
  return defineHook({
    on,
    name,
    ...more,
    run: (input: unknown, ctx: HookContext) => {
      const inputs = seen.get(ctx.sessionId) ?? []
      seen.set(ctx.sessionId, [...inputs, [ctx.hook, input]])
      return answering.get(ctx.sessionId)?.[ctx.hook]?.(input as never, ctx) as undefined
    },
  } as never)
}

const hooks = [
  hook('agentStart', 'start'),
  hook('turnStart', 'turn'),
  hook('turnStart', 'turn2'),
  hook('turnEnd', 'end'),
  hook('preToolUse', 'pre', { timeout: 300 }),
  hook('preToolUse', 'pre2'),
  hook('preToolUse', 'lax', { tools: ['pay'], onError: 'skip' }),
  hook('postToolUse', 'post', { tools: /^(look|put|pay)$/ }),
  hook('postToolUseFailure', 'failure'),
  hook('agentStop', 'stop'),
] satisfies AgentOptions['hooks']
const hooked = stage({ hooks, limits: { maxTurns: 4 } } as Partial<AgentOptions>)

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [hooked.agent as Agent] })
})
afterAll(() => here?.stop())

function open(answers: Answers, scene: Scene): Played {
  const played = hooked.play(here.pawl, scene)
  answering.set(played.id, answers)
  return played
}

async function play(answers: Answers, scene: Scene) {
  const played = open(answers, scene)
  const { text } = await (await played.session.send('go')).result({ timeout: 30_000 })
  return { ...played, text, events: await eventsOf(played.session) }
}

const inputsOf = ({ id }: Pick<Played, 'id'>) => seen.get(id) ?? []
const names = (played: Pick<Played, 'id'>) => inputsOf(played).map(([name]) => name)

/** The texts of a request's last message. */
function lastTexts({ messages }: ModelRequest): string[] {
  const { content } = messages.at(-1) ?? { content: '' }
  return typeof content === 'string' ? [content] : content.flatMap((block) => (block.type === 'text' ? [block.text] : []))
}

describe.concurrent('hooks', () => {
  it('run at their places, with what they are about, and are recorded whether they answer or not', async () => {
    const played = await play(
      {},
      { model: inOrder([use('look', 'a'), use('put', 'b', 1)], 'done'), put: () => Promise.reject(new Error('broken')) },
    )
    const args = { what: 'a' }
    const [look, put] = ['t_1_1_0', 't_1_1_1']
    expect(inputsOf(played)).toEqual([
      ['start', { task: 'go' }],
      ['turn', { turn: 1 }],
      ['turn2', { turn: 1 }],
      ['pre', { tool: 'look', args, callId: look }],
      ['pre2', { tool: 'look', args, callId: look }],
      ['pre', { tool: 'put', args: { what: 'b', n: 1 }, callId: put }],
      ['pre2', { tool: 'put', args: { what: 'b', n: 1 }, callId: put }],
      ['post', { tool: 'look', args, callId: look, result: 'look done' }],
      ['failure', { tool: 'put', args: { what: 'b', n: 1 }, callId: put, error: { code: 'tool_failed', message: 'broken' } }],
      ['end', { turn: 1 }],
      ['turn', { turn: 2 }],
      ['turn2', { turn: 2 }],
      ['end', { turn: 2 }],
      ['stop', { result: { text: 'done', content: [{ type: 'text', text: 'done' }], stopReason: 'end_turn' } }],
    ])
    const recorded = ofType(played.events, 'hook_answered')
    expect(recorded.map(({ hook: name, turn }) => [name, turn])).toEqual([
      ...['start', 'turn', 'turn2', 'pre', 'pre2', 'pre', 'pre2', 'post', 'failure', 'end'].map((name) => [name, 1]),
      ...['turn', 'turn2', 'end', 'stop'].map((name) => [name, 2]),
    ])
    expect(recorded.every(({ answer, error }) => answer === undefined && error === undefined)).toBe(true)
  })

  it('add context that stays, and system messages that only the next call has, at its end', async () => {
    const played = await play(
      {
        start: () => ({ appendContext: 'the customer is Ann' }),
        turn: ({ turn }: { turn: number }) => (turn === 1 ? { systemMessage: 'be brief' } : undefined),
        post: () => ({ appendContext: 'it was looked at' }),
      },
      { model: inOrder([use('look', 'a')], 'done') },
    )
    const [first, second] = played.requests
    const from = '[From the system, not from the user]\n'
    expect(first?.messages).toEqual([
      { role: 'user', content: 'go' },
      {
        role: 'user',
        content: [
          { type: 'text', text: `${from}the customer is Ann` },
          { type: 'text', text: `${from}be brief` },
        ],
      },
    ])
    expect(second?.messages.map(({ role }) => role)).toEqual(['user', 'user', 'assistant', 'user', 'user'])
    expect(second?.messages[1]).toEqual({ role: 'user', content: `${from}the customer is Ann` })
    expect(second && lastTexts(second)).toEqual([`${from}it was looked at`])
    await (await played.session.send('again')).result({ timeout: 30_000 })
    expect(JSON.stringify(played.requests[2]?.messages)).toContain('it was looked at')
    expect(JSON.stringify(played.requests[2]?.messages).split('be brief')).toHaveLength(2)
  })

  it('stop the run before the model is called, and outrank what others answer', async () => {
    const played = open({ turn: () => ({ systemMessage: 'go on' }), turn2: () => ({ stop: 'out of hours' }) }, {})
    const run = await played.session.send('go')
    await expect(run.result({ timeout: 30_000 })).rejects.toMatchObject({ name: 'RunInterrupted', reason: 'out of hours' })
    expect(played.requests).toEqual([])
    const events = await eventsOf(played.session)
    expect(ofType(events, 'run_interrupted')).toMatchObject([{ by: 'hook turn2' }])
    expect(ofType(events, 'hook_answered').map(({ hook: name, answer, overruled }) => [name, answer, overruled])).toEqual([
      ['start', undefined, undefined],
      ['turn', { systemMessage: 'go on' }, true],
      ['turn2', { stop: 'out of hours' }, undefined],
    ])
  })

  it('deny calls: the model is told why, and nothing is executed', async () => {
    const played = await play(
      { pre: ({ args }: { args: object }) => ({ modify: { ...args, n: 1 } }), pre2: () => ({ deny: 'not on Sundays' }) },
      { model: inOrder([use('pay', 'a', 5)], 'done') },
    )
    expect(played.count('pay')).toBe(0)
    const denial = 'This call was not allowed and was not executed. Reason: not on Sundays'
    expect(ofType(played.events, 'tool_failed')).toMatchObject([{ callId: 't_1_1_0', code: 'denied', message: denial }])
    expect(inputsOf(played)).toContainEqual([
      'failure',
      { tool: 'pay', args: { what: 'a', n: 5 }, callId: 't_1_1_0', error: { code: 'denied', message: denial } },
    ])
    await until('it is in the ledger', async () => (await here.pawl.toolCalls({ session: played.id })).items[0]?.status === 'denied')
  })

  it('change arguments: those are executed, keyed and stored, beside the model’s own', async () => {
    const played = await play(
      { pre: ({ args }: { args: object }) => ({ modify: { ...args, n: 1 } }), pre2: () => ({ modify: { what: 'other' } }) },
      { model: inOrder([use('put', 'a', 5)], [use('put', 'a', 1)], 'done') },
    )
    expect(played.entries).toMatchObject([{ tool: 'put', input: { what: 'a', n: 1 } }])
    // The second request is for what the first one did: its effect is not repeated.
    expect(ofType(played.events, 'tool_completed').map(({ replayOf }) => replayOf)).toEqual([undefined, 't_1_1_0'])
    const [changed] = ofType(played.events, 'hook_answered').filter(({ hook: name }) => name === 'pre')
    expect(changed).toMatchObject({ args: { what: 'a', n: 5 }, answer: { modify: { what: 'a', n: 1 } }, callId: 't_1_1_0' })
    expect(inputsOf(played).filter(([name]) => name === 'post')[0]).toMatchObject(['post', { args: { what: 'a', n: 1 } }])
    const stored = await until('it is in the ledger', async () => {
      const { items } = await here.pawl.toolCalls({ session: played.id })
      return items.length === 2 && items.find(({ callId }) => callId === 't_1_1_0')
    })
    expect(stored).toMatchObject({ input: { what: 'a', n: 1 }, modelInput: { what: 'a', n: 5 } })
  })

  it('that fail are recorded and skipped; of a call with an effect, a person is asked', async () => {
    const played = open(
      {
        turn: () => Promise.reject(Object.assign(new Error('no network'), { code: 'ENET' })),
        end: () => ({ deny: 'me' }),
        pre: (_input, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
        lax: () => Promise.reject(new Error('not so important')),
      },
      { model: inOrder([use('look', 'a'), use('pay', 'b')], 'done') },
    )
    const run = await played.session.send('go')
    const settled = await run.settled({ timeout: 30_000 })
    const reason = 'The hook "pre" failed: It took longer than its timeout of 300 ms.'
    expect(settled).toMatchObject({ status: 'waiting', pending: [{ callId: 't_1_1_1', tool: 'pay', reason }] })
    const { digest = '' } = (await played.session.state()).current?.calls[1]?.asked ?? {}
    await played.session.approve('t_1_1_1', { digest, by: 'ann' })
    expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'done' })
    expect(played.count('pay')).toBe(1)
    const failures = ofType(await eventsOf(played.session), 'hook_answered').flatMap(({ hook: name, turn, error }) =>
      error ? [[name, turn, error.code]] : [],
    )
    expect(failures).toEqual([
      ['turn', 1, 'ENET'],
      ['pre', 1, 'timeout'],
      ['pre', 1, 'timeout'],
      ['lax', 1, undefined],
      ['end', 1, 'invalid_answer'],
      ['turn', 2, 'ENET'],
      ['end', 2, 'invalid_answer'],
    ])
  })

  it('have their say in arguments that a person gives: what they refuse or change is asked again', async () => {
    const ask = Promise.reject(new Error('ask a person'))
    ask.catch(() => undefined)
    const played = open(
      {
        pre: ({ args }: { args: { n?: number } }) => {
          if (args.n === undefined) return ask
          if (args.n > 100) return { deny: 'too much' }
          return args.n > 10 ? { modify: { ...args, n: 10 } } : undefined
        },
      },
      { model: inOrder([use('pay', 'a')], 'done') },
    )
    const run = await played.session.send('go')
    await run.settled({ timeout: 30_000 })
    const asked = async () => (await played.session.state()).current?.calls[0]
    const digestNow = async (): Promise<string> => (await asked())?.asked?.digest ?? expect.fail('it does not wait')
    const approve = async (n: number) =>
      played.session.approve('t_1_1_0', { digest: await digestNow(), input: { what: 'a', n }, by: 'ann' })
    const before = await digestNow()
    await expect(approve(101)).rejects.toMatchObject({ code: 'denied_by_hook', message: expect.stringContaining('too much') as string })
    expect(await digestNow()).toBe(before)
    await expect(approve(50)).rejects.toMatchObject({ code: 'changed_by_hook' })
    const again = await until('approval is requested again', async () => (await digestNow()) !== before && asked())
    expect(again).toMatchObject({ status: 'awaiting_approval', input: { what: 'a', n: 10 } })
    await approve(7)
    expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'done' })
    expect(played.entries).toMatchObject([{ tool: 'pay', input: { what: 'a', n: 7 } }])
    const stored = await until('it is in the ledger', async () => {
      const [call] = (await here.pawl.toolCalls({ session: played.id })).items
      return call?.status === 'completed' && call
    })
    expect(stored).toMatchObject({ input: { what: 'a', n: 7 }, modelInput: { what: 'a' } })
  })

  it('continue a run after its final answer, up to its limit of turns', async () => {
    const played = await play({ stop: () => ({ appendContext: 'check it again' }) }, { model: ({ turn }) => `answer ${turn}` })
    expect(played.text).toBe('answer 4')
    expect(played.requests.map(({ messages }) => messages.length)).toEqual([1, 3, 5, 7])
    expect(ofType(played.events, 'run_completed')).toMatchObject([{ turns: 4 }])
    expect(names(played).filter((name) => name === 'end')).toHaveLength(4)
  })

  it('run once for a model call that is repeated', async () => {
    let calls = 0
    const played = await play(
      { turn: () => ({ appendContext: 'once' }) },
      {
        model: () => {
          calls += 1
          if (calls === 1) throw new Error('overloaded')
          return 'done'
        },
      },
    )
    expect(names(played)).toEqual(['start', 'turn', 'turn2', 'end', 'stop'])
    expect(ofType(played.events, 'model_attempt_failed')).toHaveLength(1)
    expect(played.requests.map(({ messages }) => messages.length)).toEqual([2, 2])
  })

  it('that are due when a run is interrupted run in the end, before the next run', async () => {
    const door = gate()
    const played = open(
      { post: () => ({ appendContext: 'it was looked at' }) },
      { model: inOrder([use('look', 'a'), use('put', 'b')], 'done'), put: (_input, { signal }) => door.pass(signal) },
    )
    const run = await played.session.send('go')
    await door.reached
    await played.session.interrupt()
    await expect(run.result({ timeout: 30_000 })).rejects.toMatchObject({ name: 'RunInterrupted' })
    expect(await (await played.session.send('and now?')).result({ timeout: 30_000 })).toMatchObject({ text: 'done' })
    const events = await eventsOf(played.session)
    const order = events.flatMap((event) =>
      event.type === 'hook_answered' ? [event.hook] : /^(run_|hooks)/.test(event.type) ? [event.type] : [],
    )
    const ended = order.slice(order.indexOf('run_interrupted'), order.lastIndexOf('run_started'))
    expect(ended).toEqual(['run_interrupted', 'post', 'failure', 'end', 'hooks_ended'])
    expect(JSON.stringify(played.requests.at(-1)?.messages)).toContain('it was looked at')
    expect((await played.session.state()).hooksDue).toBeUndefined()
  })
})
