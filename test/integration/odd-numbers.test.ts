// Numbers and names from a Model that cannot be stored: they are corrected before they become history, and stored anyway if they are
// already in history.
import { randomUUID } from 'node:crypto'
import { type Agent, defineAgent, type Model, type ModelResponse } from 'pawl'
import type { CreateWorkerOptions } from 'pawl/worker'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { CallModelResult } from '../../src/calls/activities.ts'
import { openStore } from '../../src/store/index.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { type OwnSchema, ownSchema } from '../support/rows.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { until } from '../support/until.ts'

const SOUND = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }

/** By name: what a Model changes in a valid answer, and whether the Model has a name. */
const ODD: Record<string, { answer: object; nameless?: true; recorded: object }> = {
  estimate: { answer: { usage: { ...SOUND, input_tokens: 1.5 } }, recorded: { input_tokens: 2, model: 'm' } },
  infinite: { answer: { usage: { ...SOUND, input_tokens: Infinity } }, recorded: { input_tokens: 0, model: 'm' } },
  negative: { answer: { usage: { ...SOUND, input_tokens: -1 } }, recorded: { input_tokens: 0, model: 'm' } },
  huge: { answer: { usage: { ...SOUND, input_tokens: 1e300 } }, recorded: { input_tokens: 0, model: 'm' } },
  numbered: { answer: { model: 5 }, recorded: { input_tokens: 1, model: 'm' } },
  nul: { answer: { model: 'a\0b' }, recorded: { input_tokens: 1, model: 'm' } },
  nameless: { answer: {}, nameless: true, recorded: { input_tokens: 1, model: 'unknown' } },
}

const agents = Object.entries(ODD).map(([name, { answer, nameless }]) => {
  const generate = () =>
    Promise.resolve({ content: [{ type: 'text', text: 'hi' }], stopReason: 'end_turn', usage: SOUND, ...answer } as ModelResponse)
  const model = (nameless ? { generate } : { name: 'm', generate }) as Model
  return defineAgent({ name, instructions: '', model }) as Agent
})

describe('a run whose model reports nonsense', () => {
  let here: Deployment
  const warned: string[] = []
  beforeAll(async () => {
    here = await deploy()
    const silent = { debug: () => undefined, info: () => undefined, error: () => undefined }
    await here.startWorker({ agents, logger: { ...silent, warn: (_about, message) => warned.push(message ?? '') } })
  })
  afterAll(() => here?.stop())

  it.each(Object.keys(ODD))(
    'a run whose model reports nonsense (%s) completes and has all of its rows, and the log says what was wrong',
    async (name) => {
      const session = here.pawl.session(`odd-${randomUUID()}`, { agent: name })
      for (const message of ['one', 'two']) {
        expect(await (await session.send(message)).result({ timeout: 30_000 })).toMatchObject({ text: 'hi' })
      }
      const { rows } = await rowsMatchEvents(here.stack, session.id)
      expect(rows.token_usage).toMatchObject([ODD[name]?.recorded, ODD[name]?.recorded])
      expect(rows.events.filter(({ adjusted }) => adjusted !== null)).toEqual([])
      if (name !== 'estimate') expect(warned.join('\n')).toMatch(/which is (impossible|not a valid name)/)
    },
  )
})

/** Makes a worker behave like one that checks nothing, such as a worker of another release. */
const UNCHECKED: CreateWorkerOptions['interceptors'] = {
  activity: [
    () => ({
      inbound: {
        async execute(input, next) {
          const result = (await next(input)) as CallModelResult | undefined
          if (result?.kind !== 'completed' || !('usage' in result)) return result
          return { ...result, usage: { ...result.usage, input_tokens: 1.5, output_tokens: -1 }, model: 5, attempt: '1' }
        },
      },
    }),
  ],
}

describe('history that already holds nonsense', () => {
  let here: Deployment
  let schema: OwnSchema
  beforeAll(async () => {
    schema = await ownSchema(inject('stack').databaseUrl, 'odd')
    here = await deploy({ schema: schema.name })
  })
  afterAll(async () => {
    await here?.stop()
    await schema?.close()
  })

  it('history that already holds nonsense is stored, and restored by a rebuild, with a note of what was adjusted', async () => {
    const [agent] = agents
    const unchecked = await here.startWorker({ agents: [agent!], interceptors: UNCHECKED })
    const session = here.pawl.session(`odd-${randomUUID()}`, { agent: 'estimate' })
    await (await session.send('one')).result({ timeout: 30_000 })
    await unchecked.stop()
    await here.startWorker({ agents: [agent!] })
    await (await session.send('two')).result({ timeout: 30_000 })
    const { seq } = await session.state()
    const stored = () => schema.query('select 1 from {schema}.sessions where flushed_seq = $1', [seq])
    await until('all is stored', async () => (await stored()).length === 1)
    expect(await schema.query('select run, model, input_tokens::int, output_tokens::int from {schema}.token_usage order by seq')).toEqual([
      { run: 1, model: '5', input_tokens: 2, output_tokens: 0 },
      { run: 2, model: 'm', input_tokens: 2, output_tokens: 1 },
    ])
    const noted = await schema.query('select run, adjusted from {schema}.events where adjusted is not null')
    expect(noted).toMatchObject([
      { run: 1, adjusted: [{ member: 'attempt' }, { member: 'model' }, { member: 'usage.input_tokens', was: '1.5', stored: '2' }, {}] },
    ])
    const before = await schema.everything()
    await schema.drop()
    const store = openStore({ postgres: here.stack.databaseUrl, schema: schema.name })
    await store.head('its tables are made')
    await store.close()
    expect(await here.pawl.rebuild({ session: session.id })).toMatchObject({ restored: 1, events: seq })
    expect(await schema.everything()).toEqual(before)
  })
})
