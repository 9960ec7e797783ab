// A process ends inside a hook: the run ends as it would have, the hook runs again, and its answer and its reports count once.
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { foldedState } from '../support/folded.ts'
import { seed, variants } from '../support/sizes.ts'
import { until, untilFound } from '../support/until.ts'
import { type Compiled, compile } from './support/build.ts'
import { type Rig, startRig } from './support/rig.ts'

let rig: Rig
let fixtures: Compiled
let folder: string

beforeAll(async () => {
  fixtures = await compile(['test/crash/fixtures/hooked.ts'])
  folder = await mkdtemp(join(tmpdir(), 'pawl-hooks-'))
  rig = await startRig()
  await rig.supervise({ module: fixtures.path('hooked'), processes: 2 })
})
afterAll(async () => {
  await rig?.close()
  await fixtures?.remove()
  if (folder) await rm(folder, { recursive: true })
})

async function open(dies: string): Promise<{ session: SessionHandle; ran: () => Promise<string[]> }> {
  const id = `hooked-${randomUUID()}`
  const file = join(folder, id)
  await writeFile(file, '')
  const session = rig.pawl.session(id, { agent: 'hooked', context: { file, dies } })
  return { session, ran: async () => (await readFile(file, 'utf8')).trim().split('\n') }
}

/** The recorded hooks, in order, and what each saw. Each hook is recorded once, and so is its report. */
async function recorded(session: SessionHandle) {
  const events = await eventsOf(session)
  const hooks = ofType(events, 'hook_answered')
  const reports = ofType(events, 'emitted')
  const placeOf = ({ hook, turn, callId, attempt }: (typeof hooks | typeof reports)[number]) => [hook, turn, callId, attempt]
  expect(reports.map(placeOf)).toEqual(hooks.map(placeOf))
  const names = hooks.map(({ hook, turn, callId }) => `${hook} ${callId ?? turn}`)
  expect(new Set(hooks.map(({ run, hook, turn, callId }) => `${run} ${hook} ${callId ?? turn}`)).size).toBe(hooks.length)
  return { hooks, names, saw: reports.map(({ data }) => data) }
}

const WHOLE = [
  'agentStart 1',
  'turnStart 1',
  'preToolUse t_1_1_0',
  'preToolUse t_1_1_1',
  'postToolUse t_1_1_0',
  'postToolUseFailure t_1_1_1',
  'turnEnd 1',
  'turnStart 2',
  'turnEnd 2',
  'agentStop 2',
]

/** What the hooks of each of the two model calls see of the slice. */
const SEEN = [
  ...Array.from({ length: 4 }, () => ({ outcomes: [], reports: 0 })),
  ...Array.from({ length: 6 }, () => ({ outcomes: ['work', 'fail failed'], reports: 4 })),
]

const DEATH = { context: 'model', call_id: null, class: 'WorkerDied', code: null }
const count = (lines: readonly string[], line: string): number => lines.filter((one) => one === line).length

describe('a hook whose process ends while it runs', () => {
  it.each(variants(['agentStart', 'turnStart', 'turnEnd', 'preToolUse', 'postToolUse', 'postToolUseFailure', 'agentStop'], 2))(
    `a process that ends during a hook on %s costs one attempt and nothing else (seed ${seed}, again with PAWL_SEED)`,
    async (dies) => {
      const { session, ran } = await open(dies)
      expect((await (await session.send('go')).result({ timeout: '120s' })).text).toBe('done')
      const { hooks, names, saw } = await recorded(session)
      expect(names).toEqual(WHOLE)
      expect(saw).toEqual(SEEN)
      const lines = await ran()
      expect([count(lines, 'work'), count(lines, 'fail')]).toEqual([1, 1])
      // A complete answer is not requested again, and the hooks before its request keep their answers.
      expect([count(lines, 'model in turn 1'), count(lines, 'model in turn 2')]).toEqual([1, 1])
      // Its calls are checked against the tools that were active when it was requested.
      expect([count(lines, 'selection of turn 1.1'), count(lines, 'selection of turn 1.2')]).toEqual([1, 1])
      const isAfterAnswer = dies === 'preToolUse' || dies === 'agentStop'
      expect(count(lines, 'turnStart in turn 1')).toBe(dies === 'turnStart' ? 2 : 1)
      const died = hooks.filter(({ on, attempt }) => on === dies && attempt === 2)
      expect(died.length).toBeGreaterThan(0)
      if (isAfterAnswer) expect(hooks.filter(({ on, attempt }) => on === 'turnStart' && attempt > 1)).toEqual([])
      // Besides the tool's failure: a hook on turns dies once per turn, and the second turn's model call runs the turnEnd hooks of both.
      const attempts = { turnStart: [1, 1], turnEnd: [1, 2] }[dies] ?? [1]
      const rows = (await rig.errors(session.id, attempts.length + 1)).filter(({ context }) => context !== 'tool:fail')
      expect(rows).toEqual(attempts.map((attempt) => ({ ...DEATH, attempt })))
    },
  )

  it('a hook whose process ends runs again even if the interruption of its run started it', async () => {
    const { session } = await open('postToolUse')
    const run = await session.send('wait')
    await untilFound(async () => (await run.settled()).status === 'waiting')
    await session.interrupt()
    await until(
      'the hooks have ended',
      async () => (await foldedState(session)).hooksDue === undefined && (await session.state()).current === null,
      120_000,
    )
    const { hooks, names, saw } = await recorded(session)
    expect(saw.slice(5)).toEqual(Array.from({ length: 3 }, () => ({ outcomes: ['work', 'fail failed'], reports: 5 })))
    expect(names.slice(5)).toEqual(['postToolUse t_1_1_0', 'postToolUseFailure t_1_1_1', 'turnEnd 1'])
    expect(hooks.at(5)).toMatchObject({ attempt: 2 })
    expect(ofType(await eventsOf(session), 'hooks_ended')).toMatchObject([{ run: 1, turn: 1 }])
  })

  it('a hook is abandoned after five deaths if its run has ended, and does not hold up the next run', async () => {
    const { session, ran } = await open('postToolUse, always')
    const run = await session.send('wait')
    await untilFound(async () => (await run.settled()).status === 'waiting')
    await session.interrupt()
    expect((await (await session.send('and now?')).result({ timeout: '120s' })).text).toBe('done')
    expect(count(await ran(), 'postToolUse in turn 1')).toBe(5)
    const [ended] = ofType(await eventsOf(session), 'hooks_ended')
    const message = expect.stringMatching(/^The hooks were tried 5 times, and the last worker died: Executor .* died/) as string
    expect(ended?.error).toEqual({ code: 'worker_died', message })
    const { hooks } = await recorded(session)
    expect(hooks.slice(5).map(({ run: of, hook }) => `${hook} of run ${of}`)).toEqual(
      ['agentStart', 'turnStart', 'turnEnd', 'agentStop'].map((hook) => `${hook} of run 2`),
    )
    expect((await foldedState(session)).hooksDue).toBeUndefined()
  })
})
