// Tool calls, by effect: what is retried and with which key, what is verified, and what is never repeated.
import { ToolError } from 'pawl'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { inOrder, type Played, resultsIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
  await here.startWorker({ agents: [player.agent] })
})
afterAll(() => here?.stop())

async function answered({ session }: Played, say = 'go'): Promise<string> {
  return (await (await session.send(say)).result({ timeout: 30_000 })).text
}

/** The results that the model received with its `n`th request, counted from 0. */
const told = ({ requests }: Played, n: number) => resultsIn(requests[n]!).map(({ content, isError }) => [content, isError])

describe('a call that cannot run', () => {
  it('a call that cannot run because its tool does not exist is answered with the tools that do', async () => {
    const played = player.play(here.pawl, { model: inOrder([use('fly', 'away')], 'sorry') })
    expect(await answered(played)).toBe('sorry')
    const [[content, isError]] = told(played, 1) as [[string, boolean]]
    expect(isError).toBe(true)
    expect(content).toContain('fly')
    expect(content).toContain('look, put, wire, pay')
    expect(played.entries).toEqual([])
  })

  const odd = [{}, { what: 7 }, { what: null }, 'not json at all', [], null, 17]
  it('a call that cannot run because of its arguments is answered with what is wrong with them', async () => {
    const played = player.play(here.pawl, {
      model: inOrder(
        odd.map((input) => ({ ...use('put', 'x'), input })),
        'sorry',
      ),
    })
    expect(await answered(played)).toBe('sorry')
    expect(told(played, 1).map(([, isError]) => isError)).toEqual(odd.map(() => true))
    expect(String(told(played, 1)[0]![0])).toContain('what')
    expect(ofType(await eventsOf(played.session), 'tool_failed').map(({ code }) => code)).toEqual(odd.map(() => 'invalid_arguments'))
    expect(played.entries).toEqual([])
  })
})

describe.concurrent('a body that throws', () => {
  const thrown: [string, unknown, { retried: boolean; code: string; says: string }][] = [
    ['an Error', new Error('it broke'), { retried: true, code: 'tool_failed', says: 'it broke' }],
    ['a ToolError', new ToolError('out of stock', { code: 'stock' }), { retried: true, code: 'stock', says: 'out of stock' }],
    [
      'a ToolError that is not retryable',
      new ToolError('never', { retryable: false }),
      { retried: false, code: 'tool_error', says: 'never' },
    ],
    ['a string', 'just text', { retried: true, code: 'tool_failed', says: 'just text' }],
    ['undefined', undefined, { retried: true, code: 'tool_failed', says: 'undefined' }],
    ['an object', { status: 500 }, { retried: true, code: 'tool_failed', says: 'object' }],
  ]

  for (const [what, error, { retried, code, says }] of thrown) {
    it(`${what} is ${retried ? 'retried, then' : 'not retried, and'} becomes an error result for the model`, async () => {
      const played = player.play(here.pawl, {
        model: inOrder([use('look', 'at it')], 'sorry'),
        look() {
          throw error
        },
      })
      expect(await answered(played)).toBe('sorry')
      const attempts = retried ? [1, 2, 3] : [1]
      expect(played.entries.map(({ attempt }) => attempt)).toEqual(attempts)
      const [[content, isError]] = told(played, 1) as [[string, boolean]]
      expect(isError).toBe(true)
      expect(content).toContain(says)
      const events = await eventsOf(played.session)
      expect(ofType(events, 'tool_attempt_failed').map((event) => event.error.attempt)).toEqual(attempts)
      expect(ofType(events, 'tool_failed')).toMatchObject([{ code, attempt: attempts.length }])
    })
  }

  it('an idempotent body that throws is retried with the same key, and the last attempt provides its result', async () => {
    const played = player.play(here.pawl, {
      model: inOrder([use('put', 'a thing')], 'done'),
      put(_input, { attempt }) {
        if (attempt < 3) throw new Error('not yet')
        return 'there'
      },
    })
    await answered(played)
    const keys = played.entries.map(({ key }) => key)
    expect(keys).toHaveLength(3)
    expect(new Set(keys).size).toBe(1)
    expect(keys[0]).toMatch(/^[0-9a-f]{64}$/)
    expect(told(played, 1)).toEqual([['there', false]])
  })

  it.each<[string, unknown]>([
    ['endless', Number.POSITIVE_INFINITY],
    ['not a number', Number.NaN],
    ['a text', 'soon'],
  ])('a body that throws and asks for a wait that is %s is retried after an ordinary one', async (_, retryAfterMs) => {
    const played = player.play(here.pawl, {
      model: inOrder([use('look', 'at it')], 'done'),
      look(_input, { attempt }) {
        if (attempt === 1) throw Object.assign(new Error('busy'), { name: 'ToolError', retryable: true, retryAfterMs })
      },
    })
    await answered(played)
    expect(ofType(await eventsOf(played.session), 'tool_attempt_failed')[0]?.error.nextDelayMs).toBeLessThan(1_000)
  })

  it('a body that throws can say how long to wait before the next attempt', async () => {
    const at: number[] = []
    const played = player.play(here.pawl, {
      model: inOrder([use('look', 'at it')], 'done'),
      look() {
        at.push(Date.now())
        if (at.length === 1) throw new ToolError('busy', { retryAfter: 1_500 })
      },
    })
    await answered(played)
    expect(at[1]! - at[0]!).toBeGreaterThanOrEqual(1_450)
  })

  it.each([
    ['a read', () => use('look', 'at it')],
    ['an idempotent call', () => use('put', 'a thing')],
  ])('a body that throws and asks for a long wait is in the list of errors while it waits: %s', async (_, call) => {
    const busy = (): never => {
      throw new ToolError('busy', { retryAfter: '5m' })
    }
    const played = player.play(here.pawl, { model: inOrder([call()], 'done'), look: busy, put: busy })
    const run = await played.session.send('go')
    const [row] = await until('the failed attempt is stored', async () => {
      const { items } = await here.pawl.errors({ session: played.id })
      return items.length > 0 && items
    })
    expect(row).toMatchObject({ attempt: 1, message: 'busy', retryable: true, nextDelayMs: 300_000 })
    expect(await played.session.state()).toMatchObject({ status: 'running' })
    await played.session.interrupt()
    await expect(run.result({ timeout: 30_000 })).rejects.toThrow()
  })
})

