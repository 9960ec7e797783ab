// An outage of Temporal is logged in two lines, however many calls fail meanwhile.
import { expect, it } from 'vitest'
import { watchTemporal } from '../../../src/worker/orchestrator/temporal/outages.ts'
import { recorder } from '../../support/recorder.ts'
import { until } from '../../support/until.ts'

const SOON = { retryMs: 5, settlingMs: 5 }
const LONG_MS = 600_000

it('an outage of Temporal logs one line when the server is lost and one when it is back, and none while it settles', async () => {
  const log = recorder()
  const outages = watchTemporal(log, { ...SOON, settlingMs: LONG_MS })
  let isAway = true
  outages.watch({ address: 'host:7233', probe: () => (isAway ? Promise.reject(new Error('refused')) : Promise.resolve()) })
  expect(outages.awayMs()).toBe(0)
  expect(await Promise.all([outages.suspect(), outages.suspect()])).toEqual([true, true])
  await until('time passes', () => outages.awayMs() > 0)
  expect(await outages.suspect()).toBe(true)
  isAway = false
  await until('it is back', () => log.about('answers again').length === 1)
  expect(outages.awayMs()).toBe(0)
  isAway = true
  expect(await outages.suspect()).toBe(true)
  expect(log.about('')).toEqual([
    ['warn', 'Temporal at host:7233 does not answer. Sessions continue when it is back.'],
    ['warn', expect.stringMatching(/^Temporal at host:7233 answers again, after \d+ s\.$/)],
  ])
})

it('failures after a server has settled are not blamed on it', async () => {
  const log = recorder()
  const outages = watchTemporal(log, SOON)
  let isAway = true
  outages.watch({ address: 'host:7233', probe: () => (isAway ? Promise.reject(new Error('refused')) : Promise.resolve()) })
  expect(await outages.suspect()).toBe(true)
  isAway = false
  await until('the server has settled', async () => !(await outages.suspect()))
  expect(log.about('')).toHaveLength(2)
})

it('nothing is logged about a server that answers, or once the watch has ended', async () => {
  const log = recorder()
  const outages = watchTemporal(log, SOON)
  const probes = { well: 0, away: 0 }
  outages.watch({ address: 'well:7233', probe: () => Promise.resolve((probes.well += 1)) })
  expect(await outages.suspect()).toBe(false)
  const end = outages.watch({ address: 'away:7233', probe: () => Promise.reject(new Error(`refused ${(probes.away += 1)}`)) })
  expect(await outages.suspect()).toBe(true)
  await until('it is probed again', () => probes.away > 1)
  end()
  await until('the watch has ended', async () => !(await outages.suspect()))
  expect(log.about('')).toEqual([['warn', expect.stringContaining('away:7233 does not answer')]])
})

it('a frozen Temporal server is noticed although no call of the SDK fails', async () => {
  const log = recorder()
  const outages = watchTemporal(log, { ...SOON, askMs: 5 })
  const answer = [true, true, false, true, false, false]
  const end = outages.watch({
    address: 'host:7233',
    probe: () => ((answer.shift() ?? true) ? Promise.resolve() : Promise.reject(new Error('expired'))),
  })
  await until('it is back', () => log.about('answers again').length === 1)
  end()
  // A single probe without an answer says nothing.
  expect(log.about('does not answer')).toHaveLength(1)
  expect(answer).toEqual([])
})
