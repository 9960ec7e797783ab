// One agent with plan, checkpoints, memory, slices and hooks, killed at its boundaries: each ends as without kills. A finished step and its
// checkpoint are both recorded, or neither is; no text is stored twice, or missing; and each hook's answer counts once.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Duration, Json, Plan, Slice } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { type CrashTestOptions, type CrashTestResult, crashTest, startStack, type Stack } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { seed, size, variants } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { type Compiled, compile } from './support/build.ts'

/** What a step of a script that is a function gets. */
type Conversation = Parameters<Extract<CrashTestOptions['script'][number], (...args: never[]) => unknown>>[0]

/** Two of the three stages of a place of each kind. */
const places = [...variants(['model:1:3', 'model:1:5'], 1), 'tool:t_1_3_2', 'flush:2', 'checkpoint:1'].join('|')
const stages = variants(['before', 'during|end', 'after'], 2).join('|')

/** The soak kills a short plan at every boundary, and a long one at some of them and at random. */
const CASES = size<Case[]>(
  [{ steps: 3, only: new RegExp(`^(${places})/(${stages})$`), random: { rounds: 1, kinds: ['kill'] }, timeout: '60s' }],
  [
    { steps: 8, timeout: '120s' },
    { steps: 100, only: /^(model:1:(3|50|102)|tool:t_1_(3_2|50_0))\//, random: { rounds: 3 }, timeout: '300s' },
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
interface Mind {
  plan: Plan | null
  /** The changes of the plan and the checkpoints. */
  order: string[]
  /** Whether the first step was done at the time of its checkpoint. */
  together: boolean
  /** The newest checkpoint that is stored. */
  stored: string
  memory: string[]
  /** What the model was told about the memory. */
  told: string[]
  money: { cents: number; receipts: number }
  hooks: string[]
}

async function mindOf(session: SessionHandle): Promise<Mind> {
  const events = await eventsOf(session)
  const made = ofType(events, 'checkpoint_made')
  const [, stepDone] = ofType(events, 'plan_changed')
  const newest = await until('the last checkpoint is stored', async () => {
    const [first] = await session.checkpoints()
    return first?.version === made.at(-1)?.version && first
  })
  const answers = ofType(events, 'hook_answered').filter(({ answer }) => answer)
  return {
    plan: await session.plan(),
    order: events.flatMap((event) => {
      if (event.type === 'plan_changed') return [`${event.version} ${event.change.do}`]
      return event.type === 'checkpoint_made' ? [`checkpoint ${event.version} of turn ${event.turn}: ${event.reasons.join(', ')}`] : []
    }),
    // Time does not advance within a workflow task: the last call of turn 2 finishes the step and makes its checkpoint.
    together: made[0]?.at === stepDone?.at,
    stored: `${newest.version} ${newest.reasons.join(', ')}`,
    memory: (await session.memory()).map(({ content }) => content),
    told: events.flatMap((event) => {
      if (event.type === 'memory_changed') return [`version ${event.version}`]
      return event.type === 'tool_completed' && event.tool === 'memory_append' ? [(event.value as { status: string }).status] : []
    }),
    money: await session.slice(money),
    hooks: answers.map(({ hook, on, run, turn, callId = '', answer }) => [hook, on, run, turn, callId, JSON.stringify(answer)].join(' ')),
  }
}

const title = `a mind with a plan of $steps steps, wherever a process is killed (seed ${seed}, again with PAWL_SEED)`

describe.each(CASES)(title, ({ steps, only, random, timeout }) => {
  const all = Array.from({ length: steps }, (_, step) => step)
  const paid = all.filter((step) => step % 3 !== 2)
  const free = all.filter((step) => step % 3 === 2)
  let result: CrashTestResult
  let mind: Mind

  beforeAll(async () => {
    let seen: Mind | null = null
    result = await crashTest({
      module: fixtures.path('minds'),
      script: [
        'go',
        async ({ send, session }: Conversation) => {
          await (await send('halt')).settled({ timeout: '60s' })
          seen = await mindOf(session)
        },
      ],
      world: {
        start: () => ({ MIND_STEPS: `${steps}`, MIND_LEDGER: ledger }),
        reset() {
          seen = null
          writeFileSync(ledger, '')
        },
        snapshot: () => seen as unknown as Json,
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
    mind = result.baseline.world as unknown as Mind
  }, 1_800_000)

  it('a session with kills has the transcript of one without', () => {
    expect(result.ok, result.table).toBe(true)
    expect(result.boundaries.filter(({ verdict }) => verdict === 'ok').length).toBeGreaterThan(5)
  })

  it('a session with kills has each step of its plan and its checkpoint once', () => {
    expect(mind.plan).toEqual({
      version: steps + 1,
      objective: 'All steps',
      steps: all.map((step) => ({ id: `s${step}`, title: `Step ${step}`, status: 'done', evidence: `paid ${step}` })),
    })
    const ofStep = (step: number): string[] => [`${step + 2} update_step`, `checkpoint ${step + 1} of turn ${step + 2}: step_done`]
    expect(mind.order).toEqual(['1 setup', ...all.flatMap(ofStep)])
    expect(mind.together).toBe(true)
    expect(mind.stored).toBe(`${steps} step_done`)
  })

  it('a session with kills has each text in its memory once', () => {
    const later = all.slice(2)
    expect(mind.memory).toEqual([
      ['step 0 of the plan is behind me, and step 1, too', ...later.map((step) => `step ${step} of the plan is behind me`)].join('\n'),
    ])
    const told = (step: number): string[] => [`version ${step + 1}`, 'success', ...(step === 2 ? ['already_present'] : [])]
    expect(mind.told).toEqual(['version 1', 'success', 'version 2', 'resumed_partial', ...later.flatMap(told)])
  })

  it('a session with kills pays for each step once, and adds it to its slice once', () => {
    expect(result.baseline.effects).toMatchObject(paid.map((step) => ({ step, cents: step === 0 ? 100 : 50 })))
    expect(mind.money).toEqual({ cents: 100 + (paid.length - 1) * 50, receipts: 200_000 + (paid.length - 1) * 10 })
  })

  it('a session with kills has each answer of its hooks once', () => {
    const hooksOf = (name: string) => mind.hooks.filter((one) => one.startsWith(`${name} `))
    expect(hooksOf('cap')).toHaveLength(free.length + 1)
    expect(hooksOf('bookkeeper')).toHaveLength(paid.length)
    expect(hooksOf('herald')).toEqual(['herald turnStart 1 2  {"systemMessage":"take care"}'])
    expect(hooksOf('auditor')).toHaveLength(1)
    expect(hooksOf('doorman')).toEqual([expect.stringContaining('{"stop":"closed"}')])
  })
})
