// A Temporal dev server whose database was interrupted for good.
import { expect, it } from 'vitest'
import type { StackServer } from '../../../src/local/server.ts'
import { restartIfWedged } from '../../../src/local/temporal/wedged.ts'
import { until } from '../../support/until.ts'

const WEDGED = new Error('14 UNAVAILABLE: GetNamespace operation failed. Error interrupted (9)')
const LOOK_EVERY_MS = 15

/** A server that answers its probes as `answers` says, and with success once it was started again. */
function aServer(answers: () => Error | undefined, starts: () => void = () => undefined) {
  const done: string[] = []
  const said: string[] = []
  let probes = 0
  const server: StackServer = {
    origin: 'embedded',
    get pid() {
      return done.at(-1)?.startsWith('stop') ? undefined : 1
    },
    stop: async (how) => void done.push(`stop ${how}`),
    async start() {
      starts()
      done.push('start')
    },
  }
  const probe = async (): Promise<void> => {
    probes += 1
    const error = done.includes('start') ? undefined : answers()
    if (error) throw error
  }
  const end = restartIfWedged(server, probe, (line) => said.push(line), LOOK_EVERY_MS)
  return { done, said, end, probes: () => probes }
}

it('a Temporal server whose database refuses every statement is restarted once', async () => {
  const { done, said, end, probes } = aServer(() => WEDGED)
  await until('it was restarted and looked at again', () => done.length === 2 && probes() > 6)
  end()
  expect(done).toEqual(['stop crash', 'start'])
  expect(said).toHaveLength(1)
})

it('a Temporal server that is only busy, or interrupts single calls, is left alone', async () => {
  let calls = 0
  const busy = aServer(() => (calls++ % 3 === 2 ? undefined : calls % 2 === 0 ? new Error('14 UNAVAILABLE: no connection') : WEDGED))
  await until('it was looked at often', () => busy.probes() > 20)
  busy.end()
  expect(busy.done).toEqual([])
})

it('a Temporal server that cannot be started at once is started once it can be', async () => {
  let failures = 0
  const late = aServer(
    () => WEDGED,
    () => {
      if (failures++ < 2) throw new Error('Its port is in use.')
    },
  )
  await until('it runs again', () => late.done.length === 2)
  late.end()
  expect(late.done).toEqual(['stop crash', 'start'])
  expect(late.said.slice(1)).toEqual(Array(2).fill('Temporal could not be restarted: Its port is in use.'))
})
