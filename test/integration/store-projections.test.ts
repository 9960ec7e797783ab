// Every projection against the core, with a real Postgres: sessions with decisions, failures, rollbacks and forks.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EventBody, LogEntry, SessionEvent } from '../../src/session/events.ts'
import { fold } from '../../src/session/fold/fold.ts'
import { madeAgain } from '../../src/session/past/call-status.ts'
import type { SessionState } from '../../src/session/state.ts'
import { addToTranscript } from '../../src/session/transcript/adding.ts'
import { emptyTranscript } from '../../src/session/transcript/transcript.ts'
import type { Store } from '../../src/store/index.ts'
import { ownDatabases } from '../support/databases.ts'
import { size } from '../support/sizes.ts'
import { eventfulSessions } from '../unit/session/sound-session.ts'
import { answered, completed, EPOCH, eventsOf, issued, logOf, oneRun, received, started } from './store/sessions.ts'

const { open: openOptions, sql } = ownDatabases()
const open = (schema = 'pawl'): Store => openOptions({ schema })

const TABLES = [
  'sessions',
  'events',
  'messages',
  'archived_messages',
  'tool_calls',
  'errors',
  'token_usage',
  'usage_by_day',
  'usage_by_session',
  'approvals',
  'custom_events',
  'recoveries',
  'checkpoints',
]
/** Columns that depend on the clock, or on how the events were split into flushes. */
const INCIDENTAL = ['flushed_at', 'archived_at']

async function rowsIn(schema: string): Promise<Record<string, unknown[]>> {
  const rows: Record<string, unknown[]> = {}
  for (const table of TABLES) {
    const found = await sql(`select to_jsonb(t) - $1::text[] as row from ${schema}.${table} t order by 1`, [INCIDENTAL])
    rows[table] = found.map(({ row }) => row)
  }
  return rows
}

async function empty(schema: string): Promise<void> {
  await sql(`truncate ${[...TABLES, 'commits'].map((table) => `${schema}.${table}`).join(', ')}`)
}

/** Flushes the entries in pieces, some of them by a process that has not seen the earlier ones. */
async function flushPieces(stores: readonly Store[], id: string, entries: readonly LogEntry[], cuts: readonly number[]): Promise<void> {
  const fork = entries.findLastIndex(({ json }) => json.includes('"type":"forked"'))
  const epochs = epochsOf(entries, fork)
  let at = 0
  for (let piece = 0; at < entries.length; piece++) {
    let end = Math.min(at + 1 + (cuts[piece] ?? entries.length), entries.length)
    // A flush belongs to one chain of executions, and inherited events are flushed separately.
    for (let next = end - 1; next > at; next--) if (epochs[next] !== epochs[at] || next === fork) end = next
    const inherited = at < fork && piece % 3 > 0 ? { inherited: 'source' } : {}
    await stores[piece % stores.length]?.flush(id, epochs[at] ?? '', entries.slice(at, end), inherited)
    at = end
  }
}

/** The chain that wrote each entry; a fork's own chain also wrote its inherited past. */
function epochsOf(entries: readonly LogEntry[], fork: number): string[] {
  const events = eventsOf(entries)
  const forked = events[fork]
  let epoch = forked?.type === 'forked' ? forked.executionId : 'execution-0'
  return events.map((event, index) => {
    if (index > fork && 'executionId' in event) epoch = event.executionId
    return epoch
  })
}

function statesOf(events: readonly SessionEvent[]): SessionState[] {
  let state: SessionState | undefined
  return events.map((event) => {
    state = fold(state, [event])
    return JSON.parse(JSON.stringify(state)) as SessionState
  })
}

/** The transcript, then the messages that no turn has taken and those that are delivered later, in the order in which they were sent. */
function transcriptOf(events: readonly SessionEvent[], { scheduled = [] }: Pick<SessionState, 'scheduled'> = {}) {
  const transcript = emptyTranscript()
  for (const event of events) addToTranscript(transcript, event)
  const receivedAt = (id: string): number =>
    events.findLast((event) => event.type === 'message_received' && event.messageId === id)?.seq ?? Number.NaN
  const waiting = [...transcript.waiting].map(([id, { content }]) => ({ seq: receivedAt(id), content }))
  const later = [...waiting, ...scheduled].toSorted((a, b) => a.seq - b.seq)
  return [...transcript.messages, ...later.map(({ content }) => ({ role: 'user' as const, content }))]
}

