// The side store against a real Postgres: what is flushed is read back once and exactly, whatever the order, text and outages.
import fc from 'fast-check'
import pg from 'pg'
import { beforeEach, describe, expect, it } from 'vitest'
import { nextDigest } from '../../src/session/digest.ts'
import { callIdOf } from '../../src/session/ids.ts'
import type { EventBody, LogEntry } from '../../src/session/events.ts'
import { fold } from '../../src/session/fold/fold.ts'
import { addToTranscript } from '../../src/session/transcript/adding.ts'
import { emptyTranscript } from '../../src/session/transcript/transcript.ts'
import { openStore, type Store, StoreError } from '../../src/store/index.ts'
import { storeHealth } from '../../src/store/maintenance/health.ts'
import {
  answered,
  anySession,
  completed,
  EPOCH,
  eventsOf,
  failedAttempt,
  issued,
  logOf,
  oneRun,
  received,
  started,
  wildJson,
} from './store/sessions.ts'
import { codeOf } from '../support/codes.ts'
import { ownDatabases } from '../support/databases.ts'
import { errorsOf } from '../support/errors-of.ts'
import { size } from '../support/sizes.ts'
import { until } from '../support/until.ts'

const db = ownDatabases()
const { open, sql } = db
let store: Store

beforeEach(() => {
  store = open()
})

/** Everything that the read methods return for a session. */
async function rowsOf(id: string, of = store) {
  const [session, entries, messages, toolCalls, errors] = await Promise.all([
    of.lists.session(id),
    of.entries(id),
    of.messages(id),
    of.lists.toolCallsOf(id),
    errorsOf(of, id),
  ])
  const nameless = <R extends { sessionId: string }>(row: R) => ({ ...row, sessionId: '' })
  return {
    session: session && { ...nameless(session), flushedAt: null },
    entries,
    messages,
    toolCalls: toolCalls.map(nameless),
    errors: errors.map(nameless),
  }
}

