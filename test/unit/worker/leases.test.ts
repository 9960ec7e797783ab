// The lease on an attempt: what its heartbeats carry, and when the body of an external call may be entered.
import type { Payload } from '@temporalio/common'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Ticket } from '../../../src/calls/jobs.ts'
import { AttemptLost } from '../../../src/calls/errors.ts'
import type { AttemptReport } from '../../../src/session/attempts.ts'
import type { FromSender, ToSender } from '../../../src/worker/orchestrator/heartbeats/heartbeats.ts'
import { confirmedJustNow } from '../../../src/worker/confirmed-just-now.ts'
import { startLeases } from '../../../src/worker/orchestrator/heartbeats/leases.ts'

const REPORT: AttemptReport = { attempt: 2, begun: false, failed: [], worker: 'w' }
const TICKET: Ticket = {
  taskToken: new Uint8Array([1, 2]),
  sessionId: 's',
  workflowId: 'pawl:s',
  executionId: 'e',
  activityId: '1',
  subject: { of: 'tool', callId: 't_1_1_0', tool: 'pay' },
  heartbeatTimeoutMs: 10_000,
  report: REPORT,
}

/** A report as details, and back. */
const encoded = (report: AttemptReport): Payload[] => [{ data: new TextEncoder().encode(JSON.stringify(report)) }]
function reportIn(details: Payload[] | undefined): AttemptReport | undefined {
  return details && (JSON.parse(new TextDecoder().decode(details[0]?.data ?? undefined)) as AttemptReport)
}

/** Leases whose sending half a test plays. `story` has the messages with their details decoded. */
function leasesWith({ encode = async (report) => encoded(report) }: { encode?: (report: AttemptReport) => Promise<Payload[]> } = {}) {
  const posted: ToSender[] = []
  const watched = new Map<string, () => void>()
  const leases = startLeases(
    (message) => posted.push(message),
    encode,
    (sessionId, wake) => {
      watched.set(sessionId, wake)
      return () => watched.delete(sessionId)
    },
  )
  return {
    leases,
    posted,
    /** The sessions whose stops other orchestrators announce. */
    watched,
    /** The kinds of messages, with what their details say. */
    story: () => posted.map((message) => [message.type, 'details' in message ? reportIn(message.details) : undefined] as const),
    answer: (message: FromSender) => leases.receive(message),
    /** The number of the last request. */
    asked: () => posted.findLast((message) => message.type === 'tell')?.request ?? 0,
  }
}

const turns = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5))

afterEach(() => void vi.useRealTimers())

