// A conversation of one message with an agent that is killed around chosen boundaries: its mind ends up the same each time.
import type { Json } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { type Boundary, type CrashConversation, type CrashTestResult, crashTest, startStack } from 'pawl/testing'
import { expect } from 'vitest'
import { seed, size } from '../../support/sizes.ts'
import { compile } from './build.ts'
import { someBoundaries } from './some-boundaries.ts'

/** Kills around some of the boundaries that match `only` (in the soak, around all), and returns the outcome of the run without kills. */
export async function sameMindAfterKills(fixture: string, only: RegExp, outcome: (session: SessionHandle) => Promise<Json>): Promise<Json> {
  const isChosen = someBoundaries(seed)
  const compiled = await compile([`test/crash/fixtures/${fixture}.ts`])
  try {
    const stack = await startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] })
    try {
      let seen: Json = null
      const result = await crashTest({
        module: compiled.path(fixture),
        script: [
          async ({ send, session }: CrashConversation) => {
            await (await send('go')).result({ timeout: '60s' })
            seen = await outcome(session)
          },
        ],
        world: { reset: () => void (seen = null), snapshot: () => seen, effects: () => [] },
        stack,
        random: false,
        ...size({ only: (boundary: Boundary) => only.test(boundary.id) && isChosen(boundary) }, {}),
        log: () => undefined,
      })
      return outcomeOf(result)
    } finally {
      await stack.stop()
    }
  } finally {
    await compiled.remove()
  }
}

function outcomeOf(result: CrashTestResult): Json {
  expect(result.ok, result.table).toBe(true)
  expect(result.boundaries.filter(({ verdict }) => verdict === 'ok').length).toBeGreaterThan(5)
  return result.baseline.world as Json
}