describe('any session', () => {
  it('a session has the rows that the core folds in every table, however its events were split into flushes', async () => {
    const [whole, pieced, cold] = [open('whole'), open('pieced'), open('pieced')]
    await Promise.all([whole.head('s'), pieced.head('s')])
    const plan = fc.array(fc.nat(40), { minLength: 1, maxLength: 8 })
    await fc.assert(
      fc.asyncProperty(eventfulSessions, plan, async ({ events, entries, state }, cuts) => {
        const id = state.sessionId
        await Promise.all([empty('whole'), empty('pieced')])
        await flushPieces([whole], id, entries, [])
        await flushPieces([pieced, cold], id, entries, cuts)
        const rows = await rowsIn('whole')
        expect(await rowsIn('pieced')).toEqual(rows)
        await matches(whole, id, events, state)
        expect(await cold.resume(id)).toEqual({ state, digest: entries.at(-1)?.digest, seq: events.length, warnings: [] })
      }),
      { numRuns: size(8, 60), endOnFailure: true },
    )
  })

  /** Expects that the store agrees with the events of the session. */
  async function matches(store: Store, id: string, events: readonly SessionEvent[], state: SessionState): Promise<void> {
    const [session] = await sql('select * from whole.sessions')
    expect(session).toMatchObject({
      status: state.status,
      run: state.run,
      turns: state.turns,
      agent: state.agent,
      tags: state.tags,
      checkpoint: state.checkpoint?.version ?? 0,
      parent: state.forkedFrom?.sessionId ?? null,
      created_at: new Date(state.createdAt),
    })
    expect((await store.messages(id)).map(({ role, content }) => ({ role, content }))).toEqual(transcriptOf(events, state))

    const users = `select message_id from whole.messages where kind = 'user' union all
      select message_id from whole.archived_messages where kind = 'user'`
    const ids = (await sql(users)).map((row) => row.message_id)
    expect(ids.sort()).toEqual(events.flatMap((event) => (event.type === 'message_received' ? [event.messageId] : [])).sort())

    const own = events.slice(events.findLastIndex((event) => event.type === 'forked') + 1)
    const calls = new Map((await store.lists.toolCallsOf(id)).map((call) => [call.callId, call]))
    // Nobody has to answer a call that another session works on.
    const live = (state.current?.calls ?? []).map(({ callId, status, asked }) => ({
      callId,
      status: status === 'awaiting_answer' && asked?.child ? ('issued' as const) : status,
    }))
    for (const call of live) {
      const row = calls.get(call.callId)
      if (call.status === 'requested') expect(row).toBeUndefined()
      else expect(ROW_STATUS[call.status]).toContain(row?.status)
    }
    // A call that a person skipped is as unknown as before.
    for (const callId of Object.keys(state.unknown))
      if (own.some((event) => 'callId' in event && event.callId === callId))
        expect(['unknown', 'skipped']).toContain(calls.get(callId)?.status)
    const liveIn = (...statuses: string[]) => live.flatMap(({ callId, status }) => (statuses.includes(status) ? [callId] : [])).sort()
    const open = [...calls.values()].filter((call) => ['issued', 'running', 'awaiting_approval', 'awaiting_answer'].includes(call.status))
    expect(open.map(({ callId }) => callId).sort()).toEqual(liveIn('issued', 'awaiting_approval', 'awaiting_answer'))
    const { items } = await store.lists.pending({ session: id }, { limit: 100 })
    const asked = state.status === 'closed' ? [] : unresolvedIn(own)
    expect(asked).toEqual(expect.arrayContaining(liveIn('awaiting_resolution')))
    expect(items.map(({ callId }) => callId).sort()).toEqual([...liveIn('awaiting_approval', 'awaiting_answer'), ...asked].sort())
    const requested = await sql(`select call_id from whole.approvals where status = 'requested' order by 1`)
    expect(requested.map((row) => row.call_id)).toEqual(liveIn('awaiting_approval'))

    const states = statesOf(events)
    const checkpoints = await sql('select version, up_to_seq::int as seq, state, archived_seq from whole.checkpoints order by version')
    expect(checkpoints.map((row) => row.seq)).toEqual(events.filter((event) => event.type === 'checkpoint_made').map((event) => event.seq))
    for (const row of checkpoints) {
      const { accepted: _, ...slim } = states[Number(row.seq) - 1] ?? expect.fail()
      expect(JSON.parse(String(row.state))).toEqual(slim)
    }

    const count = async (table: string) => (await sql(`select * from whole.${table}`)).length
    const ofType = (...types: string[]) => own.filter((event) => types.includes(event.type)).length
    const paidCalls = own.filter((event) => event.type === 'model_completed' || (event.type === 'compacted' && event.usage))
    expect(await count('token_usage')).toBe(paidCalls.length)
    expect(await count('errors')).toBe(
      ofType('model_attempt_failed', 'tool_attempt_failed', 'error_entered', 'compaction_failed', 'content_replaced'),
    )
    expect(await count('approvals')).toBe(ofType('approval_requested'))
    if (hasStartedOver(own)) return
    const [sums] = await sql('select sum(input_tokens)::int as tokens, sum(usd) as usd from whole.token_usage')
    expect(sums?.tokens ?? 0).toBe(state.usage.input_tokens)
    expect(Number(sums?.usd ?? 0)).toBe(Number(session?.usd ?? 0))
  }

  /** The calls whose outcome a person is asked for: they wait even after their run was stopped. */
  function unresolvedIn(events: readonly SessionEvent[]): string[] {
    const asked = new Set<string>()
    for (const event of events) {
      if (event.type === 'tool_unknown' && event.ask) asked.add(event.callId)
      else if (['tool_resolved', 'tool_completed', 'tool_failed', 'tool_unknown'].includes(event.type)) asked.delete(callIdOf(event))
      else if (event.type === 'rolled_back' && event.keys === 'forgotten') for (const { callId } of event.effects) asked.delete(callId)
      else if (event.type === 'recovery_started') for (const callId of madeAgain(event).keys()) asked.delete(callId)
      else if (event.type === 'session_started') asked.clear()
    }
    return [...asked]
  }
  const callIdOf = (event: SessionEvent) => ('callId' in event && event.callId) || expect.fail(event.type)

  const hasStartedOver = (events: readonly SessionEvent[]) => events.some((event) => event.type === 'session_started' && event.after)

  const ROW_STATUS: Record<string, string[]> = {
    issued: ['issued', 'running'],
    awaiting_approval: ['awaiting_approval'],
    awaiting_answer: ['awaiting_answer'],
    awaiting_resolution: ['unknown'],
    completed: ['completed', 'replayed'],
    failed: ['failed', 'denied', 'skipped'],
    // `skipped`: it repeats an unknown call, so it was not executed.
    unknown: ['unknown', 'skipped'],
  }
})