describe.concurrent('an external call that throws', () => {
  const pay = [use('pay', 'the bill', 7)]
  const lostReply = (): never => {
    throw new Error('the connection was reset')
  }

  it('an external call that throws is unknown; if verify says that it happened, verify’s result is used', async () => {
    const played = player.play(here.pawl, {
      model: inOrder(pay, 'paid'),
      pay: lostReply,
      verify: () => ({ happened: true, result: { id: 'p1' } }),
    })
    expect(await answered(played)).toBe('paid')
    expect(played.entries.map(({ tool, attempt }) => [tool, attempt])).toEqual([
      ['pay', 1],
      ['verify', 1],
    ])
    expect(played.entries[1]!.key).toBe(played.entries[0]!.key)
    expect(told(played, 1)).toEqual([['{"id":"p1"}', false]])
    const events = await eventsOf(played.session)
    expect(ofType(events, 'tool_resolved')).toMatchObject([{ happened: true }])
    expect(ofType(events, 'tool_attempt_failed')).toMatchObject([{ error: { attempt: 1, message: 'the connection was reset' } }])
  })

  it('an external call that throws is executed again with the same key if verify says that it did not happen', async () => {
    let tries = 0
    const played = player.play(here.pawl, {
      model: inOrder(pay, 'paid'),
      pay: () => (++tries === 1 ? lostReply() : 'paid at last'),
      verify: () => ({ happened: false }),
    })
    expect(await answered(played)).toBe('paid')
    expect(played.entries.map(({ tool, attempt }) => [tool, attempt])).toEqual([
      ['pay', 1],
      ['verify', 1],
      ['pay', 2],
    ])
    expect(new Set(played.entries.map(({ key }) => key)).size).toBe(1)
    expect(told(played, 1)).toEqual([['paid at last', false]])
  })

  it('an external call that throws fails once its retries are used up, if verify keeps denying that it happened', async () => {
    const played = player.play(here.pawl, { model: inOrder(pay, 'gave up'), pay: lostReply, verify: () => ({ happened: false }) })
    expect(await answered(played)).toBe('gave up')
    expect(played.count('pay')).toBe(3)
    expect(told(played, 1)).toEqual([['the connection was reset', true]])
    expect(ofType(await eventsOf(played.session), 'tool_unknown')).toEqual([])
  })

  for (const [how, verify] of [
    ['cannot tell', () => ({ happened: 'unknown' as const })],
    ['throws', lostReply],
    ['answers nonsense', () => 'yes' as never],
  ] as const) {
    it(`an external call that throws is unknown to the model if verify ${how}`, async () => {
      const played = player.play(here.pawl, { model: inOrder(pay, 'who knows'), pay: lostReply, verify })
      expect(await answered(played)).toBe('who knows')
      expect(played.count('pay')).toBe(1)
      const [[content, isError]] = told(played, 1) as [[string, boolean]]
      expect([isError, content]).toEqual([true, expect.stringContaining('unknown')])
      expect(ofType(await eventsOf(played.session), 'tool_unknown')).toHaveLength(1)
    })
  }

  it('an external call that throws is unknown to the model if there is no verify', async () => {
    const played = player.play(here.pawl, { model: inOrder([use('wire', 'money')], 'who knows'), wire: lostReply })
    await answered(played)
    expect(played.count('wire')).toBe(1)
    expect(ofType(await eventsOf(played.session), 'tool_unknown')).toHaveLength(1)
  })

  it('an external call that throws is a plain error if the body says that nothing happened', async () => {
    const played = player.play(here.pawl, {
      model: inOrder([use('wire', 'money')], 'refused'),
      wire() {
        throw new ToolError('the account is locked', { code: 'locked', happened: false })
      },
    })
    await answered(played)
    expect(played.count('wire')).toBe(1)
    expect(told(played, 1)).toEqual([['the account is locked', true]])
    expect(ofType(await eventsOf(played.session), 'tool_failed')).toMatchObject([{ code: 'locked' }])
  })
})

