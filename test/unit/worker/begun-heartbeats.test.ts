// The heartbeat that lets an external body be entered, over a network that is slow, or that loses, repeats or delays what it carries:
// once the body is entered, whatever the server knows of the attempt says that it has begun.
import fc from 'fast-check'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { AttemptReport } from '../../../src/session/attempts.ts'
import {
  type HeartbeatAnswer,
  heartbeatSender,
  type SendHeartbeat,
  type ToSender,
} from '../../../src/worker/orchestrator/heartbeats/heartbeats.ts'
import { startLeases } from '../../../src/worker/orchestrator/heartbeats/leases.ts'
import { order } from './support/crew.ts'

const HEARTBEAT_TIMEOUT_MS = 10_000
const RPC_TIMEOUT_MS = 5_000
const BODY_MS = 25_000
const STEP_MS = 100

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** When one heartbeat arrives, counted from when it is sent, and when its answer does; without an answer its fate stays unknown. */
interface Fate {
  arrivesMs: number[]
  answeredMs?: number
}

const prompt = fc.nat(100).map((ms): Fate => ({ arrivesMs: [ms], answeredMs: ms * 2 }))
const slow = fc.tuple(fc.nat(2_400), fc.nat(2_400)).map(([there, back]): Fate => ({ arrivesMs: [there], answeredMs: there + back }))
const twice = fc
  .tuple(fc.nat(500), fc.nat(500))
  .map(([first, second]): Fate => ({ arrivesMs: [first, second], answeredMs: first + second }))
const lost = fc.constant<Fate>({ arrivesMs: [] })
const unanswered = fc.nat(4_000).map((ms): Fate => ({ arrivesMs: [ms] }))
const tooLate = fc.integer({ min: RPC_TIMEOUT_MS, max: 15_000 }).map((ms): Fate => ({ arrivesMs: [ms] }))
const fates = fc.array(fc.oneof({ arbitrary: prompt, weight: 4 }, slow, twice, lost, unanswered, tooLate), { minLength: 1, maxLength: 12 })

type Outcome = 'entered' | 'refused' | 'still_asking'

const after = (ms: number, act: () => void): void => void setTimeout(act, ms)

/** A server that keeps what it heard last, and gives up an attempt after too long a silence. */
function startServer(each: readonly Fate[]) {
  let heardAt = Date.now()
  let sent = 0
  const server = { begun: false, isGivenUp: false }
  const patience = setInterval(() => {
    server.isGivenUp ||= Date.now() - heardAt >= HEARTBEAT_TIMEOUT_MS
  }, STEP_MS)
  function arrive(begun: boolean): void {
    if (server.isGivenUp) return
    heardAt = Date.now()
    server.begun = begun
  }
  const send: SendHeartbeat = (_, [details]) => {
    const { begun } = JSON.parse(Buffer.from(details?.data ?? []).toString('utf8')) as AttemptReport
    const fate = each[Math.min(sent++, each.length - 1)] ?? { arrivesMs: [] }
    for (const ms of fate.arrivesMs) after(ms, () => arrive(begun))
    return new Promise<HeartbeatAnswer>((resolve, reject) => {
      const { answeredMs } = fate
      if (answeredMs === undefined) after(RPC_TIMEOUT_MS, () => reject(new Error('deadline exceeded')))
      else after(Math.max(0, ...fate.arrivesMs), () => after(answeredMs, () => resolve(server.isGivenUp ? 'lost' : 'mine')))
    })
  }
  return { server, send, stop: () => clearInterval(patience) }
}

/** Takes a lease, asks to begin after a while, and keeps a body at work if it may. The server keeps what it last knew of an attempt. */
async function play(each: readonly Fate[], waitMs: number, encodeMs: number): Promise<Outcome> {
  const { server, send, stop } = startServer(each)
  const leases = startLeases(
    (message: ToSender) => toSender(message),
    async (report) => {
      if (encodeMs > 0) await new Promise((resolve) => setTimeout(resolve, encodeMs))
      return [{ data: Buffer.from(JSON.stringify(report)) }]
    },
    () => () => undefined,
  )
  const toSender = heartbeatSender(send, (message) => leases.receive(message))
  const { ticket } = order('t_1_1_0', { once: true })
  const lease = leases.take({ ...ticket, heartbeatTimeoutMs: HEARTBEAT_TIMEOUT_MS }, () => undefined)
  await vi.advanceTimersByTimeAsync(waitMs)
  const at: { outcome: Outcome; wasKnown: boolean } = { outcome: 'still_asking', wasKnown: false }
  lease.begin().then(
    () => {
      Object.assign(at, { outcome: 'entered', wasKnown: server.begun })
      lease.progress('at work')
    },
    () => {
      at.outcome = 'refused'
    },
  )
  for (let passed = 0; passed < BODY_MS; passed += STEP_MS) {
    await vi.advanceTimersByTimeAsync(STEP_MS)
    if (at.outcome === 'entered')
      expect([at.wasKnown, server.begun], 'what the server knows when the body is entered, and later').toEqual([true, true])
  }
  lease.release()
  stop()
  return at.outcome
}

it('no body is entered while the server may believe that it has not begun', async () => {
  const outcomes: string[] = []
  await fc.assert(
    fc.asyncProperty(fates, fc.nat(8_000), fc.constantFrom(0, 0, 300), async (each, waitMs, encodeMs) => {
      outcomes.push(await play(each, waitMs, encodeMs))
      vi.clearAllTimers()
    }),
    { numRuns: 150 },
  )
  // Otherwise the property says nothing.
  expect(outcomes).toEqual(expect.arrayContaining(['entered', 'refused']))
})

it('a body is refused until the next attempt if an earlier heartbeat may still arrive too late', async () => {
  expect(await play([{ arrivesMs: [9_000] }, { arrivesMs: [10], answeredMs: 20 }], 3_500, 0)).toBe('refused')
})