describe('a call that waits for a decision from outside', () => {
  const where = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'refund' }
  const begun: EventBody[] = [
    started(),
    received('u1'),
    { type: 'run_started', run: 1, messageId: 'u1' },
    { type: 'turn_started', run: 1, turn: 1, takes: ['u1'] },
    answered(1, 1, [{ order: 7 }]),
    issued(1, 1, 0),
  ]
  const at = Date.UTC(2026, 10, 22)
  const asked: EventBody = { type: 'approval_requested', ...where, digest: 'd', reason: 'over 100', expiresAt: at, onExpiry: 'deny' }

  it('a call that needs approval is stored as waiting, as decided and as completed, in three flushes', async () => {
    const store = open()
    const log = logOf([
      ...begun,
      asked,
      { type: 'approval_decided', ...where, digest: 'd', approved: true, by: 'ann', note: 'fine\0', input: { order: 8 } },
      { type: 'tool_progress', ...where, attempt: 1, value: { done: '1\0' } },
      { type: 'milestone_reached', ...where, name: 'paid' },
      { type: 'milestone_reached', ...where, name: 'paid' },
      { type: 'milestone_reached', ...where, name: 'mailed' },
      { type: 'milestone_reached', ...where, name: 'boxed' },
      completed(1, 1, 0),
    ])
    const call = 'select status, input, waiting_until, approval, milestones, progress, raw_progress, result from pawl.tool_calls'
    await store.flush('s', EPOCH, log.slice(0, 7))
    expect(await sql('select status, waiting from pawl.sessions')).toEqual([{ status: 'waiting', waiting: 1 }])
    expect(await sql(call)).toMatchObject([
      { status: 'awaiting_approval', waiting_until: new Date(at), approval: { digest: 'd', reason: 'over 100', decision: null } },
    ])
    expect(await sql('select status, expires_at from pawl.approvals')).toEqual([{ status: 'requested', expires_at: new Date(at) }])
    await store.flush('s', EPOCH, log.slice(0, 10))
    expect(await sql('select status, waiting from pawl.sessions')).toEqual([{ status: 'running', waiting: 0 }])
    expect(await sql(call)).toMatchObject([
      {
        status: 'issued',
        input: { order: 8 },
        waiting_until: null,
        approval: { reason: 'over 100', decision: 'approved', decidedBy: 'ann', edited: true },
        milestones: ['paid'],
        progress: { done: '1\ufffd' },
        raw_progress: '{"done":"1\\u0000"}',
      },
    ])
    expect(await sql('select status, decided_by, note, raw_decision from pawl.approvals')).toEqual([
      { status: 'approved', decided_by: 'ann', note: 'fine\ufffd', raw_decision: '{"decidedBy":"ann","note":"fine\\u0000"}' },
    ])
    await store.flush('s', EPOCH, log)
    expect(await sql(call)).toMatchObject([{ status: 'completed', milestones: ['paid', 'mailed', 'boxed'], result: 'done' }])
  })

  it('a call that waits for a decision from outside is stored as denied if its approval is denied or expires', async () => {
    const store = open()
    for (const [id, code] of [
      ['denied', 'denied'],
      ['late', 'approval_expired'],
    ] as const) {
      const verdict: EventBody = {
        type: 'approval_decided',
        ...where,
        digest: 'd',
        approved: false,
        ...(id === 'late' && { expired: true as const }),
      }
      await store.flush(id, EPOCH, logOf([...begun, asked, verdict, { type: 'tool_failed', ...where, attempt: 0, code, message: 'no' }]))
    }
    expect((await sql('select session_id, status from pawl.approvals order by 1')).map((row) => row.status)).toEqual(['denied', 'expired'])
    expect(await sql('select distinct status from pawl.tool_calls')).toEqual([{ status: 'denied' }])
  })

  it('a call with an unknown outcome gets the status that a person decides on, and records who decided', async () => {
    const store = open()
    const unknown: EventBody = { type: 'tool_unknown', ...where, attempt: 1, message: 'who knows', ask: true }
    const said: EventBody = { type: 'tool_resolved', ...where, by: 'person', happened: false, decidedBy: 'ann', note: 'asked the bank' }
    await store.flush('s', EPOCH, logOf([...begun, unknown]))
    expect(await sql('select status, waiting from pawl.sessions')).toEqual([{ status: 'waiting', waiting: 1 }])
    const retried = logOf([...begun, unknown, { ...said, decision: 'retry' }])
    await store.flush('s', EPOCH, retried)
    expect(await sql('select status, error, resolved_by, note, completed_at from pawl.tool_calls')).toEqual([
      { status: 'issued', error: null, resolved_by: 'ann', note: 'asked the bank', completed_at: null },
    ])
    await store.flush(
      't',
      EPOCH,
      logOf([
        ...begun,
        unknown,
        { ...said, decision: 'skip' },
        { type: 'tool_failed', ...where, attempt: 1, code: 'skipped', message: 'left' },
      ]),
    )
    expect(await sql(`select status, resolved_by from pawl.tool_calls where session_id = 't'`)).toEqual([
      { status: 'skipped', resolved_by: 'ann' },
    ])
    expect(await sql(`select kind, by, note, details ->> 'decision' as decision from pawl.recoveries order by session_id`)).toEqual([
      { kind: 'tool_resolved', by: 'ann', note: 'asked the bank', decision: 'retry' },
      { kind: 'tool_resolved', by: 'ann', note: 'asked the bank', decision: 'skip' },
    ])
  })

  it('a call with an unknown outcome does not wait for a person after a rollback that forgot it, even if the rollback does not report it', async () => {
    const store = open()
    const target = begun.length - 2
    const asks: EventBody = { type: 'tool_unknown', ...where, attempt: 1, message: 'it may have happened', ask: true }
    const back: EventBody = { type: 'rolled_back', toSeq: target, upToSeq: begun.length + 2, effects: [], moreEffects: 1 }
    const stopped = logOf([...begun, asks, { type: 'run_interrupted', run: 1 }])
    await store.flush('s', EPOCH, stopped)
    const waiting = async () => (await store.lists.pending({ session: 's' }, { limit: 10 })).items.map(({ callId }) => callId)
    expect(await waiting()).toEqual(['t_1_1_0'])
    const last = stopped.at(-1) ?? expect.fail()
    const kept = logOf([back], last)
    await store.flush('s', EPOCH, kept)
    expect(await waiting()).toEqual(['t_1_1_0'])
    await store.flush('s', EPOCH, logOf([{ ...back, keys: 'forgotten' }], kept.at(-1)))
    expect(await waiting()).toEqual([])
  })
})