describe('a model that repeats a call', () => {
  it('a model that repeats a call of unknown outcome causes no second execution, because verify is asked again', async () => {
    const pay = [use('pay', 'the bill', 7)]
    let asked = 0
    const played = player.play(here.pawl, {
      model: inOrder(pay, pay, pay, 'at last'),
      pay() {
        throw new Error('lost')
      },
      verify: () => (++asked < 3 ? { happened: 'unknown' } : { happened: true, result: 'paid long ago' }),
    })
    expect(await answered(played)).toBe('at last')
    expect(played.count('pay')).toBe(1)
    expect(played.count('verify')).toBe(3)
    expect(told(played, 2)[0]![1]).toBe(true)
    expect(told(played, 3)).toEqual([['[idempotent replay of t_1_1_0]\npaid long ago', false]])
  })

  it('a model that repeats a call of unknown outcome causes an execution once verify denies the first', async () => {
    const pay = [use('pay', 'the bill', 7)]
    let [asked, tries] = [0, 0]
    const played = player.play(here.pawl, {
      model: inOrder(pay, pay, 'paid'),
      pay() {
        if (++tries === 1) throw new Error('lost')
        return 'paid now'
      },
      verify: () => (++asked < 2 ? { happened: 'unknown' } : { happened: false }),
    })
    expect(await answered(played)).toBe('paid')
    expect(played.count('pay')).toBe(2)
    expect(told(played, 2)).toEqual([['paid now', false]])
  })

  it('a model that repeats a call that it was told is unknown, without a verify, is told the same again, even in a later run', async () => {
    const wire = [use('wire', 'money', 7)]
    const played = player.play(here.pawl, {
      model: inOrder(wire, wire, 'hm', wire, 'hm again'),
      wire() {
        throw new Error('lost')
      },
    })
    await answered(played)
    await answered(played, 'try again')
    expect(played.count('wire')).toBe(1)
    expect(ofType(await eventsOf(played.session), 'tool_unknown').map(({ again }) => again)).toEqual([undefined, 't_1_1_0', 't_1_1_0'])
  })

  it('a model that repeats a completed call gets the first one’s result as a replay, and nothing is executed', async () => {
    const put = [use('put', 'a thing', 1)]
    const played = player.play(here.pawl, { model: inOrder(put, put, 'done'), put: () => ({ id: 'x1' }) })
    await answered(played)
    expect(played.count('put')).toBe(1)
    expect(told(played, 1)).toEqual([['{"id":"x1"}', false]])
    expect(told(played, 2)).toEqual([['[idempotent replay of t_1_1_0]\n{"id":"x1"}', false]])
  })

  it('a call that a model repeats in a later run is executed again, because another run is another intent', async () => {
    const put = [use('put', 'a thing', 1)]
    const played = player.play(here.pawl, { model: inOrder(put, 'done', put, 'done again') })
    await answered(played)
    await answered(played, 'once more')
    expect(played.count('put')).toBe(2)
    expect(new Set(played.entries.map(({ key }) => key)).size).toBe(2)
  })

  it('a read that a model repeats is executed again, even after a write', async () => {
    let value = 1
    const played = player.play(here.pawl, {
      model: inOrder([use('look', 'at it')], [use('put', 'it', 2)], [use('look', 'at it')], 'done'),
      look: () => value,
      put(input) {
        value = input.n ?? 0
      },
    })
    await answered(played)
    expect(told(played, 1)).toEqual([['1', false]])
    expect(told(played, 3)).toEqual([['2', false]])
    expect(played.entries.filter(({ tool }) => tool === 'look').map(({ key }) => key)).toEqual(['', ''])
  })

  it('a call that a model repeats within one turn is executed once', async () => {
    const twice = (name: string) => [use(name, 'the same', 1), use(name, 'the same', 1)]
    const played = player.play(here.pawl, { model: inOrder([...twice('put'), ...twice('pay')], 'done') })
    await answered(played)
    expect([played.count('put'), played.count('pay')]).toEqual([1, 1])
    expect(told(played, 1)).toEqual([
      ['put done', false],
      ['[idempotent replay of t_1_1_0]\nput done', false],
      ['pay done', false],
      ['[idempotent replay of t_1_1_2]\npay done', false],
    ])
  })
})