describe('a flushed session', () => {
  it('a flushed session is complete if the connection loses its prepared statements between two flushes', async () => {
    const pool = new pg.Pool({ connectionString: db.url, max: 1 })
    const pooled = open({ postgres: pool })
    try {
      const log = logOf([started(), ...oneRun(1, 'u1'), ...oneRun(2, 'u2'), ...oneRun(3, 'u3')])
      for (const until of [3, 7, 11, log.length]) {
        await pooled.flush('s', EPOCH, log.slice(0, until))
        // What a pooler does when it gives the next transaction another connection.
        await pool.query('deallocate all')
      }
      await store.flush('t', EPOCH, log)
      expect(await rowsOf('s', pooled)).toEqual(await rowsOf('t'))
    } finally {
      await pool.end()
    }
  })

  it('a flushed session has its rows in every table', async () => {
    const log = logOf([started(), ...oneRun(1, 'u1'), received('u2')])
    expect(await store.flush('s', EPOCH, log)).toEqual({ epoch: EPOCH, seq: log.length, digest: log.at(-1)?.digest })
    expect(await store.head('s')).toEqual({ epoch: EPOCH, seq: log.length, digest: log.at(-1)?.digest })
    expect(await store.lists.session('s')).toMatchObject({
      sessionId: 's',
      agent: 'support',
      status: 'idle',
      epoch: EPOCH,
      run: 1,
      turns: 2,
      context: { tenant: 't1' },
      tags: ['vip'],
      error: null,
      usage: { input_tokens: 20, output_tokens: 10, cache_creation_input_tokens: 4, cache_read_input_tokens: 6 },
      flushedSeq: log.length,
    })
    expect((await store.messages('s')).map(({ messageId, kind, run, turn }) => [messageId, kind, run, turn])).toEqual([
      ['u1', 'user', 1, 1],
      ['m_1_1', 'assistant', 1, 1],
      ['r_1_1', 'tool_results', 1, 1],
      ['m_1_2', 'assistant', 1, 2],
      ['u2', 'user', null, null],
    ])
    expect(await store.lists.toolCallsOf('s')).toMatchObject([
      {
        callId: 't_1_1_0',
        index: 0,
        tool: 'refund',
        effect: 'external',
        status: 'completed',
        attempt: 1,
        result: 'done',
        effectId: 're_0',
        worker: 'host:1',
      },
    ])
    expect(await store.events('s')).toEqual(eventsOf(log))
    expect(await store.entries('s')).toEqual(log)
    expect(await sql('select run, turn, model, input_tokens::int from pawl.token_usage order by seq')).toMatchObject([
      { run: 1, turn: 1, model: 'scripted', input_tokens: 10 },
      { run: 1, turn: 2 },
    ])
  })

  it('a flushed session is unknown before its first flush', async () => {
    expect(await store.head('s')).toBeNull()
    expect(await store.lists.session('s')).toBeNull()
    expect(await store.events('s')).toEqual([])
    expect(await store.flush('s', EPOCH, [])).toEqual({ epoch: EPOCH, seq: 0, digest: '' })
  })

  it('a flushed session returns its events in pages, limited by number and by bytes', async () => {
    const large = 'x'.repeat(1_500_000)
    const log = logOf([started(), received('a', large), received('b', large), received('c', large), received('d', large)])
    await store.flush('s', EPOCH, log)
    expect(await store.entries('s', { after: 1, limit: 2 })).toEqual(log.slice(1, 3))
    expect((await store.entries('s')).map((entry) => entry.seq)).toEqual([1, 2, 3, 4])
    expect(await store.entries('s', { after: 4 })).toEqual(log.slice(4))
    expect(await store.entries('s', { after: 5 })).toEqual([])
  })

  it('a flushed session says after which event the events of a message can be followed', async () => {
    const rejected = { type: 'message_rejected', messageId: 'u9', code: 'empty_message', reason: 'empty' } as const
    const log = logOf([started(), ...oneRun(1, 'u\0'), rejected, received('u2')])
    expect(await store.locateMessage('s', 'u2')).toEqual({ after: 0 })
    await store.flush('s', EPOCH, log.slice(0, 5))
    expect(await store.locateMessage('s', 'u2')).toEqual({ after: 5 })
    await store.flush('s', EPOCH, log)
    expect(await store.locateMessage('s', 'u\0')).toEqual({ after: 1 })
    expect(await store.locateMessage('s', 'u9')).toEqual({ after: 10, refusedBefore: 12 })
    expect(await store.locateMessage('s', 'u2')).toEqual({ after: 11 })
  })

  it('a flushed session has a row in errors for each failed attempt and each failed run', async () => {
    const log = logOf([
      started(),
      received('u1'),
      { type: 'run_started', run: 1, messageId: 'u1' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['u1'] },
      { type: 'model_attempt_failed', run: 1, turn: 1, error: failedAttempt(1) },
      answered(1, 1, [{}]),
      issued(1, 1, 0),
      { type: 'tool_attempt_failed', run: 1, turn: 1, callId: 't_1_1_0', tool: 'refund', error: failedAttempt(1, 'reset') },
      { type: 'error_entered', run: 1, code: 'max_turns', reason: 'too many', strategy: 'manual' },
    ])
    await store.flush('s', EPOCH, log)
    expect(await errorsOf(store, 's')).toMatchObject([
      {
        seq: 5,
        run: 1,
        turn: 1,
        context: 'model',
        attempt: 1,
        class: 'ModelError',
        code: 'overloaded_error',
        retryable: true,
        worker: 'host:1',
      },
      { seq: 8, context: 'tool:refund', callId: 't_1_1_0', attempt: 1, message: 'reset' },
      { seq: 9, context: 'run', attempt: null, code: 'max_turns', message: 'too many', retryable: false },
    ])
    expect(await store.lists.session('s')).toMatchObject({ status: 'error', error: { code: 'max_turns', reason: 'too many', run: 1 } })
  })
})

