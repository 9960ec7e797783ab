// One agent with plan, memory, slices and hooks, killed at its boundaries: each ends as without kills, and each hook's answer counts once.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Duration, Json, Slice } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { type CrashConversation, crashTest, startStack, type Stack } from 'pawl/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { seed, size, variants } from '../support/sizes.ts'
import { type Compiled, compile } from './support/build.ts'

/** Two of the three stages of each place. */
const stages = variants(['before', 'during|end', 'after'], 2).join('|')

/** The soak kills a short plan at every boundary, and a long one at some of them and at random. */
const CASES = size<Case[]>(
  [{ steps: 3, only: new RegExp(`^(model:1:[35]|tool:t_1_3_0)/(${stages})$`), random: { rounds: 1, kinds: ['kill'] }, timeout: '60s' }],
  [
    { steps: 8, timeout: '120s' },
    { steps: 100, only: /^(model:1:(3|50|102)|tool:t_1_(3|50)_0)\//, random: { rounds: 3 }, timeout: '300s' },
  ],
)

interface Case {
  steps: number
  /** Default: every boundary. */
  only?: RegExp
  timeout: Duration
  random?: { rounds: number; kinds?: 'kill'[] }
}

let fixtures: Compiled
let stack: Stack
let money: Slice<'money', { cents: number; receipts: number }>
const folder = mkdtempSync(join(tmpdir(), 'pawl-minds-'))
const ledger = join(folder, 'ledger')

beforeAll(async () => {
  fixtures = await compile(['test/crash/fixtures/minds.ts'])
  // Random rounds of all kinds stop servers, which no other test may share.
  stack = await startStack(size({}, { temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] }))
  ;({ money } = (await import(pathToFileURL(fixtures.path('minds')).href)) as { money: typeof money })
})
afterAll(async () => {
  await stack?.stop()
  await fixtures?.remove()
  rmSync(folder, { recursive: true })
})

/** What became of the agent's mind, and what its hooks answered, without what differs between sessions. */
async function mindOf(session: SessionHandle): Promise<Json> {
  const plan = await session.plan()
  const memory = await session.memory()
  const answers = ofType(await eventsOf(session), 'hook_answered').filter(({ answer }) => answer)
  return {
    plan: { version: plan?.version ?? 0, open: plan?.steps.filter(({ status }) => status !== 'done').length ?? 0 },
    memory: memory.map(({ content }) => content),
    money: await session.slice(money),
    hooks: answers.map(({ hook, on, run, turn, callId = '', answer }) => [hook, on, run, turn, callId, JSON.stringify(answer)].join(' ')),
  }
}

const title = `a mind with a plan of $steps steps is the same wherever a process is killed (seed ${seed}, again with PAWL_SEED)`

it.each(CASES)(title, { timeout: 1_800_000 }, async ({ steps, only, random, timeout }) => {
  let mind: Json = null
  const result = await crashTest({
    module: fixtures.path('minds'),
    script: [
      'go',
      async ({ send, session }: CrashConversation) => {
        await (await send('halt')).settled({ timeout: '60s' })
        mind = await mindOf(session)
      },
    ],
    world: {
      start: () => ({ MIND_STEPS: `${steps}`, MIND_LEDGER: ledger }),
      reset() {
        mind = null
        writeFileSync(ledger, '')
      },
      snapshot: () => mind,
      effects: () =>
        readFileSync(ledger, 'utf8')
          .split('\n')
          .filter(Boolean)
          .map((line) => JSON.parse(line) as Json),
    },
    stack,
    ...(only && { only }),
    timeout,
    random: random ? { seed, ...random } : false,
    log: () => undefined,
  })
  expect(result.ok, result.table).toBe(true)
  expect(result.boundaries.filter(({ verdict }) => verdict === 'ok').length).toBeGreaterThan(5)

  const paid = Array.from({ length: steps }, (_, step) => step).filter((step) => step % 3 !== 2)
  const free = Array.from({ length: steps }, (_, step) => step).filter((step) => step % 3 === 2)
  expect(result.baseline.effects).toMatchObject(paid.map((step) => ({ step, cents: step === 0 ? 100 : 50 })))
  const hooksOf = (name: string) => (result.baseline.world as { hooks: string[] }).hooks.filter((one) => one.startsWith(`${name} `))
  expect(result.baseline.world).toMatchObject({
    plan: { version: steps + 1, open: 0 },
    memory: [Array.from({ length: steps }, (_, step) => `step ${step} is behind me`).join('\n')],
    money: { cents: 100 + (paid.length - 1) * 50, receipts: 200_000 + (paid.length - 1) * 10 },
  })
  expect(hooksOf('cap')).toHaveLength(free.length + 1)
  expect(hooksOf('bookkeeper')).toHaveLength(paid.length)
  expect(hooksOf('herald')).toEqual(['herald turnStart 1 2  {"systemMessage":"take care"}'])
  expect(hooksOf('auditor')).toHaveLength(1)
  expect(hooksOf('doorman')).toEqual([expect.stringContaining('{"stop":"closed"}')])
})