describe('the calls of one turn', () => {
  it('reads of one turn run in parallel, and its other calls one after another in the model’s order', async () => {
    const together = gate()
    const order: string[] = []
    let looking = 0
    const played = player.play(here.pawl, {
      model: inOrder([use('look', 'a'), use('look', 'b'), use('put', 'c'), use('pay', 'd'), use('look', 'e')], 'done'),
      async look(input, ctx) {
        order.push(`look ${input.what}`)
        if (input.what === 'e') return
        if (++looking === 2) together.open()
        await together.pass(ctx.signal)
      },
      put: (input) => void order.push(`put ${input.what}`),
      pay: (input) => void order.push(`pay ${input.what}`),
    })
    await answered(played)
    expect(order.slice(0, 2).toSorted()).toEqual(['look a', 'look b'])
    expect(order.slice(2)).toEqual(['put c', 'pay d', 'look e'])
    expect(resultsIn(played.requests[1]!).map(({ id }) => id)).toEqual(['t_1_1_0', 't_1_1_1', 't_1_1_2', 't_1_1_3', 't_1_1_4'])
  })

  it('the calls of one turn may all have the same tool_use id, because the model sees pawl’s own ids', async () => {
    const played = player.play(here.pawl, {
      model: inOrder([use('look', 'a'), use('look', 'b')], [use('look', 'c')], 'done'),
      look: ({ what }) => what,
    })
    await answered(played)
    const ids = played.requests[2]!.messages.flatMap(({ content }) =>
      typeof content === 'string' ? [] : content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : [])),
    )
    expect(ids).toEqual(['t_1_1_0', 't_1_1_1', 't_1_2_0'])
    expect(told(played, 1)).toEqual([
      ['a', false],
      ['b', false],
    ])
  })

  it('all calls of a turn have their results shown to the model, even if there are many', async () => {
    const many = Array.from({ length: 50 }, (_, n) => use('look', `number ${n}`, n))
    const played = player.play(here.pawl, { model: inOrder(many, 'done'), look: ({ n }) => n })
    await answered(played)
    expect(told(played, 1)).toEqual(many.map((_, n) => [String(n), false]))
  })
})