describe('a large value', () => {
  it('a large value is referenced in the rows of its message and its call', async () => {
    const blob = { sha256: 'a'.repeat(64), bytes: 9, preview: 'begin' }
    const result = { ...completed(1, 1, 0), blob: { ...blob, sha256: 'b'.repeat(64) } } as Record<string, unknown>
    delete result.value
    const log = logOf([
      started(),
      { type: 'message_received', messageId: 'u1', content: 'begin', blob },
      { type: 'run_started', run: 1, messageId: 'u1' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['u1'] },
      answered(1, 1, [1]),
      issued(1, 1, 0),
      result as never,
    ])
    await open().flush('s', EPOCH, log)
    expect(await sql('select kind, call_ids, blobs from pawl.messages order by seq')).toEqual([
      { kind: 'user', call_ids: null, blobs: [{ block: null, sha256: blob.sha256, bytes: 9 }] },
      { kind: 'assistant', call_ids: ['t_1_1_0'], blobs: null },
      { kind: 'tool_results', call_ids: ['t_1_1_0'], blobs: [{ block: 0, sha256: 'b'.repeat(64), bytes: 9 }] },
    ])
    expect(await sql('select result_blob from pawl.tool_calls')).toEqual([{ result_blob: 'b'.repeat(64) }])
  })
})