describe('a lease', () => {
  it('a lease is held while the newest confirmed heartbeat is fresh, unless the attempt is lost', () => {
    vi.useFakeTimers()
    const { leases, answer } = leasesWith()
    const [one, other] = [leases.take(TICKET, () => undefined), leases.take(TICKET, () => undefined)]
    expect(one.isHeld()).toBe(false)
    for (const id of [1, 2]) answer({ type: 'kept', id, agoMs: 1_000 })
    expect([one.isHeld(), other.isHeld()]).toEqual([true, true])
    answer({ type: 'stop', id: 1, why: 'lost' })
    answer({ type: 'stop', id: 2, why: 'cancelled' })
    expect([one.isHeld(), other.isHeld()]).toEqual([false, true])
    vi.advanceTimersByTime(5_900)
    expect(other.isHeld()).toBe(true)
    vi.advanceTimersByTime(200)
    expect(other.isHeld()).toBe(false)
    answer({ type: 'kept', id: 2, agoMs: 0 })
    expect(other.isHeld()).toBe(true)
    other.release()
    expect(other.isHeld()).toBe(false)
  })

  it('a lease has heartbeats from the moment it is taken until it is released, several per timeout', async () => {
    const { leases, posted } = leasesWith()
    const lease = leases.take(TICKET, () => undefined)
    await turns()
    lease.release()
    expect(posted).toEqual([
      { type: 'start', id: 1, taskToken: TICKET.taskToken, everyMs: 3_030, details: encoded(REPORT) },
      { type: 'end', id: 1 },
    ])
  })

  it('a lease that is released before its report is encoded has no heartbeats', async () => {
    const { leases, posted } = leasesWith({ encode: (report) => turns().then(() => encoded(report)) })
    leases.take(TICKET, () => undefined).release()
    await turns()
    await turns()
    expect(posted).toEqual([{ type: 'end', id: 1 }])
  })

  it('a lease starts its heartbeats when a codec that was away is back', async () => {
    vi.useFakeTimers()
    let isAway = true
    const encode = async (report: AttemptReport): Promise<Payload[]> => {
      if (isAway) throw new Error('the key service is away')
      return encoded(report)
    }
    const { leases, posted, story } = leasesWith({ encode })
    const lease = leases.take(TICKET, () => undefined)
    await expect(lease.begin()).rejects.toThrow('key service')
    expect(posted).toEqual([])
    isAway = false
    await vi.advanceTimersByTimeAsync(500)
    // The report still says begun, though its body was only nearly entered.
    expect(story()).toEqual([['start', { ...REPORT, begun: true }]])
    lease.release()
  })

  it('a lease reports once that the attempt has to stop, and not after its release', async () => {
    const { leases, answer } = leasesWith()
    const told: string[] = []
    leases.take(TICKET, (why) => told.push(why))
    const other = leases.take(TICKET, (why) => told.push(`other ${why}`))
    answer({ type: 'stop', id: 1, why: 'cancelled' })
    other.release()
    answer({ type: 'stop', id: 2, why: 'lost' })
    expect(told).toEqual(['cancelled'])
  })

  it('a lease encodes its reports one after another, so none overtakes a newer one', async () => {
    const waits = [30, 1]
    const encode = async (report: AttemptReport): Promise<Payload[]> => {
      await new Promise((resolve) => setTimeout(resolve, waits.shift() ?? 0))
      return encoded(report)
    }
    const { leases, story } = leasesWith({ encode })
    const lease = leases.take(TICKET, () => undefined)
    const failed = [{ attempt: 1, class: 'Error', message: 'm', retryable: true, worker: 'w' }]
    void lease.begin()
    void lease.record({ failed })
    await expect.poll(story).toHaveLength(3)
    expect(story().map(([type, report]) => [type, report?.failed.length])).toEqual([
      ['start', 1],
      ['tell', 1],
      ['tell', 1],
    ])
    expect(lease.report).toEqual({ ...REPORT, begun: true, failed })
  })

  it('a lease asks whether the attempt is still its own after it has sent earlier reports, so the answer covers them', async () => {
    const { leases, story } = leasesWith({ encode: (report) => turns().then(() => encoded(report)) })
    const lease = leases.take(TICKET, () => undefined)
    lease.progress('half')
    void lease.stillMine()
    await expect.poll(story).toContainEqual(['tell', { ...REPORT, progress: 'half' }])
  })

  it('a lease encodes progress only a few times if it is reported a thousand times in a moment, the newest last', async () => {
    let encodings = 0
    const encode = async (report: AttemptReport): Promise<Payload[]> => {
      encodings += 1
      await new Promise((resolve) => setTimeout(resolve, 1))
      return encoded(report)
    }
    const { leases, story } = leasesWith({ encode })
    const lease = leases.take(TICKET, () => undefined)
    for (let n = 1; n <= 1_000; n++) lease.progress(n)
    await expect.poll(() => story().at(-1)).toEqual(['note', { ...REPORT, progress: 1_000 }])
    expect(encodings).toBeLessThan(5)
    expect(lease.report.progress).toBe(1_000)
  })
})

describe('a lease whose session was asked to stop', () => {
  const tells = (posted: readonly ToSender[]) => posted.flatMap((message) => (message.type === 'tell' ? [message.id] : []))

  it.each([
    ['in this orchestrator', ({ leases }: ReturnType<typeof leasesWith>) => leases.askForStops('s')],
    ['in another one', ({ watched }: ReturnType<typeof leasesWith>) => watched.get('s')?.()],
  ])('a lease whose session was asked to stop %s asks the server three times within a second, and no other lease does', async (_, tell) => {
    vi.useFakeTimers()
    const all = leasesWith()
    all.leases.take(TICKET, () => undefined)
    all.leases.take({ ...TICKET, sessionId: 'other' }, () => undefined)
    tell(all)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(tells(all.posted)).toEqual([1, 1, 1])
  })

  it('a lease whose session was asked to stop does not ask more often if it is notified both ways', async () => {
    vi.useFakeTimers()
    const { leases, watched, posted } = leasesWith()
    leases.take(TICKET, () => undefined)
    leases.askForStops('s')
    await vi.advanceTimersByTimeAsync(10)
    watched.get('s')?.()
    await vi.advanceTimersByTimeAsync(1_000)
    expect(tells(posted)).toEqual([1, 1, 1])
    leases.askForStops('s')
    await vi.advanceTimersByTimeAsync(1_000)
    expect(tells(posted)).toHaveLength(6)
  })

  it('a lease no longer asks about a stop once the server has answered or the lease was released', async () => {
    vi.useFakeTimers()
    const { leases, watched, posted, answer } = leasesWith()
    leases.take(TICKET, () => undefined)
    leases.take({ ...TICKET, sessionId: 'other' }, () => undefined).release()
    expect([...watched.keys()]).toEqual(['s'])
    leases.askForStops('s')
    await vi.advanceTimersByTimeAsync(50)
    answer({ type: 'stop', id: 1, why: 'cancelled' })
    await vi.advanceTimersByTimeAsync(1_000)
    expect(tells(posted)).toEqual([1])
    expect(watched.size).toBe(0)
  })
})

