// A build whose workflow code cannot replay the open sessions takes over while their calls are in progress, and dies again and again.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { size } from '../support/sizes.ts'
import { type Builds, OTHER_COMMANDS, startBuilds, TURNS } from './support/builds.ts'

const SESSIONS = size(3, 40)
const KILLS = size(4, 30)
const BETWEEN_KILLS_MS = 1_500

let its: Builds

beforeAll(async () => {
  its = await startBuilds()
})
afterAll(() => its?.close())

it('sessions that a new build cannot replay continue with the results of their calls, make none twice, and ask no person', {
  timeout: 300_000,
}, async () => {
  const before = await its.serve({ name: 'before', maxTurns: 20 })
  const sessions = Array.from({ length: SESSIONS }, () => its.pawl.session(`broken-${randomUUID()}`, { agent: 'clerk' }))
  const payments = sessions.map(({ id }) => its.ledger.holdNext({ stage: 'entered', what: 'pay', session: id }))
  const runs = await Promise.all(sessions.map((session) => session.send('go')))
  const held = await Promise.all(payments)
  const after = await its.serve({ name: 'after', maxTurns: 20, workflowModules: OTHER_COMMANDS }, { healAfter: '1s' })
  const drained = before.shutdown()
  for (const payment of held) payment.release()
  const settled = Promise.all(runs.map((run) => run.settled({ timeout: 240_000 })))
  for (let kills = 0; kills < KILLS; kills++) {
    await sleep(BETWEEN_KILLS_MS)
    const pid = after.orchestratorPid()
    if (pid !== undefined) process.kill(pid, 'SIGKILL')
  }
  expect((await settled).filter(({ status }) => status !== 'completed')).toEqual([])
  await drained
  for (const session of sessions) {
    await rowsMatchEvents(inject('stack'), session.id)
    const events = await eventsOf(session)
    expect(ofType(events, 'session_resumed')).toMatchObject([{ unreplayable: { reason: expect.stringContaining('TMPRL1100') } }])
    expect(ofType(events, 'tool_unknown')).toEqual([])
    const paid = its.ledger.marks({ session: session.id, stage: 'entered', what: 'pay' })
    expect(new Set(paid.map(({ key }) => key)).size).toBe(TURNS)
    expect(paid).toHaveLength(TURNS)
  }
})
