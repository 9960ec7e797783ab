// What a client remembers of the contexts that it has compared.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { warnOfOtherContext } from '../../../src/client/session/kept-context.ts'
import type { SessionEvent } from '../../../src/session/events.ts'
import type { Store } from '../../../src/store/store.ts'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

function heapAfterGc(): number {
  gc()
  return process.memoryUsage().heapUsed
}

it('a client that is sent many large contexts keeps none of them, and warns once for each', async () => {
  const started = { v: 1, seq: 1, at: 0, type: 'session_started', sessionId: 's', agent: 'a', context: null, tags: [] } as unknown
  const store = { events: async () => [started as SessionEvent] } as unknown as Store
  let warnings = 0
  const logger = { warn: () => void (warnings += 1), debug() {}, info() {}, error() {} }
  const send = (n: number) => warnOfOtherContext(store, 's', { n, text: 'x'.repeat(90_000) }, logger as never)
  await send(0)
  const before = heapAfterGc()
  for (let n = 0; n < 1_000; n++) await send(n)
  for (let n = 0; n < 10; n++) await send(n)
  expect(heapAfterGc() - before).toBeLessThan(10_000_000)
  expect(warnings).toBe(1_000)
})
