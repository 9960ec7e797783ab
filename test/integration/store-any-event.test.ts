// Whatever a history contains can be stored: events with wrong members, against a real Postgres.
import fc from 'fast-check'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { nextDigest } from '../../src/session/digest.ts'
import type { Usage } from '../../src/session/content.ts'
import type { EventBody, EventOf, LogEntry, SessionEvent } from '../../src/session/events.ts'
import { fold } from '../../src/session/fold/fold.ts'
import type { Store } from '../../src/store/index.ts'
import { ownDatabases } from '../support/databases.ts'
import { damaged, damages } from '../support/damage.ts'
import { eventfulSessions } from '../unit/session/sound-session.ts'
import { answered, completed, EPOCH, eventsOf, issued, logOf, oneRun, received, started } from './store/sessions.ts'
import { size } from '../support/sizes.ts'

const db = ownDatabases()
const { open, sql } = db
let store: Store
let client: pg.Client
let sessions = 0

beforeEach(async () => {
  store = open()
  // One connection for the hundreds of sessions of a test.
  client = new pg.Client(db.url)
  await client.connect()
})
afterEach(() => client.end())

/** The run that follows, which is undamaged. */
const AFTERWARDS = 1_000

/** The events as a log of one chain, with a sound run at its end. */
function logWith(events: readonly unknown[]): LogEntry[] {
  let prev = ''
  const entries = events.map((event, index) => {
    const json = JSON.stringify(event)
    const entry = { seq: index + 1, prev, digest: nextDigest(prev, json), json }
    prev = entry.digest
    return entry
  })
  return [...entries, ...logOf(oneRun(AFTERWARDS, 'afterwards'), { seq: entries.length, digest: prev })]
}

/** Flushes the log in two pieces, and expects that all of it is stored and that the sound run at its end has its rows. */
async function expectStored(log: readonly LogEntry[], cut: number): Promise<void> {
  const id = `s-${++sessions}`
  const at = cut % log.length
  await store.flush(id, EPOCH, log.slice(0, at))
  const last = log.at(-1)
  expect(await store.flush(id, EPOCH, log)).toEqual({ epoch: EPOCH, seq: last?.seq, digest: last?.digest })
  const { rows: stored } = await client.query<{ json: string; problem: boolean }>(
    `select json, jsonb_path_exists(adjusted, '$[*].problem') as problem from pawl.events where session_id = $1 order by seq`,
    [id],
  )
  expect(stored.map(({ json }) => json)).toEqual(log.map(({ json }) => json))
  const impossible = stored.filter(({ problem }) => problem)
  expect(impossible, 'events of which no rows could be made').toEqual([])
  const calls = await store.lists.toolCallsOf(id)
  expect(calls.find(({ run }) => run === AFTERWARDS)).toMatchObject({ tool: 'refund', status: 'completed', result: 'done', attempt: 1 })
  const said = (await store.messages(id)).filter(({ run }) => run === AFTERWARDS)
  expect(said.map(({ messageId }) => messageId)).toEqual(['afterwards', 'm_1000_1', 'r_1000_1', 'm_1000_2'])
  const { rows: usage } = await client.query(
    'select turn, input_tokens::int from pawl.token_usage where session_id = $1 and run = $2 order by seq',
    [id, AFTERWARDS],
  )
  expect(usage).toEqual([1, 2].map((turn) => ({ turn, input_tokens: 10 })))
  expect(await store.lists.session(id)).toMatchObject({ flushedSeq: last?.seq, run: AFTERWARDS })
}

describe('any event of any session', () => {
  it('every event is stored, no matter what one of its members contains, and so are the events after it', async () => {
    await fc.assert(
      fc.asyncProperty(eventfulSessions, damages, fc.nat(), async ({ events }, damage, cut) => {
        await expectStored(logWith(damaged(events, damage)), cut)
      }),
      { numRuns: size(50, 200), endOnFailure: true },
    )
  })

  it('any event of any session is stored when many of its members are wrong at once', async () => {
    await fc.assert(
      fc.asyncProperty(eventfulSessions, fc.array(damages, { minLength: 5, maxLength: 40 }), fc.nat(), async ({ events }, all, cut) => {
        const wrong = all.reduce<readonly SessionEvent[]>((sofar, damage) => damaged(sofar, damage), events)
        await expectStored(logWith(wrong), cut)
      }),
      { numRuns: size(30, 100), endOnFailure: true },
    )
  })
})