describe('what a lease asks', () => {
  it.each([
    ['an external body', true as const, { alone: true }],
    ['any other', undefined, {}],
  ])('a lease asks the server to record that %s is about to be entered', async (_, once, more) => {
    const { leases, posted, answer, asked, story } = leasesWith()
    const lease = leases.take({ ...TICKET, ...(once && { once }) }, () => undefined)
    const begun = lease.begin()
    await turns()
    expect(posted.at(-1)).toEqual({ type: 'tell', id: 1, request: 1, details: encoded({ ...REPORT, begun: true }), ...more })
    expect(story()[0]).toEqual(['start', expect.anything()])
    answer({ type: 'told', request: asked(), answer: 'mine' })
    await begun
  })

  it('a lease asks the server to record what is set aside before a request, and every later heartbeat keeps it', async () => {
    const { leases, posted, answer, asked } = leasesWith()
    const lease = leases.take(TICKET, () => undefined)
    const reserved = { inputTokens: 1, outputTokens: 2, inputUsd: 0.1, outputUsd: 0.2 }
    const reserving = lease.reserve(reserved)
    await turns()
    expect(posted.at(-1)).toEqual({ type: 'tell', id: 1, request: 1, details: encoded({ ...REPORT, reserved }), last: true })
    answer({ type: 'told', request: asked(), answer: 'mine' })
    await reserving
    expect(lease.report.reserved).toEqual(reserved)
  })

  it('a lease lets no body be entered if the attempt is lost, nor while the server cannot be reached', async () => {
    const { leases, answer, asked } = leasesWith()
    const lease = leases.take(TICKET, () => undefined)
    const first = lease.begin()
    await turns()
    answer({ type: 'told', request: asked(), answer: 'lost' })
    await expect(first).rejects.toMatchObject({ code: 'attempt_lost' })
    const second = lease.begin()
    await turns()
    answer({ type: 'not_told', request: asked(), reason: 'away' })
    await expect(second).rejects.toMatchObject({ code: 'heartbeat_failed', message: expect.stringContaining('away') })
  })

  it('a lease reports its attempt as current only if the attempt is not lost and the server can be reached', async () => {
    const { leases, answer, asked } = leasesWith()
    const lease = leases.take(TICKET, () => undefined)
    for (const [said, is] of [
      [{ type: 'told', answer: 'mine' }, true],
      [{ type: 'told', answer: 'cancelled' }, true],
      [{ type: 'told', answer: 'lost' }, false],
      [{ type: 'not_told', reason: 'away' }, false],
    ] as const) {
      const mine = lease.stillMine()
      await turns()
      answer({ ...said, request: asked() })
      expect(await mine).toBe(is)
    }
  })

  it('a lease asks about its attempt only once its heartbeats have started, however slow the codec is', async () => {
    const { leases, story } = leasesWith({ encode: (report) => turns().then(() => encoded(report)) })
    void leases.take(TICKET, () => undefined).stillMine()
    await expect.poll(() => story().map(([type]) => type)).toEqual(['start', 'tell'])
  })
})

/** Answers that take these times, on a clock of their own; the last time applies to all that follow. */
function answersTaking(...durations: number[]) {
  let now = 0
  let asks = 0
  return {
    now: () => now,
    asked: () => asks,
    ask() {
      now += durations[Math.min(asks, durations.length - 1)] ?? 0
      asks += 1
      return Promise.resolve()
    },
  }
}

describe('the body of an external call', () => {
  it('the body of an external call may be entered when the server has just confirmed the attempt', async () => {
    const server = answersTaking(5)
    expect(await confirmedJustNow(server.ask, [server.now])).toBe(true)
    expect(server.asked()).toBe(1)
  })

  it('the body of an external call is confirmed again if the answer took long, as after a pause of the process', async () => {
    const server = answersTaking(60_000, 5)
    expect(await confirmedJustNow(server.ask, [server.now])).toBe(true)
    expect(server.asked()).toBe(2)
  })

  it('the body of an external call is not entered if the new answer says that another attempt is the current one', async () => {
    const server = answersTaking(60_000)
    const ask = () => (server.asked() === 0 ? server.ask() : Promise.reject(new AttemptLost()))
    await expect(confirmedJustNow(ask, [server.now])).rejects.toMatchObject({ code: 'attempt_lost' })
  })

  it('the body of an external call is not entered if no answer comes in time', async () => {
    const server = answersTaking(4_000)
    expect(await confirmedJustNow(server.ask, [server.now])).toBe(false)
    expect(server.asked()).toBe(5)
  })
})
