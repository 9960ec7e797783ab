// Recovering in bulk, without a deployment: which sessions are tried, how fast, how many at a time, and what is reported.
import { describe, expect, it } from 'vitest'
import { pacer } from '../../../src/client/admin/pacing.ts'
import { recoverInBulk } from '../../../src/client/admin/recovering.ts'
import type { BulkRecoveryOptions } from '../../../src/client/admin/recovery-options.ts'
import { RequestRefusedError, SessionUnavailableError } from '../../../src/client/errors.ts'
import type { RecoverOptions } from '../../../src/client/types.ts'
import type { InErrorFilter, Paging } from '../../../src/store/filters.ts'
import type { SessionInError } from '../../../src/store/listed.ts'

const ME = { by: 'ann', all: true }
const idsFrom = (first: number, last: number): string[] => Array.from({ length: last - first + 1 }, (_, n) => `s${first + n}`)

/** A clock that advances only while its caller sleeps. */
function fakeClock() {
  const clock = { time: 0, now: () => clock.time, sleep: async (ms: number): Promise<void> => void (clock.time += ms) }
  return clock
}

/** Sessions in error, and a `recover` that fails for some of them. */
function fleet(ids: string[], failures: Record<string, unknown> = {}) {
  const inError = new Set(ids)
  const clock = fakeClock()
  const tried: { sessionId: string; how: RecoverOptions; at: number }[] = []
  const limits: number[] = []
  return {
    clock,
    tried,
    limits,
    inError,
    async find({ session }: InErrorFilter, { limit, after }: Paging) {
      if (session !== undefined) return { items: inError.has(session) ? [sessionOf(session)] : [] }
      limits.push(limit)
      const left = ids.slice(Number(after?.[0] ?? 0)).filter((id) => inError.has(id))
      const page = left.slice(0, limit)
      return { items: page.map(sessionOf), ...(left.length > limit && { next: [ids.indexOf(page.at(-1)!) + 1] }) }
    },
    async recover(sessionId: string, how: RecoverOptions) {
      tried.push({ sessionId, how, at: clock.time })
      if (sessionId in failures) throw failures[sessionId]
      inError.delete(sessionId)
    },
  }
}

function sessionOf(sessionId: string): SessionInError {
  return { sessionId, agent: 'support', error: { code: 'broken', reason: 'it is broken', at: 1, strategy: 'continue_run' } }
}

describe('the recovered sessions', () => {
  it('bulk recovery recovers every session once while the list shrinks', async () => {
    const sessions = fleet(idsFrom(1, 250))
    const report = await recoverInBulk(sessions, ME)
    expect(report).toEqual({ sessions: 250, recovered: 250, notInError: 0, refused: 0, failed: 0, problems: [], stopped: false })
    expect(sessions.tried.map(({ sessionId }) => sessionId)).toEqual(idsFrom(1, 250))
    expect(Math.max(...sessions.limits)).toBeLessThanOrEqual(100)
  })

  it('bulk recovery in a dry run recovers none, and reports each session that it found', async () => {
    const sessions = fleet(idsFrom(1, 120))
    const told: string[] = []
    const onSession = ({ sessionId, outcome }: { sessionId: string; outcome: string }) => told.push(`${sessionId} ${outcome}`)
    expect(await recoverInBulk(sessions, { ...ME, dryRun: true, onSession })).toMatchObject({ sessions: 120, recovered: 0 })
    expect(told).toEqual(idsFrom(1, 120).map((id) => `${id} found`))
    expect(sessions.tried).toEqual([])
    expect(sessions.clock.time).toBe(0)
  })

  it('bulk recovery stops at its limit', async () => {
    const sessions = fleet(idsFrom(1, 250))
    expect(await recoverInBulk(sessions, { ...ME, limit: 130 })).toMatchObject({ sessions: 130, recovered: 130, stopped: false })
    expect(sessions.limits).toEqual([100, 30])
  })

  it('bulk recovery skips sessions that have left the error since they were found', async () => {
    const sessions = fleet(idsFrom(1, 3), { s1: new RequestRefusedError('not_in_error', 'idle') })
    const recover = (sessionId: string, how: RecoverOptions) => {
      sessions.inError.delete('s3')
      return sessions.recover(sessionId, how)
    }
    expect(await recoverInBulk({ ...sessions, recover }, ME)).toMatchObject({ recovered: 1, notInError: 2, problems: [] })
    expect(sessions.tried.map(({ sessionId }) => sessionId)).toEqual(['s1', 's2'])
  })

  it('the recovered sessions receive the operator’s name, the reason, and the fact that the recovery is in bulk', async () => {
    const sessions = fleet(['s1'])
    await recoverInBulk(sessions, { ...ME, reason: 'the tool is fixed', strategy: 'restart_run' })
    expect(sessions.tried[0]?.how).toEqual({ by: 'ann', reason: 'bulk recovery: the tool is fixed', strategy: 'restart_run' })
  })
})