/** A run whose model reports values that no model should. */
const oddRun = (model: Partial<EventOf<'model_completed'>>): EventBody[] => [
  started(),
  received('u1'),
  { type: 'run_started', run: 1, messageId: 'u1' },
  { type: 'turn_started', run: 1, turn: 1, takes: ['u1'] },
  { ...answered(1, 1, [{ order: 7 }]), ...model } as EventBody,
  issued(1, 1, 0),
  completed(1, 1, 0),
  { type: 'checkpoint_made', version: 1, run: 1, turn: 1, reasons: ['turn'] },
]
const ESTIMATES = { input_tokens: 1.5, output_tokens: -3, cache_creation_input_tokens: 1e300, cache_read_input_tokens: null }

describe('a value that a column cannot hold', () => {
  it('a value that a column cannot hold is stored as the nearest value that fits, and the event says so', async () => {
    const warnings: unknown[] = []
    const silent = { debug: () => undefined, info: () => undefined, error: () => undefined }
    store = open({ logger: { ...silent, warn: (about) => warnings.push(about) } })
    const log = logOf(oddRun({ usage: ESTIMATES as unknown as Usage, model: 5 as unknown as string }))
    await store.flush('s', EPOCH, log)
    const usage = { input_tokens: '2', output_tokens: '0', cache_creation_input_tokens: '1000000000000', cache_read_input_tokens: '0' }
    expect(await sql('select * from pawl.token_usage')).toMatchObject([{ seq: '5', model: '5', ...usage }])
    expect(await sql('select * from pawl.sessions')).toMatchObject([{ model: '5', ...usage }])
    expect(await sql('select * from pawl.usage_by_session')).toMatchObject([{ calls: 1, ...usage }])
    expect(await store.lists.toolCallsOf('s')).toMatchObject([{ status: 'completed', result: 'done' }])
    const adjusted = [
      { member: 'model', was: '5', stored: '"5"' },
      { member: 'usage.input_tokens', was: '1.5', stored: '2' },
      { member: 'usage.output_tokens', was: '-3', stored: '0' },
      { member: 'usage.cache_creation_input_tokens', was: '1e+300', stored: '1000000000000' },
      { member: 'usage.cache_read_input_tokens', was: 'null', stored: '0' },
    ]
    expect(await sql('select seq, adjusted from pawl.events where adjusted is not null')).toEqual([{ seq: '5', adjusted }])
    expect(warnings).toMatchObject([{ session: 's', seq: 5, type: 'model_completed', adjusted, events: 1 }])
    // The state is exactly what the workflow folds.
    const [{ state: checkpoint } = {}] = await sql('select state from pawl.checkpoints')
    expect(JSON.parse(String(checkpoint))).toMatchObject({ usage: { input_tokens: 1.5, output_tokens: -3 } })
  })

  it('a value that a column cannot hold does not keep other rows from being written if nothing can be stored for it', async () => {
    await store.head('s')
    // A column that this release does not expect simulates an unforeseen fault.
    await sql('alter table pawl.token_usage alter column output_tokens type smallint')
    const usage = { input_tokens: 1, output_tokens: 40_000, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
    const log = logOf([
      ...oddRun({ usage }),
      { type: 'run_completed', run: 1, turns: 1, stopReason: 'end_turn', usage },
      ...oneRun(2, 'u2'),
    ])
    expect(await store.flush('s', EPOCH, log)).toMatchObject({ seq: log.length })
    expect(await store.entries('s')).toEqual(log)
    const [noted, ...others] = await sql('select seq, adjusted from pawl.events where adjusted is not null')
    expect(others).toEqual([])
    expect(noted).toMatchObject({ seq: '5', adjusted: [{ member: '', problem: expect.stringContaining('smallint out of range') }] })
    expect((await store.messages('s')).map(({ messageId }) => messageId)).toEqual(['u1', 'u2', 'm_2_1', 'r_2_1', 'm_2_2'])
    expect(await store.lists.toolCallsOf('s')).toMatchObject([
      { callId: 't_1_1_0', status: 'completed' },
      { callId: 't_2_1_0', status: 'completed' },
    ])
    expect(await store.lists.session('s')).toMatchObject({
      status: 'idle',
      run: 2,
      turns: 3,
      usage: { input_tokens: 20, output_tokens: 10 },
    })
    expect(await sql('select version from pawl.checkpoints')).toEqual([{ version: 1 }])
  })

  it('a value that a column cannot hold may be part of the state with which a session is adopted', async () => {
    const state = fold(undefined, eventsOf(logOf(oddRun({ usage: ESTIMATES as unknown as Usage })))) ?? expect.fail()
    const odd = { ...state, turns: 1.5, createdAt: 1e300, tags: ['a', 7] as string[], lastMessageId: 5 as unknown as string }
    expect(await store.upkeep.adopt('s', { epoch: EPOCH, state: odd, digest: 'd' })).toEqual({ epoch: EPOCH, seq: state.seq, digest: 'd' })
    expect(await store.lists.session('s')).toMatchObject({ turns: 2, tags: ['a', '7'], usage: { input_tokens: 2, output_tokens: 0 } })
  })
})