describe('flushing', () => {
  it('flushing late or repeatedly changes nothing', async () => {
    const log = logOf([started(), ...oneRun(1, 'u1')])
    await store.flush('s', EPOCH, log)
    const rows = await rowsOf('s')
    for (const late of [log, log.slice(0, 3), log.slice(4, 6), log.slice(-1)]) {
      expect(await store.flush('s', EPOCH, late)).toMatchObject({ seq: log.length })
    }
    expect(await rowsOf('s')).toEqual(rows)
  })

  it('flushing refuses a gap, another past and invalid events, and then changes nothing', async () => {
    const log = logOf([started(), ...oneRun(1, 'u1')])
    expect(await codeOf(store.flush('s', EPOCH, log.slice(2)))).toBe('gap')
    expect(await store.head('s')).toBeNull()
    await store.flush('s', EPOCH, log.slice(0, 4))
    const other = logOf([received('phantom')], { seq: 4, digest: 'another past' })
    const forged = log.slice(4).map((entry) => ({ ...entry, json: entry.json.replace('"v":1', '"v":2') }))
    expect(await codeOf(store.flush('s', EPOCH, log.slice(5)))).toBe('gap')
    expect(await codeOf(store.flush('s', EPOCH, other))).toBe('flush_mismatch')
    expect(await codeOf(store.flush('s', EPOCH, forged))).toBe('flush_mismatch')
    expect(await codeOf(store.flush('t', EPOCH, logOf([received('u1')])))).toBe('invalid_events')
    expect(await store.entries('s')).toEqual(log.slice(0, 4))
    expect((await store.flush('s', EPOCH, log)).seq).toBe(log.length)
  })

  it('flushing sets aside what another chain of executions wrote, unless it continues the stored past', async () => {
    const log = logOf([started(), ...oneRun(1, 'u1'), { type: 'session_closed', reason: 'idle' }])
    const head = await store.flush('s', EPOCH, log)
    const stray = logOf([started({ executionId: 'execution-2' }), received('u9')])
    expect(await codeOf(store.flush('s', 'execution-2', stray))).toBe('foreign_epoch')
    expect(await codeOf(store.flush('s', 'execution-2', stray))).toBe('foreign_epoch')
    expect(await sql('select epoch, seq::int, json from pawl.stray_events order by seq')).toEqual(
      stray.map(({ seq, json }) => ({ epoch: 'execution-2', seq, json })),
    )
    expect(await store.head('s')).toEqual(head)

    const resumed = logOf([{ type: 'session_resumed', executionId: 'execution-3', fromEpoch: EPOCH, coreVersion: 1 }, received('u2')], head)
    expect(await store.flush('s', 'execution-3', resumed)).toMatchObject({ epoch: 'execution-3', seq: log.length + 2 })
    expect(await store.flush('s', EPOCH, log)).toMatchObject({ epoch: 'execution-3', seq: log.length + 2 })
    expect(await store.lists.session('s')).toMatchObject({ status: 'idle', epoch: 'execution-3' })
    expect(await sql('select count(*)::int as strays from pawl.stray_events')).toEqual([{ strays: stray.length }])
  })

  it('flushing by many processes at once, for one session and for many, writes every row once', async () => {
    const stores = [store, open(), open(), open()]
    const log = logOf([started(), ...[1, 2, 3, 4].flatMap((run) => oneRun(run, `u${run}`))])
    const cuts = [5, 11, 20, log.length]
    const flushes = stores.flatMap((one) => cuts.map((cut) => one.flush('same', EPOCH, log.slice(0, cut))))
    const others = stores.flatMap((one, index) => cuts.map((cut) => one.flush(`other-${index}`, EPOCH, log.slice(0, cut))))
    await Promise.all([...flushes, ...others])
    await store.flush('alone', EPOCH, log)
    const alone = await rowsOf('alone')
    for (const id of ['same', 'other-0', 'other-3']) expect(await rowsOf(id)).toEqual(alone)
  })

  it('flushing archives what a restarted run had said, and keeps what the user said', async () => {
    const log = logOf([
      started(),
      received('u1'),
      { type: 'run_started', run: 1, messageId: 'u1' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['u1'] },
      answered(1, 1, []),
      { type: 'error_entered', run: 1, code: 'x', reason: 'y', strategy: 'manual' },
      { type: 'recovery_started', run: 1, strategy: 'restart_run' },
    ])
    await store.flush('s', EPOCH, log)
    expect((await store.messages('s')).map(({ messageId, run }) => [messageId, run])).toEqual([['u1', null]])
    expect(await sql('select message_id, epoch, archived_seq::int, why from pawl.archived_messages')).toEqual([
      { message_id: 'm_1_1', epoch: EPOCH, archived_seq: 7, why: 'restarted' },
    ])
  })
})

