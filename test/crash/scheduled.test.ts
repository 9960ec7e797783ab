// Scheduled messages while workers are killed and stopped around the time at which they are due.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { occurrenceIdOf, temporalIdOf } from '../../src/session/protocol/occurrence.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { size } from '../support/sizes.ts'
import { type Plan, finalAnswer, planText } from './support/plan.ts'
import { type Rig, startRig } from './support/rig.ts'

const TIMEOUT = { timeout: 90_000 }
const LIMIT = { timeout: 240_000 }
const SESSIONS = size(6, 30)
const OCCURRENCES = size(12, 100)

let rig: Rig
beforeAll(async () => {
  rig = await startRig()
})
afterAll(() => rig?.close())

const planOf = (name: string): Plan => [[{ tool: 'charge', input: { name } }]]

interface Sent {
  name: string
  dueAt: number
  run: RunHandle
}

/** A session that charges a card later. */
async function chargeAt(dueAt: number): Promise<Sent> {
  const name = `card-${randomUUID()}`
  const session = rig.pawl.session(`crash-${randomUUID()}`, { agent: 'planned' })
  return { name, dueAt, run: await session.send(planText(planOf(name)), { at: dueAt, isNew: true }) }
}

/** Expects that each message was delivered once, not before its time, and had its effect once. */
async function expectOnce(sent: readonly Sent[]): Promise<void> {
  for (const { name, dueAt, run } of sent) {
    expect((await run.result(TIMEOUT)).text).toBe(finalAnswer(planOf(name)))
    const events = await eventsOf(rig.pawl.session(run.sessionId))
    const received = ofType(events, 'message_received')
    expect(received).toHaveLength(1)
    expect(received[0]?.at ?? 0).toBeGreaterThanOrEqual(dueAt)
    expect(rig.ledger.marks({ stage: 'applied' }).filter(({ session }) => session === run.sessionId)).toHaveLength(1)
  }
}

it('a scheduled message is delivered once, whichever process is killed around its time', LIMIT, async () => {
  const { supervisor, serving } = await rig.supervise({ processes: 2 })
  const first = Date.now() + 3_000
  const sent = await Promise.all(Array.from({ length: SESSIONS }, (_, n) => chargeAt(first + n * 400)))
  for (let n = 0; n < SESSIONS; n++) {
    // Just before, at and just after the time.
    await sleep(Math.max(0, first + n * 400 + (n % 3) * 120 - 120 - Date.now()))
    const pids = [supervisor.orchestratorPid(), ...supervisor.pids()].filter((pid) => pid !== undefined)
    const pid = pids[n % pids.length]
    try {
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
    } catch {
      // It was being replaced.
    }
  }
  await expectOnce(sent)
  await serving()
  await supervisor.shutdown()
})

it('a scheduled message is delivered once its workers are back, if they were stopped at its time', LIMIT, async () => {
  const { supervisor } = await rig.supervise({ processes: 1 })
  const dueAt = Date.now() + 5_000
  const sent = await Promise.all(Array.from({ length: 4 }, () => chargeAt(dueAt)))
  // The sessions are open, and their timers run.
  await Promise.all(sent.map(({ run }) => rig.pawl.session(run.sessionId).state()))
  await supervisor.shutdown()
  await sleep(Math.max(0, dueAt + 1_000 - Date.now()))
  const next = await rig.supervise({ processes: 1 })
  await expectOnce(sent)
  await next.supervisor.shutdown()
})

it('a scheduled message of a session that no worker had opened is delivered once one starts', LIMIT, async () => {
  const sent = [await chargeAt(Date.now() + 500), await chargeAt(Date.now() + 15_000)]
  await sleep(1_500)
  const { supervisor } = await rig.supervise({ processes: 1 })
  await expectOnce(sent)
  await supervisor.shutdown()
})

it('each occurrence of a schedule has its effect once, although the orchestrator is killed again and again meanwhile', LIMIT, async () => {
  const { supervisor } = await rig.supervise({ processes: 2 })
  const id = `kills-${randomUUID().slice(0, 8)}`
  const plan = planOf(id)
  await rig.pawl.schedules.create({ id, agent: 'planned', message: planText(plan), every: '1m', paused: true })
  const { temporalAddress, namespace } = inject('stack')
  const connection = await Connection.connect({ address: temporalAddress })
  try {
    const start = new Date('2026-01-01T00:00:30Z')
    const end = new Date(start.getTime() + OCCURRENCES * 60_000)
    await new Client({ connection, namespace }).schedule.getHandle(temporalIdOf(id)).backfill({ start, end, overlap: 'ALLOW_ALL' })
    for (let kills = 0; kills < 4; kills++) {
      await sleep(900)
      const pid = supervisor.orchestratorPid()
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
    }
    for (let n = 1; n <= OCCURRENCES; n++) {
      const session = occurrenceIdOf(id, `${new Date(start.getTime() - 30_000 + n * 60_000).toISOString().slice(0, 19)}Z`)
      expect((await rig.pawl.session(session).run(session).result(TIMEOUT)).text).toBe(finalAnswer(plan))
      expect(rig.ledger.marks({ stage: 'applied' }).filter((mark) => mark.session === session)).toHaveLength(1)
    }
  } finally {
    await rig.pawl.schedules.delete(id)
    await connection.close()
    await supervisor.shutdown()
  }
})

it('a model that sleeps wakes up once at its time, and then acts once, whichever processes are killed meanwhile', LIMIT, async () => {
  const { supervisor, serving } = await rig.supervise({ processes: 2 })
  const started = Date.now()
  const sleeps = Array.from({ length: size(4, 20) }, (_, n) => {
    const name = `card-${randomUUID()}`
    const seconds = 3 + n * 0.5
    return { name, seconds, plan: [[{ tool: 'sleep', input: { name, seconds } }], ...planOf(name)] satisfies Plan }
  })
  const runs = await Promise.all(
    sleeps.map(({ plan }) => rig.pawl.session(`crash-${randomUUID()}`, { agent: 'planned' }).send(planText(plan), { isNew: true })),
  )
  // Until after the last one wakes up.
  const lastsMs = 3_500 + sleeps.length * 500
  for (let kills = 0; Date.now() - started < lastsMs; kills++) {
    await sleep(450)
    const pid = kills % 2 === 0 ? supervisor.orchestratorPid() : supervisor.pids()[kills % 4 === 1 ? 0 : 1]
    try {
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
    } catch {
      // It was being replaced.
    }
  }
  for (const [n, run] of runs.entries()) {
    await run.result(TIMEOUT)
    const events = await eventsOf(rig.pawl.session(run.sessionId))
    const asleep = ofType(events, 'sleep_started')
    const woken = ofType(events, 'tool_completed').filter(({ tool }) => tool === 'sleep')
    expect(asleep).toHaveLength(1)
    expect(woken).toMatchObject([{ value: { wokenBy: 'time' } }])
    expect((woken[0]?.at ?? 0) - (asleep[0]?.at ?? 0)).toBeGreaterThanOrEqual((sleeps[n]?.seconds ?? 0) * 1_000 - 10)
    expect(rig.ledger.marks({ stage: 'applied' }).filter(({ session }) => session === run.sessionId)).toHaveLength(1)
  }
  await serving()
  await supervisor.shutdown()
})