describe('the rate of recoveries', () => {
  it('bulk recovery recovers as many sessions per second as requested', async () => {
    const sessions = fleet(idsFrom(1, 4))
    await recoverInBulk(sessions, { ...ME, perSecond: 4 })
    expect(sessions.tried.map(({ at }) => at)).toEqual([0, 250, 500, 750])
  })

  it('bulk recovery recovers ten sessions per second by default', async () => {
    const sessions = fleet(idsFrom(1, 31))
    await recoverInBulk(sessions, ME)
    expect(sessions.clock.time).toBe(3_000)
  })

  it('bulk recovery does not catch up after a pause', async () => {
    const clock = fakeClock()
    const mayBegin = pacer(10, clock)
    await mayBegin()
    clock.time = 5_000
    const begun: number[] = []
    for (let n = 0; n < 3; n++) {
      await mayBegin()
      begun.push(clock.time)
    }
    expect(begun).toEqual([5_000, 5_100, 5_200])
  })

  it('bulk recovery waits for at most twenty sessions that do not answer', async () => {
    const sessions = fleet(idsFrom(1, 45))
    let [open, highest] = [0, 0]
    const waiting: (() => void)[] = []
    const recover = async () => {
      highest = Math.max(highest, ++open)
      await new Promise<void>((resolve) => waiting.push(resolve))
      open -= 1
    }
    const done = recoverInBulk({ ...sessions, recover }, ME)
    for (let answered = 0; answered < 45; ) {
      await new Promise(setImmediate)
      for (const answer of waiting.splice(0)) {
        answer()
        answered += 1
      }
    }
    expect(await done).toMatchObject({ recovered: 45 })
    expect(highest).toBe(20)
  })
})

describe('a problem with one session', () => {
  it('bulk recovery reports a problem with one session by its code and reason, and recovers the rest', async () => {
    const sessions = fleet(idsFrom(1, 5), {
      s1: new RequestRefusedError('choose_strategy', 'no good default'),
      s2: new SessionUnavailableError('s2', { what: 'has no worker' }),
      s4: new TypeError('a bug'),
    })
    const report = await recoverInBulk(sessions, ME)
    expect(report).toMatchObject({ sessions: 5, recovered: 2, refused: 1, failed: 2 })
    expect(report.problems).toMatchObject([
      { sessionId: 's1', outcome: 'refused', problem: { code: 'choose_strategy', message: 'no good default' } },
      { sessionId: 's2', outcome: 'failed', problem: { code: 'session_unavailable', message: expect.stringContaining('has no worker') } },
      { sessionId: 's4', outcome: 'failed', problem: { code: 'recovery_failed', message: 'a bug' } },
    ])
  })

  it('bulk recovery lists up to a thousand problems, and counts all', async () => {
    const ids = idsFrom(1, 1_100)
    const sessions = fleet(ids, Object.fromEntries(ids.map((id) => [id, new RequestRefusedError('no_run', 'no run')])))
    const report = await recoverInBulk(sessions, ME)
    expect(report).toMatchObject({ sessions: 1_100, refused: 1_100 })
    expect(report.problems).toHaveLength(1_000)
  })
})

describe('a bulk recovery', () => {
  it('a bulk recovery stops at the signal, after the recoveries under way', async () => {
    const sessions = fleet(idsFrom(1, 9))
    const controller = new AbortController()
    const onSession = ({ sessionId }: { sessionId: string }) => sessionId === 's3' && controller.abort()
    const report = await recoverInBulk(sessions, { ...ME, onSession, signal: controller.signal })
    expect(report.stopped).toBe(true)
    expect(report.recovered).toBe(sessions.tried.length)
    expect(report.recovered).toBeLessThan(9)
  })

  it('a bulk recovery rejects with an error of the store once the recoveries under way have ended', async () => {
    const sessions = fleet(idsFrom(1, 150))
    let ended = 0
    const find = (filter: InErrorFilter, paging: Paging) => {
      if (paging.after) throw new Error('the store is gone')
      return sessions.find(filter, paging)
    }
    const recover = async () => {
      await new Promise(setImmediate)
      ended += 1
    }
    await expect(recoverInBulk({ ...sessions, find, recover }, ME)).rejects.toThrow('the store is gone')
    expect(ended).toBe(100)
  })
})

it.each<[string, object, string]>([
  ['no filter', { by: 'ann' }, 'No filter was given. Pass code, agent, tag, tags, since or until, or all: true'],
  ['all: false', { by: 'ann', all: false }, 'No filter was given'],
  ['no name', { all: true }, '`by` is required: text of 1 to 1,000 bytes that says who requests it'],
  ['a blank name', { all: true, by: ' ' }, 'who requests it, not " "; it is recorded'],
  ['a reason that is too long', { ...ME, reason: 'x'.repeat(3_000) }, 'text of at most 3,000 bytes'],
  ['no code', { by: 'ann', code: [] }, '`code` must be a code such as overloaded_error, or a list of codes, not [].'],
  ['a strategy that needs a person', { ...ME, strategy: 'manual' }, ', not "manual".'],
  ['a rate of zero', { ...ME, perSecond: 0 }, '`perSecond` must be a number from 0.01 to 1,000, not 0.'],
  ['an invalid time', { by: 'ann', since: 'yesterday' }, '`since` must be a Date'],
  ['a limit of zero', { ...ME, limit: 0 }, '`limit` must be an integer from 1, not 0.'],
  ['a misspelt name', { ...ME, dryrun: true }, 'There is no option dryrun: did you mean dryRun?'],
])('a bulk recovery is refused with %s', async (_, options, message) => {
  const sessions = fleet(['s1'])
  const refusal = { name: 'InvalidOptionError', code: 'invalid_option', message: expect.stringContaining(message) }
  await expect(recoverInBulk(sessions, options as BulkRecoveryOptions)).rejects.toMatchObject(refusal)
  expect(sessions.limits).toEqual([])
})