describe('a running call', () => {
  it('a running call is marked as running while it has no outcome, and never after', async () => {
    const log = logOf([started(), ...oneRun(1, 'u1')])
    await store.markRunning('s', 't_1_1_0', 1, 'host:2')
    await store.flush('s', EPOCH, log.slice(0, 6))
    expect(await store.lists.toolCallsOf('s')).toMatchObject([{ status: 'issued', attempt: 0, worker: null }])
    await store.markRunning('s', 't_1_1_0', 1, 'host:2')
    expect(await store.lists.toolCallsOf('s')).toMatchObject([{ status: 'running', attempt: 1, worker: 'host:2' }])
    await store.flush('s', EPOCH, log)
    await store.markRunning('s', 't_1_1_0', 2, 'host:3')
    expect(await store.lists.toolCallsOf('s')).toMatchObject([{ status: 'completed', attempt: 1, worker: 'host:1' }])
  })

  it('a running call shows its newest attempt, even if an abandoned attempt reports something later', async () => {
    await store.flush('s', EPOCH, logOf([started(), ...oneRun(1, 'u1')]).slice(0, 6))
    await store.markRunning('s', 't_1_1_0', 2, 'host:3')
    await store.markRunning('s', 't_1_1_0', 1, 'host:2')
    expect(await store.lists.toolCallsOf('s')).toMatchObject([{ status: 'running', attempt: 2, worker: 'host:3' }])
  })

  it('a running call that is abandoned with its run keeps only the attempts that events report, as after a rebuild', async () => {
    const before = [started(), ...oneRun(1, 'u1')].slice(0, 6)
    const log = logOf([...before, { type: 'run_interrupted', run: 1 } as EventBody])
    await store.flush('s', EPOCH, log.slice(0, 6))
    await store.markRunning('s', 't_1_1_0', 2, 'host:2')
    await store.flush('s', EPOCH, log)
    expect(await store.lists.toolCallsOf('s')).toMatchObject([{ attempt: 0, completedAt: expect.any(Date) }])
    await store.flush('again', EPOCH, log)
    expect(await store.lists.toolCallsOf('again')).toMatchObject([{ attempt: 0, completedAt: expect.any(Date) }])
  })

  it('a running call whose outcome was unknown gets the verdict of verify', async () => {
    const where = { run: 1, turn: 1, tool: 'refund' }
    const log = logOf([
      started(),
      received('u1'),
      { type: 'run_started', run: 1, messageId: 'u1' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['u1'] },
      answered(1, 1, [1, 2]),
      issued(1, 1, 0),
      { type: 'tool_unknown', ...where, callId: 't_1_1_0', attempt: 1, message: 'unknown' },
      issued(1, 1, 1),
      { type: 'tool_unknown', ...where, callId: 't_1_1_1', attempt: 1, message: 'unknown' },
      { type: 'tool_resolved', ...where, callId: 't_1_1_0', by: 'verify', happened: true, value: { id: 1 }, effectId: 're_1' },
      { type: 'tool_resolved', ...where, callId: 't_1_1_1', by: 'verify', happened: false },
    ])
    await store.flush('s', EPOCH, log.slice(0, 9))
    expect(await store.lists.toolCallsOf('s')).toMatchObject([
      { status: 'unknown' },
      { status: 'unknown', error: { code: 'outcome_unknown' } },
    ])
    await store.flush('s', EPOCH, log)
    expect(await store.lists.toolCallsOf('s')).toMatchObject([
      { status: 'completed', result: { id: 1 }, effectId: 're_1', error: null, attempt: 1 },
      { status: 'failed', error: { code: 'did_not_happen' } },
    ])
  })
})

