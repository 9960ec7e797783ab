// The hooks of one place: what is recorded of them, and how much they may add to the result of their step.
import { type AgentContext, defineHook, type HookContext } from 'pawl'
import { describe, expect, it } from 'vitest'
import type { NamedHook } from '../../../src/agent/hook.ts'
import { type HookInvocation, hookRoom, type HookRunner, runHooks } from '../../../src/jobs/run-hooks.ts'
import { areCustomEvents } from '../../../src/session/hooks/custom-events.ts'
import { jsonBytes } from '../../../src/session/json.ts'
import { SILENT } from '../../support/deployment.ts'
import type { HookEvent } from '../../../src/session/hooks/hooks.ts'

type Run = (input: never, ctx: HookContext) => unknown

const CTX: AgentContext = {
  sessionId: 's',
  agent: 'a',
  run: 1,
  turn: 1,
  context: null,
  metadata: {},
  tags: [],
  services: {},
  slices: {},
  log: SILENT,
}
const TURN_START: HookInvocation = { on: 'turnStart', turn: 1, input: { turn: 1 } }

function runnerOf(on: HookEvent, runs: Readonly<Record<string, Run>>, more: object = {}): HookRunner {
  const hooks = Object.entries(runs).map(([name, run]) => defineHook({ on, name, run, ...more } as never) as NamedHook)
  return { hooks, ctx: CTX, attempt: 1, room: hookRoom(), signal: new AbortController().signal }
}

const KB = 1_000
const text = (bytes: number): string => 'x'.repeat(bytes)

describe('what a hook reports', () => {
  it('the record of a hook has its reports, with its answer or its error', async () => {
    const runs = await runHooks(
      runnerOf('turnStart', {
        answers: (_input, { emit }) => {
          emit('seen', { turn: 1 })
          return { appendContext: 'hello' }
        },
        throws: (_input, ctx) => {
          ctx.emit('tried')
          throw new Error('no network')
        },
        silent: () => undefined,
      }),
      TURN_START,
    )
    expect(runs).toMatchObject([
      { hook: 'answers', answer: { appendContext: 'hello' }, emitted: [{ name: 'seen', data: { turn: 1 } }] },
      { hook: 'throws', error: { message: 'no network' }, emitted: [{ name: 'tried' }] },
      { hook: 'silent' },
    ])
    expect(runs[2]).not.toHaveProperty('emitted')
  })

  it('reports of a hook after its timeout are not recorded', async () => {
    let report: HookContext['emit'] = () => expect.fail('it did not run')
    const runner = runnerOf(
      'turnStart',
      {
        slow: (_input, { emit, signal }) => {
          emit('before')
          report = emit
          return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        },
      },
      { timeout: '20ms' },
    )
    const [run] = await runHooks(runner, TURN_START)
    report('after')
    expect(run).toMatchObject({ error: { code: 'timeout' }, emitted: [{ name: 'before' }] })
    expect(run?.emitted).toHaveLength(1)
  })

  it.each<[string, Run]>([
    ['invalid_event', (_input, { emit }) => emit('')],
    ['event_too_large', (_input, { emit }) => emit('large', text(16 * KB))],
    [
      'too_many_events',
      (_input, { emit }) => {
        for (let n = 0; n <= 100; n++) emit('n')
      },
    ],
  ])('reports of a hook beyond the bounds become its error %s', async (code, run) => {
    const [recorded] = await runHooks(runnerOf('turnStart', { run }), TURN_START)
    expect(recorded?.error).toMatchObject({ class: 'ToolError', code })
  })

  it('the reports of all hooks of a step share the space of one result', async () => {
    const fills: Run = (_input, { emit }) => {
      for (let n = 0; n < 5; n++) emit('n', text(15 * KB))
    }
    const runner = runnerOf('turnStart', { one: fills, two: fills })
    const first = await runHooks(runner, TURN_START)
    expect(first.map(({ error }) => error?.code)).toEqual([undefined, 'event_too_large'])
    expect(first[1]?.error?.message).toContain('The custom events of all hooks of one step have at most 128,000 bytes of JSON in all')
    expect(areCustomEvents(first.flatMap(({ emitted = [] }) => emitted))).toBe(true)
    // A later place of the same step, and a process that resumes the step with the hooks that have run.
    for (const room of [runner.room, hookRoom(first)]) {
      const [later] = await runHooks({ ...runner, room, hooks: runner.hooks.slice(0, 1) }, TURN_START)
      expect(later?.error?.code).toBe('event_too_large')
    }
  })
})

describe('the answers of all places of one step', () => {
  it('the answers of all hooks of a step share the space of one result', async () => {
    const talks: Run = () => ({ appendContext: text(60 * KB) })
    const runner = runnerOf('turnStart', { one: talks, two: talks })
    const places = [await runHooks(runner, TURN_START), await runHooks(runner, TURN_START), await runHooks(runner, TURN_START)]
    const answers = places.flat().flatMap(({ answer }) => answer ?? [])
    expect(answers).toHaveLength(4)
    expect(answers.reduce((sum, answer) => sum + jsonBytes(answer), 0)).toBeLessThanOrEqual(256 * KB)
    expect(places[2]?.[0]?.error).toMatchObject({
      code: 'invalid_answer',
      message: expect.stringContaining('the remaining limit is') as string,
    })
  })
})