describe('a fork', () => {
  it('a fork has its inherited past, but counts none of it', async () => {
    const store = open()
    const source = logOf([started({ sessionId: 'source' }), ...oneRun(1, 'u1')])
    await store.flush('source', EPOCH, source)
    const forked: EventBody = {
      type: 'forked',
      sessionId: 'copy',
      executionId: 'execution-2',
      coreVersion: 2,
      from: { sessionId: 'source', seq: source.length },
      keys: 'carried',
      tags: ['copy'],
    }
    const copy = [...source, ...logOf([forked, ...oneRun(2, 'u2')], source.at(-1))]
    await store.flush('copy', 'execution-2', source, { inherited: 'source' })
    expect(await sql(`select status, turns, input_tokens::int from pawl.sessions where session_id = 'copy'`)).toEqual([
      { status: 'idle', turns: 0, input_tokens: 0 },
    ])
    await store.flush('copy', 'execution-2', copy)
    expect((await store.messages('copy')).map((message) => message.messageId)).toEqual([
      'u1',
      'm_1_1',
      'r_1_1',
      'm_1_2',
      'u2',
      'm_2_1',
      'r_2_1',
      'm_2_2',
    ])
    expect((await store.lists.toolCallsOf('copy')).map((call) => call.callId)).toEqual(['t_2_1_0'])
    expect(
      await sql(`select parent, forked_seq::int, turns, tags, input_tokens::int from pawl.sessions where session_id = 'copy'`),
    ).toEqual([{ parent: 'source', forked_seq: source.length, turns: 2, tags: ['copy'], input_tokens: 20 }])
    expect(await sql('select session_id, count(*)::int from pawl.token_usage group by 1 order by 1')).toEqual([
      { session_id: 'copy', count: 2 },
      { session_id: 'source', count: 2 },
    ])
    const [commits] = await sql(
      `select min(first_seq)::int as first, max(last_seq)::int as last from pawl.commits where session_id = 'copy'`,
    )
    expect(commits).toEqual({ first: source.length + 1, last: copy.length })
  })

  it('a fork answers a call with a known key from its inherited past', async () => {
    const store = open()
    const source = logOf([started({ sessionId: 'source' }), ...oneRun(1, 'u1')])
    const forked: EventBody = {
      type: 'forked',
      sessionId: 'copy',
      executionId: 'execution-2',
      coreVersion: 2,
      from: { sessionId: 'source', seq: source.length },
      keys: 'carried',
    }
    const where = { run: 2, turn: 1, callId: 't_2_1_0', tool: 'refund' }
    const log = [
      ...source,
      ...logOf(
        [
          forked,
          received('u2'),
          { type: 'run_started', run: 2, messageId: 'u2' },
          { type: 'turn_started', run: 2, turn: 1, takes: ['u2'] },
          answered(2, 1, [1]),
          issued(2, 1, 0),
          { type: 'tool_completed', ...where, attempt: 0, replayOf: 't_1_1_0' },
        ],
        source.at(-1),
      ),
    ]
    await store.flush('copy', 'execution-2', source, { inherited: 'source' })
    for (const entry of log.slice(source.length)) await store.flush('copy', 'execution-2', [entry])
    expect((await store.messages('copy')).map(({ role, content }) => ({ role, content }))).toEqual(transcriptOf(eventsOf(log)))
    expect(JSON.stringify((await store.messages('copy')).at(-1)?.content)).toContain('[idempotent replay of t_1_1_0]\\ndone')
  })
})