describe('any session', () => {
  /** The transcript that the pure core builds from the same events. */
  function transcriptOf(log: readonly LogEntry[]) {
    const transcript = emptyTranscript()
    for (const event of eventsOf(log)) addToTranscript(transcript, event)
    const waiting = [...transcript.waiting.values()].map(({ content }) => ({ role: 'user' as const, content }))
    return [...transcript.messages, ...waiting]
  }

  it('any session flushed in pieces, repeatedly and out of order, has the rows of one flush', async () => {
    let sessions = 0
    const plan = fc.array(fc.tuple(fc.nat(60), fc.nat(60)), { maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(anySession, plan, async (log, pieces) => {
        const [whole, pieced] = [`whole-${++sessions}`, `pieced-${sessions}`]
        await store.flush(whole, EPOCH, log)
        for (const [from, length] of pieces) {
          const code = await codeOf(store.flush(pieced, EPOCH, log.slice(from, from + length)))
          expect(['accepted', 'gap']).toContain(code)
        }
        for (const entry of log) await store.flush(pieced, EPOCH, [entry])
        const rows = await rowsOf(whole)
        expect(await rowsOf(pieced)).toEqual(rows)

        expect(rows.entries).toEqual(log)
        expect(rows.messages.map(({ role, content }) => ({ role, content }))).toEqual(transcriptOf(log))
        const state = fold(undefined, eventsOf(log))
        const { agent, status, run, turns, context, tags, usage, error } = state ?? expect.fail()
        expect(rows.session).toMatchObject({ agent, status, run, turns, context, tags, usage, flushedSeq: log.length })
        const { progress: _progress, attempts: _attempts, ...entered } = error ?? {}
        expect(rows.session?.error).toEqual(error && entered)
      }),
      { numRuns: size(10, 25), endOnFailure: true },
    )
  })

  it('any session is read back exactly as it was written, regardless of the text and JSON in it', async () => {
    let sessions = 0
    await fc.assert(
      fc.asyncProperty(wildJson, wildJson, async (input, value) => {
        const id = `s-${++sessions}`
        const log = logOf([
          started({ context: input }),
          { type: 'message_received', messageId: 'u1', content: 'x', metadata: { input } },
          { type: 'run_started', run: 1, messageId: 'u1' },
          { type: 'turn_started', run: 1, turn: 1, takes: ['u1'] },
          answered(1, 1, [input]),
          issued(1, 1, 0, input),
          completed(1, 1, 0, value),
        ])
        await store.flush(id, EPOCH, log)
        const rows = await rowsOf(id)
        expect(rows.entries).toEqual(log)
        expect(rows.session?.context).toEqual(input)
        expect(rows.messages[0]?.metadata).toEqual({ input })
        expect(rows.toolCalls).toMatchObject([{ input, result: value }])
        // The columns for queries are filled too, without what Postgres cannot hold.
        await sql(`select content::text, metadata ->> 'input' from pawl.messages where session_id = $1`, [id])
      }),
      { numRuns: size(20, 50), endOnFailure: true },
    )
  })

  it('any session may contain 5 MB strings, names of any length and 10,000 levels of nesting', async () => {
    const deep = `${'[{"__proto__":'.repeat(5_000)}"\\u0000"${'}]'.repeat(5_000)}`
    const huge = `${'x'.repeat(5_000_000)}\0\ud800`
    const name = 'n'.repeat(10_000)
    const call = { run: 1, turn: 1, callId: callIdOf(1, 1, 0), tool: name }
    const bodies = logOf([
      started({ agent: name, tags: [name] }),
      received(name, huge),
      { type: 'run_started', run: 1, messageId: name },
      { type: 'turn_started', run: 1, turn: 1, takes: [name] },
      { type: 'model_attempt_failed', run: 1, turn: 1, error: { ...failedAttempt(1, huge), class: name, code: name, worker: name } },
      answered(1, 1, ['DEEP']),
      { type: 'tool_issued', ...call, index: 0, effect: 'external', key: name, input: 'DEEP', inputDigest: 'd' },
      { type: 'tool_completed', ...call, attempt: 1, value: 'DEEP', effectId: name, worker: name },
    ])
    // Built as text, because JSON.stringify cannot nest that deep.
    const log = withNewDigests(bodies.map((entry) => ({ ...entry, json: entry.json.replace('"DEEP"', () => deep) })))
    await store.flush('s', EPOCH, log)
    expect(await store.entries('s', { limit: 2 })).toEqual(log.slice(0, 1 + 1))
    expect((await store.entries('s', { after: 5 })).map((entry) => entry.json)).toEqual(log.slice(5).map((entry) => entry.json))
    expect(await store.lists.session('s')).toMatchObject({ agent: name, tags: [name] })
    const [message, answer, results] = await store.messages('s')
    expect(message?.messageId).toBe(name)
    expect(message?.content === huge).toBe(true)
    expect(answer?.run).toBe(1)
    const [result] = (results?.content ?? []) as { content?: string }[]
    expect(result?.content === deep).toBe(true)
    expect(await store.lists.toolCallsOf('s')).toMatchObject([{ tool: name, key: name, effectId: name, status: 'completed' }])
    expect(await sql(`select input from pawl.tool_calls`)).toEqual([{ input: '[nested deeper than 2000 levels]' }])
  })

  function withNewDigests(log: LogEntry[]): LogEntry[] {
    let prev = ''
    return log.map((entry) => {
      const made = { ...entry, prev, digest: nextDigest(prev, entry.json) }
      prev = made.digest
      return made
    })
  }
})

describe('a session whose earlier events are lost', () => {
  it('a session whose earlier events are lost has the whole error that it is in, as if they were stored', async () => {
    const error = {
      run: 1,
      code: 'overloaded_error',
      reason: 'busy',
      strategy: 'restart_run',
      nextAttemptAt: 1_800_000_000_000,
      attempts: 2,
    } as const
    const log = logOf([started(), received('u1'), { type: 'run_started', run: 1, messageId: 'u1' }, { type: 'error_entered', ...error }])
    await store.flush('whole', EPOCH, log)
    const state = fold(undefined, eventsOf(log))
    if (!state) throw new Error('no state')
    await store.upkeep.adopt('part', { epoch: EPOCH, state, digest: log.at(-1)?.digest ?? '' })
    const [whole, part] = await Promise.all(['whole', 'part'].map((id) => store.lists.session(id)))
    expect(part?.error).toEqual(whole?.error)
    const { items } = await store.lists.overview({ limit: 9 })
    expect(items.map(({ sessionId, needs }) => [sessionId, needs])).toEqual([
      ['part', 'automatic'],
      ['whole', 'automatic'],
    ])
  })
})

describe('Postgres', () => {
  it('Postgres may be down: calls reject, and the first one after its return succeeds', async () => {
    const log = logOf([started(), ...oneRun(1, 'u1')])
    await store.flush('s', EPOCH, log.slice(0, 4))
    const woken: number[] = []
    const unwatch = store.watch('s', () => woken.push(Date.now()))
    await expect.poll(() => woken.length).toBeGreaterThan(0)
    await db.stack.postgres.stop()
    const before = woken.length
    try {
      expect(await codeOf(store.flush('s', EPOCH, log))).toBe('store_unavailable')
      expect(await codeOf(store.messages('s'))).toBe('store_unavailable')
      expect(await codeOf(open().head('s'))).toBe('store_unavailable')
    } finally {
      await db.stack.postgres.start()
    }
    await expect.poll(() => codeOf(store.flush('s', EPOCH, log))).toBe('accepted')
    expect(await store.entries('s')).toEqual(log)
    // The listener is back too (perhaps before the flush): it wakes for what it missed, and for what comes.
    await expect.poll(() => woken.length).toBeGreaterThan(before)
    unwatch()
  })

  it('Postgres may hang: a flush gives up after some seconds, and succeeds once Postgres continues', async () => {
    const log = logOf([started(), ...oneRun(1, 'u1')])
    await store.flush('s', EPOCH, log.slice(0, 4))
    const backends = (await sql("select pid from pg_stat_activity where application_name = 'pawl' and datname = current_database()")).map(
      (row) => Number(row.pid),
    )
    expect(backends.length).toBeGreaterThan(0)
    // The server itself, too: otherwise it would accept a new connection.
    const [server] = await sql("select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int as pid")
    const paused = [Number(server?.pid), ...backends]
    for (const pid of paused) process.kill(pid, 'SIGSTOP')
    try {
      const since = Date.now()
      expect(await codeOf(store.flush('s', EPOCH, log))).toBe('store_unavailable')
      expect(Date.now() - since).toBeLessThan(20_000)
    } finally {
      for (const pid of paused) process.kill(pid, 'SIGCONT')
    }
    expect(await store.flush('s', EPOCH, log)).toMatchObject({ seq: log.length })
  })

  it('Postgres ends a list that takes too long, although its reader could not', async () => {
    await store.flush('s', EPOCH, logOf([started()]))
    const holder = new pg.Client(db.url)
    await holder.connect()
    try {
      await holder.query('begin; lock table pawl.sessions in access exclusive mode')
      await expect(store.lists.sessions({}, { limit: 1 })).rejects.toMatchObject({
        code: 'store_unavailable',
        message: expect.stringMatching(
          /^Postgres at \S+ ended a statement early: canceling statement due to statement timeout\. Ask for less/,
        ),
      })
      const waiting = await sql(
        "select query from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'pawl' and datname = current_database()",
      )
      expect(waiting).toEqual([])
    } finally {
      await holder.end()
    }
    expect((await store.lists.sessions({}, { limit: 1 })).items).toHaveLength(1)
  }, 40_000)

  it('Postgres may roll back one of two transactions that wait for each other: it is repeated, and its caller notices nothing', async () => {
    await store.flush('s', EPOCH, logOf([started(), ...oneRun(1, 'u1')]))
    const other = new pg.Client(db.url)
    await other.connect()
    try {
      // Postgres chooses the one that looks first whether it is part of a deadlock.
      await other.query("set deadlock_timeout = '1h'")
      await other.query("begin; select from pawl.messages where session_id = 's' for update")
      const erased = store.upkeep.erase({ sessionId: 's', by: 'dpo', executions: [] })
      await until('the erasure waits for the messages', async () => {
        const waiting = await sql(
          "select from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'pawl' and datname = current_database()",
        )
        return waiting.length > 0
      })
      await other.query("select from pawl.sessions where session_id = 's' for update")
      await other.query('commit')
      expect((await erased)?.rows).toMatchObject({ messages: 4 })
    } finally {
      await other.end()
    }
    expect(await store.messages('s')).toEqual([])
  })

  it('Postgres has a time limit for each statement of each list and report', async () => {
    const unlimited: string[] = []
    const pool = new pg.Pool({ connectionString: db.url, max: 1 })
    pool.on('connect', (client) => {
      const ask = client.query.bind(client) as (statement: unknown) => Promise<pg.QueryResult>
      const watched = async (statement: { text: string }): Promise<pg.QueryResult> => {
        // Notifications are of the flush.
        if (!/^(begin|commit|rollback)|pg_notify/.test(statement.text)) {
          const [limit] = (await ask('show statement_timeout')).rows as { statement_timeout: string }[]
          if (limit?.statement_timeout === '0') unlimited.push(statement.text)
        }
        return ask(statement)
      }
      client.query = watched as unknown as typeof client.query
    })
    try {
      const theirs = open({ postgres: pool })
      await theirs.flush('s', EPOCH, logOf([started(), ...oneRun(1, 'u1')]))
      const { lists } = theirs
      const [page, since] = [{ limit: 1 }, new Date(0)]
      const read: { [K in keyof typeof lists]: () => Promise<unknown> } = {
        sessions: () => lists.sessions({}, page),
        session: () => lists.session('s'),
        neighbours: () => lists.neighbours('s'),
        erasure: () => lists.erasure('s'),
        agentNames: () => lists.agentNames(),
        inError: () => lists.inError({}, page),
        overview: () => lists.overview({ limit: 1 }),
        unfinished: () => lists.unfinished({ limit: 1 }),
        storedAmong: () => lists.storedAmong([{ sessionId: 's', startedAt: since }]),
        messages: () => lists.messages('s', page),
        scheduled: () => lists.scheduled('s'),
        archivedMessages: () => lists.archivedMessages('s'),
        checkpoints: () => lists.checkpoints('s', page),
        latestCheckpoint: () => lists.latestCheckpoint('s'),
        compactions: () => lists.compactions('s'),
        errors: () => lists.errors({}, page),
        failures: () => lists.failures({ since }),
        toolCalls: () => lists.toolCalls({}, page),
        toolCallsOf: () => lists.toolCallsOf('s'),
        run: () => lists.run('s', 1),
        pending: () => lists.pending({}, page),
        usage: () => lists.usage({ by: 'day' }, page),
        feed: () => lists.feed({}, undefined),
      }
      unlimited.length = 0
      for (const one of Object.values(read)) await one()
      await theirs.census()
      await theirs.messages('s')
      await theirs.conversation.upTo('s', 9)
      await theirs.sweepDeltas()
      await theirs.upkeep.prunable(since)
      await theirs.close()
      const health = storeHealth(pool, {})
      for (const one of [health.storage, health.agents, health.failing, health.gates, health.needs, health.unfinished]) await one()
      await health.close()
      expect(unlimited).toEqual([])
    } finally {
      await pool.end()
    }
  })

  it('Postgres receives no connection before the first call', async () => {
    const nowhere = open({ postgres: 'postgres://127.0.0.1:1/none' })
    expect(await codeOf(nowhere.head('s'))).toBe('store_unavailable')
    expect(() => openStore({ postgres: '' })).toThrow(StoreError)
    expect(() => openStore({ postgres: db.url, schema: 'a"b' })).toThrow(StoreError)
  })

  it("Postgres keeps the connections of the caller's own pool", async () => {
    const pool = new pg.Pool({ connectionString: db.url, max: 1 })
    try {
      const theirs = open({ postgres: pool })
      const log = logOf([started(), ...oneRun(1, 'u1')])
      await theirs.flush('s', EPOCH, log)
      let wakes = 0
      theirs.watch('s', () => wakes++)
      // It may be called for the flush before, too.
      await expect.poll(() => wakes).toBeGreaterThan(0)
      await theirs.close()
      expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
      expect(await codeOf(theirs.head('s'))).toBe('store_closed')
    } finally {
      await pool.end()
    }
  })
})

describe('migrations', () => {
  it('stores that start at the same time apply migrations once per schema', async () => {
    const stores = Array.from({ length: 10 }, () => open({ schema: 'Other_1' }))
    expect(await Promise.all(stores.map((one) => one.head('s')))).toEqual(Array(10).fill(null))
    await store.head('s')
    expect(await sql('select name from "Other_1".migrations')).toEqual(await sql('select name from pawl.migrations'))
  })

  it('migrations are required but not applied with `check`, and not even looked for with `off`', async () => {
    const log = logOf([started(), ...oneRun(1, 'u1')])
    const [checking, off] = [open({ migrate: 'check' }), open({ migrate: 'off' })]
    expect(await codeOf(checking.flush('s', EPOCH, log))).toBe('schema_behind')
    expect(await codeOf(off.flush('s', EPOCH, log))).toBe('schema_behind')
    await store.flush('s', EPOCH, log)
    expect(await checking.flush('s', EPOCH, log)).toMatchObject({ seq: log.length })
    expect(await off.flush('s', EPOCH, log)).toMatchObject({ seq: log.length })
  })

  it('migrations are applied again after the schema was dropped', async () => {
    const log = logOf([started(), ...oneRun(1, 'u1')])
    await store.flush('s', EPOCH, log)
    await sql('drop schema pawl cascade')
    expect(await codeOf(store.flush('s', EPOCH, log))).toBe('schema_behind')
    expect(await store.flush('s', EPOCH, log)).toMatchObject({ seq: log.length })
  })

  it('migrations need no right to create anything once the schema exists', async () => {
    await store.head('s')
    const role = `app_${Date.now()}`
    await sql(`create role ${role} login password 'app'`)
    await sql(`grant usage on schema pawl to ${role}`)
    await sql(`grant select, insert, update, delete on all tables in schema pawl to ${role}`)
    const asRole = new URL(db.url)
    asRole.username = role
    asRole.password = 'app'
    const app = open({ postgres: asRole.href })
    const log = logOf([started(), ...oneRun(1, 'u1')])
    expect(await app.flush('s', EPOCH, log)).toMatchObject({ seq: log.length })
    await app.close()
    await sql(`drop owned by ${role}`)
    await sql(`drop role ${role}`)
  })
})

describe('a watcher', () => {
  it('a watcher is woken by commits to its session, from any process, until it leaves', async () => {
    const log = logOf([started(), ...oneRun(1, 'u1')])
    const wakes = { s: 0, t: 0 }
    const leave = store.watch('s', () => wakes.s++)
    store.watch('t', () => wakes.t++)
    await expect.poll(() => wakes).toEqual({ s: 1, t: 1 })
    await open().flush('s', EPOCH, log.slice(0, 3))
    await expect.poll(() => wakes).toEqual({ s: 2, t: 1 })
    leave()
    await open().flush('s', EPOCH, log)
    await open().flush('t', EPOCH, log)
    await expect.poll(() => wakes).toEqual({ s: 2, t: 2 })
  })

  it('a watcher of stops is woken by a stop of its session that another process reports, and not by commits', async () => {
    const wakes = { s: 0, t: 0 }
    const leave = store.watchStops('s', () => wakes.s++)
    store.watchStops('t', () => wakes.t++)
    await expect.poll(() => wakes).toEqual({ s: 1, t: 1 })
    const other = open()
    await other.flush('t', EPOCH, logOf([started(), ...oneRun(1, 'u1')]))
    other.notifyStop('s')
    await expect.poll(() => wakes).toEqual({ s: 2, t: 1 })
    leave()
    other.notifyStop('s')
    other.notifyStop('t')
    await expect.poll(() => wakes).toEqual({ s: 2, t: 2 })
  })

  it('a watcher shares its notifications with other sessions that flush at the same time', async () => {
    const ids = Array.from({ length: 50 }, (_, index) => `s-${index}`)
    const log = logOf([started(), ...oneRun(1, 'u1'), ...oneRun(2, 'u2')])
    const woken = new Set<string>()
    for (const id of ids) store.watch(id, () => woken.add(id))
    const everything = store.watch('*', () => woken.add('*'))
    await expect.poll(() => woken.size).toBe(51)
    woken.clear()
    const client = new pg.Client(db.url)
    await client.connect()
    try {
      let notifications = 0
      client.on('notification', () => notifications++)
      await client.query('listen pawl_pawl')
      const since = Date.now()
      await Promise.all(
        ids.map(async (id) => {
          for (const end of [4, 8, 12, 16, log.length]) await store.flush(id, EPOCH, log.slice(0, end))
        }),
      )
      await expect.poll(() => woken.size).toBe(51)
      expect(notifications).toBeGreaterThan(0)
      expect(notifications).toBeLessThanOrEqual(2 + (Date.now() - since) / 50)
      // Nothing has changed, so no notification is sent.
      await new Promise((resolve) => setTimeout(resolve, 200))
      const before = notifications
      await Promise.all(ids.map((id) => store.flush(id, EPOCH, log)))
      await new Promise((resolve) => setTimeout(resolve, 200))
      expect(notifications).toBe(before)
    } finally {
      everything()
      await client.end()
    }
  })
})