describe('a session that starts over', () => {
  const lost = logOf([started(), ...oneRun(1, 'u1')])
  const origin = { seq: lost.length, digest: lost.at(-1)?.digest ?? '' }
  const afresh = started({ executionId: 'execution-9', after: { run: 1, checkpoint: 3, origin } })
  const log = logOf([afresh, ...oneRun(2, 'u2')], lost.at(-1))

  it('a session that starts over is accepted from another chain, and leaves its earlier messages in the archive', async () => {
    const store = open()
    await store.flush('s', EPOCH, lost)
    expect(await store.flush('s', 'execution-9', log)).toMatchObject({ epoch: 'execution-9' })
    expect((await store.messages('s')).map((message) => message.messageId)).toEqual(['u2', 'm_2_1', 'r_2_1', 'm_2_2'])
    expect(await sql('select message_id, why, epoch from pawl.archived_messages order by seq')).toEqual(
      ['u1', 'm_1_1', 'r_1_1', 'm_1_2'].map((message_id) => ({ message_id, why: 'started_over', epoch: EPOCH })),
    )
    expect(await sql('select run, checkpoint, turns from pawl.sessions')).toEqual([{ run: 2, checkpoint: 3, turns: 2 }])
  })

  it('a session that starts over is accepted by a store that has none of its past', async () => {
    const store = open()
    expect(await store.flush('s', 'execution-9', log)).toMatchObject({ seq: log.at(-1)?.seq })
    expect(await sql('select origin_seq::int from pawl.sessions')).toEqual([{ origin_seq: lost.length }])
    expect(await store.resume('s')).toMatchObject({ state: { run: 2, origin }, warnings: [] })
  })
})

describe('every flush', () => {
  it('every flush records what it committed in one row', async () => {
    const store = open()
    const log = logOf([started(), ...oneRun(1, 'u1'), ...oneRun(2, 'u2')])
    await store.flush('s', EPOCH, log.slice(0, 4))
    await store.flush('s', EPOCH, log.slice(0, 4))
    await store.flush('s', EPOCH, log)
    expect(await sql('select first_seq::int, last_seq::int from pawl.commits order by 1')).toEqual([
      { first_seq: 1, last_seq: 4 },
      { first_seq: 5, last_seq: log.length },
    ])
  })
})
