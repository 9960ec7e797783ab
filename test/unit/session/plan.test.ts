// Plans: what the plan tools change and refuse, how versions are kept, and what going back and checkpoints do to them.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { planPolicy, PLAN_DEFINITIONS, PLAN_GUIDANCE } from '../../../src/agent/plan-tools.ts'
import { defined } from '../../../src/session/defined.ts'
import type { EventOf, SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { type Json, jsonBytes } from '../../../src/session/json.ts'
import { bytesOfPlan, type Plan, type PlanState, PLAN_BYTES } from '../../../src/session/built-in-tools/plan.ts'
import { PLAN } from '../../../src/session/built-in-tools/kept.ts'
import { answerOnPlan, PLAN_LIMITS, PLAN_TOOLS, STEP_STATUSES } from '../../../src/session/built-in-tools/plan-tools.ts'
import { keptBeforeRun } from '../../../src/session/recovery/kept.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript } from '../../../src/session/transcript/transcript.ts'
import { eventfulSessions, FIXED_SESSIONS, metInSessions } from './sound-session.ts'
import { size } from '../../support/sizes.ts'
import { planVersions } from '../../support/past.ts'

const STEPS = [
  { id: 'book', title: 'Book the flight', postconditions: 'There is a booking code.' },
  { id: 'pay', title: 'Pay' },
  { id: 'mail', title: 'Send the mail' },
]

/** Plays calls one after another. Returns the answer to each, and the plan after them. */
function playing(...calls: readonly (readonly [tool: string, input: Json])[]) {
  let state: PlanState | undefined
  const answers = calls.map(([tool, input]) => {
    const answer = answerOnPlan(tool, input, state, PLAN_BYTES)
    if ('problem' in answer) return answer.problem
    if (answer.change) state = PLAN.afterChange(state, (state?.version ?? 0) + 1, answer.change)
    return answer.text
  })
  return { answers, last: answers.at(-1), state, plan: state?.current ?? null }
}

const setUp = ['plan_setup', { objective: 'To Rome', steps: STEPS }] as const
/** Booking has postconditions, so it needs evidence to be done. */
const update = (id: string, status: string, evidence = id === 'book' && status === 'done' ? 'Code X7' : undefined) =>
  ['plan_update_step', { id, status, ...defined({ evidence }) }] as const

describe('plan_setup', () => {
  it('plan_setup makes the first version, with all steps pending', () => {
    const { plan, last } = playing(setUp)
    expect(plan).toEqual({ version: 1, objective: 'To Rome', steps: STEPS.map((step) => ({ ...step, status: 'pending' })) })
    expect(last).toBe(
      'The plan is recorded.\n0 of 3 steps of the plan are done.\nNext: book (Book the flight); pay (Pay); mail (Send the mail)',
    )
  })

  it('plan_setup does not replace an unfinished plan unless the call asks for it', () => {
    const other = { objective: 'To Paris', steps: [{ id: 'train', title: 'Take the train' }] }
    const { plan, last } = playing(setUp, update('book', 'done'), ['plan_setup', other])
    expect(last).toMatchObject({ code: 'plan_unfinished', message: expect.stringContaining('1 of 3 steps of the plan are done.') })
    expect(plan?.objective).toBe('To Rome')
    expect(playing(setUp, ['plan_setup', { ...other, replace: true }]).plan).toMatchObject({ version: 2, objective: 'To Paris' })
  })

  it('plan_setup replaces a finished plan', () => {
    const done = STEPS.map(({ id }) => update(id, 'done'))
    const { plan, answers } = playing(setUp, ...done, ['plan_setup', { objective: 'Back home', steps: STEPS }])
    expect(answers.at(-2)).toBe('The change is recorded.\nAll 3 steps of the plan are done.')
    expect(plan).toMatchObject({ version: 5, objective: 'Back home' })
  })

  it('plan_setup refuses two steps with the same id', () => {
    expect(playing(['plan_setup', { objective: 'o', steps: [...STEPS, { id: 'pay', title: 'Pay again' }] }])).toMatchObject({
      last: { code: 'duplicate_step', message: 'Two steps have the id "pay": each step needs an id of its own.' },
      plan: null,
    })
  })
})

describe('a step with postconditions', () => {
  const done = { id: 'book', status: 'done' }

  it('a step with postconditions becomes done only with evidence, which may have been given before', () => {
    for (const evidence of [undefined, null, '']) {
      expect(playing(setUp, ['plan_update_step', { ...done, ...(evidence !== undefined && { evidence }) }])).toMatchObject({
        last: { code: 'evidence_required', message: expect.stringContaining('There is a booking code.') },
        plan: { version: 1 },
      })
    }
    expect(playing(setUp, ['plan_update_step', { ...done, evidence: 'Code X7' }]).plan).toMatchObject({ version: 2 })
    expect(playing(setUp, update('book', 'in_progress', 'Code X7'), ['plan_update_step', done]).plan).toMatchObject({
      version: 3,
      steps: [{ status: 'done', evidence: 'Code X7' }, {}, {}],
    })
  })

  it('a step with postconditions needs none for any other status, and a step without postconditions never does', () => {
    expect(playing(setUp, update('book', 'blocked'), update('pay', 'done')).plan).toMatchObject({ version: 3 })
  })
})

describe('plan_add_step', () => {
  it('plan_add_step adds a step at the end, or after another one', () => {
    const { plan } = playing(
      setUp,
      ['plan_add_step', { id: 'rest', title: 'Rest' }],
      ['plan_add_step', { id: 'pack', title: 'Pack', after: 'book' }],
    )
    expect(plan?.steps.map(({ id }) => id)).toEqual(['book', 'pack', 'pay', 'mail', 'rest'])
    expect(plan?.version).toBe(3)
  })

  it('plan_add_step refuses an id that the plan already has, a position that does not exist, and a session without a plan', () => {
    const add = (input: Json) => ['plan_add_step', input] as const
    expect(playing(setUp, add({ id: 'pay', title: 'Pay' })).last).toMatchObject({ code: 'duplicate_step' })
    expect(playing(setUp, add({ id: 'new', title: 'New', after: 'nothing' })).last).toEqual({
      code: 'unknown_step',
      message: 'The plan has no step "nothing". Its steps are: book, pay, mail.',
    })
    expect(playing(add({ id: 'new', title: 'New' })).last).toMatchObject({
      code: 'no_plan',
      message: expect.stringContaining('plan_setup'),
    })
  })
})

describe('plan_update_step', () => {
  it('plan_update_step changes status and evidence, and reports the progress of the plan', () => {
    const { plan, last } = playing(
      setUp,
      update('book', 'done', 'Code X7'),
      update('mail', 'blocked', 'No address'),
      update('pay', 'in_progress'),
    )
    expect(plan?.steps.map(({ status, evidence }) => [status, evidence])).toEqual([
      ['done', 'Code X7'],
      ['in_progress', undefined],
      ['blocked', 'No address'],
    ])
    expect(last).toBe('The change is recorded.\n1 of 3 steps of the plan are done.\nIn progress: pay (Pay)\nBlocked: mail (Send the mail)')
  })

  it('plan_update_step does not reopen a step that is done', () => {
    for (const status of STEP_STATUSES.filter((one) => one !== 'done')) {
      const { plan, last } = playing(setUp, update('book', 'done'), update('book', status))
      expect(last).toMatchObject({ code: 'step_done', message: expect.stringContaining('plan_add_step') })
      expect(plan?.version).toBe(2)
    }
  })

  it('plan_update_step makes no version if nothing changes', () => {
    const { plan, last } = playing(setUp, update('book', 'done', 'Code X7'), update('book', 'done'), update('book', 'done', 'Code X7'))
    expect(plan?.version).toBe(2)
    expect(last).toContain('Nothing has changed')
    expect(playing(setUp, update('book', 'done'), update('book', 'done', 'Code X8')).plan?.version).toBe(3)
  })

  it('plan_update_step refuses a step that the plan does not have, and a status that does not exist', () => {
    expect(playing(setUp, update('fly', 'done')).last).toMatchObject({ code: 'unknown_step' })
    expect(playing(setUp, update('book', 'finished')).last).toEqual({
      code: 'invalid_arguments',
      message: '`status` must be one of pending, in_progress, done, blocked.',
    })
  })
})

describe('arguments of the plan tools', () => {
  const long = 'x'.repeat(2_001)
  const refused: [string, Json][] = [
    ['plan_setup', 'not JSON'],
    ['plan_setup', null],
    ['plan_setup', []],
    ['plan_setup', { objective: '', steps: STEPS }],
    ['plan_setup', { objective: 7, steps: STEPS }],
    ['plan_setup', { objective: long, steps: STEPS }],
    ['plan_setup', { objective: 'o', steps: [] }],
    ['plan_setup', { objective: 'o', steps: { id: 'a' } }],
    ['plan_setup', { objective: 'o', steps: ['a'] }],
    ['plan_setup', { objective: 'o', steps: [{ id: 'a' }] }],
    ['plan_setup', { objective: 'o', steps: [{ id: 'a'.repeat(65), title: 't' }] }],
    ['plan_setup', { objective: 'o', steps: Array.from({ length: 201 }, (_, n) => ({ id: `${n}`, title: 't' })) }],
    ['plan_add_step', { id: 'a', title: 't', postconditions: 7 }],
    ['plan_add_step', { id: 'a', title: 't', after: 7 }],
    ['plan_update_step', { id: 'book', status: 'done', evidence: long }],
    ['plan_update_step', { status: 'done' }],
  ]
  it.each(refused)('arguments of the plan tools for %s are refused if they are invalid: %j', (tool, input) => {
    const { last, plan } = playing(setUp, [tool, input])
    expect(last).toMatchObject({ code: 'invalid_arguments', message: expect.stringMatching(/must|limit/) })
    expect(plan?.version).toBe(1)
  })

  it('arguments of the plan tools may be anything: the answer is always text or an error', () => {
    fc.assert(
      fc.property(fc.constantFrom(...PLAN_TOOLS), fc.jsonValue(), fc.boolean(), (tool, input, isSetUp) => {
        const { last } = isSetUp ? playing(setUp, [tool, input as Json]) : playing([tool, input as Json])
        const text = typeof last === 'string' ? last : last?.message
        expect(text).toMatch(/./)
        expect(jsonBytes(text)).toBeLessThan(8_000)
      }),
    )
  })

  it('arguments of the plan tools are described to the model with the bounds that apply', () => {
    expect(PLAN_DEFINITIONS.map(({ name }) => name)).toEqual(PLAN_TOOLS)
    const [setup] = PLAN_DEFINITIONS
    expect(setup?.input_schema).toMatchObject({ properties: { steps: { maxItems: PLAN_LIMITS.steps } }, required: ['objective', 'steps'] })
  })
})

describe('the size of a plan', () => {
  it('the size of a plan allows a hundred steps and an update to each of them', () => {
    const steps = Array.from({ length: 100 }, (_, n) => ({ id: `step-${n}`, title: 't'.repeat(100), postconditions: 'p'.repeat(60) }))
    const updates = steps.map(({ id }) => update(id, 'done', 'seen'))
    const { plan, answers } = playing(['plan_setup', { objective: 'o', steps }], ...updates)
    expect(plan?.steps.every(({ status }) => status === 'done')).toBe(true)
    expect(Math.max(...answers.map((answer) => jsonBytes(answer)))).toBeLessThan(1_500)
  })

  it('the size of a plan is bounded: a change that does not fit is refused, but a status always fits', () => {
    const steps = Array.from({ length: 60 }, (_, n) => ({ id: `${n}`, title: 't'.repeat(480) }))
    const full = playing(['plan_setup', { objective: 'o', steps }])
    expect(full.plan).not.toBeNull()
    const added = playing(
      ['plan_setup', { objective: 'o', steps }],
      ['plan_update_step', { id: '0', status: 'blocked', evidence: 'e'.repeat(1_900) }],
    )
    expect(added.last).toMatchObject({ code: 'plan_too_large', message: expect.stringContaining('shorten') })
    const all = playing(['plan_setup', { objective: 'o', steps }], ...steps.map(({ id }) => update(id, 'in_progress')))
    expect(all.plan?.steps.every(({ status }) => status === 'in_progress')).toBe(true)
    expect(all.state?.largest).toBe(full.state?.largest)
  })

  it('the size of a plan is never underestimated', () => {
    const { plan } = playing(setUp, update('book', 'done', 'ü\u0000€'))
    expect(bytesOfPlan(plan as Plan)).toBeGreaterThanOrEqual(jsonBytes(plan))
  })
})

describe('in any session, the plan', () => {
  const RUNS = { numRuns: size(50, 150) }

  it('the plan of any session is the result of the calls that the model sees', () => {
    const compared = metInSessions(({ events }) => {
      let met = 0
      let state: SessionState | undefined
      const transcript = emptyTranscript()
      for (const event of events) {
        state = fold(state, [event])
        addToTranscript(transcript, event)
        if (transcript.open) continue
        const seen = planSeenIn(transcript.messages, events.slice(0, event.seq))
        expect(withoutVersion(state?.plan?.current ?? null)).toEqual(withoutVersion(seen))
        if (seen) met += 1
      }
      return met
    })
    expect(compared).toBeGreaterThan(FIXED_SESSIONS)
  })

  it('in any session, the plan returns to what it was at the point to which the session goes back', () => {
    const restored = metInSessions(({ events }) => {
      let met = 0
      for (const [index, event] of events.entries()) {
        const before = events.slice(0, index)
        const now = PLAN.at(events.slice(0, index + 1), event.seq)
        if (event.type === 'rolled_back') expect(now).toEqual(PLAN.at(before, event.toSeq))
        if (event.type === 'recovery_started' && (event.strategy === 'abandon' || event.strategy === 'restart_run') && event.run) {
          expect(now).toEqual((keptBeforeRun(before, event.run) ?? { plan: now }).plan)
        }
        if ('restored' in event && event.restored) met += 1
      }
      return met
    })
    expect(restored).toBeGreaterThan(0)
  })

  it('the versions of any session’s plan only increase, and the newest one that is not archived is current', () => {
    fc.assert(
      fc.property(eventfulSessions, ({ events, state }) => {
        const from = events.findLastIndex(({ type }) => type === 'session_started')
        const versions = planVersions(events.slice(from))
        expect(versions.map(({ version }) => version)).toEqual(versions.map((_, index) => index + 1))
        const current = versions.findLast(({ archivedSeq }) => archivedSeq === undefined)
        expect(current?.version).toBe(state.plan?.current?.version)
        expect(state.plan?.version ?? 0).toBe(versions.length)
        expect(current?.steps).toEqual(state.plan?.current?.steps)
      }),
      RUNS,
    )
  })

  it('any session has a checkpoint at the end of each turn in which a step of its plan became done', () => {
    const found = metInSessions(({ events }) => {
      let met = 0
      let state: SessionState | undefined
      const transcript = emptyTranscript()
      for (const [index, event] of events.entries()) {
        state = fold(state, [event])
        addToTranscript(transcript, event)
        const isStepDone = event.type === 'tool_completed' && state?.current?.phase === 'turn_due' && completesStep(events.slice(0, index))
        if (!isStepDone) continue
        // It covers the step: nothing of the turn is open.
        expect(events[index + 1]).toMatchObject({ type: 'checkpoint_made', reasons: expect.arrayContaining(['step_done']) })
        expect(transcript.open).toBeNull()
        met += 1
      }
      return met
    })
    expect(found).toBeGreaterThan(0)
  })
})

/** Whether the events end in a turn in which a step became done. */
function completesStep(events: readonly SessionEvent[]): boolean {
  const answer = events.findLastIndex(({ type }) => type === 'model_completed')
  return events
    .slice(answer)
    .some((event) => event.type === 'plan_changed' && event.change.do === 'update_step' && event.change.status === 'done')
}

/** The plan that results from the calls in a transcript. A call that was made again has its old place there, so the events order them. */
function planSeenIn(messages: ReturnType<typeof emptyTranscript>['messages'], events: readonly SessionEvent[]): Plan | null {
  const changedBy = events.flatMap((event) => (event.type === 'plan_changed' ? [event.callId] : []))
  const placeOf = ({ id = '' }: { id?: string }): number =>
    changedBy.findLastIndex((callId) => callId === id || callId.startsWith(`${id}#`))
  const blocks = messages
    .flatMap(({ content }) => (typeof content === 'string' ? [] : content))
    .sort((one, other) => placeOf(one as { id?: string }) - placeOf(other as { id?: string }))
  const failed = new Set(blocks.flatMap((block) => (block.type === 'tool_result' && block.is_error ? [block.tool_use_id] : [])))
  let state: PlanState | undefined
  for (const block of blocks) {
    if (block.type !== 'tool_use' || failed.has(block.id) || !(PLAN_TOOLS as readonly string[]).includes(block.name)) continue
    const answer = answerOnPlan(block.name, block.input, state, PLAN_BYTES)
    if ('change' in answer && answer.change) state = PLAN.afterChange(state, (state?.version ?? 0) + 1, answer.change)
  }
  return state?.current ?? null
}

function withoutVersion(plan: Plan | null): Omit<Plan, 'version'> | null {
  if (!plan) return null
  const { version: _, ...rest } = plan
  return rest
}

describe('the versions of a plan', () => {
  const at = (seq: number) => ({ v: 1 as const, seq, at: seq * 1_000 })
  const made = (seq: number, version: number, change: EventOf<'plan_changed'>['change']): SessionEvent => ({
    ...at(seq),
    type: 'plan_changed',
    run: 1,
    turn: seq,
    callId: `t_1_${seq}_0`,
    tool: 'plan_setup',
    version,
    change,
  })

  it('the versions of a plan are kept when the session goes back, and their numbers are never reused', () => {
    const first = made(1, 1, { do: 'setup', objective: 'o', steps: [{ id: 'a', title: 'A' }] })
    const second = made(2, 2, { do: 'update_step', id: 'a', status: 'done' })
    const back: SessionEvent = { ...at(3), type: 'rolled_back', toSeq: 1, upToSeq: 2, effects: [], restored: { plan: PLAN.at([first], 1) } }
    const third = made(4, 3, { do: 'update_step', id: 'a', status: 'blocked', evidence: 'closed' })
    expect(planVersions([first, second, back, third])).toMatchObject([
      { version: 1, steps: [{ status: 'pending' }] },
      { version: 2, archivedSeq: 3, steps: [{ status: 'done' }] },
      { version: 3, steps: [{ status: 'blocked', evidence: 'closed' }], at: 4_000, run: 1, turn: 4 },
    ])
  })
})

describe('the plan option of an agent', () => {
  it('the plan option of an agent adds guidance only on request', () => {
    expect([true, {}, { guidance: false }].map(planPolicy)).toEqual([{}, {}, {}])
    expect(planPolicy({ guidance: true })).toEqual({ guidance: PLAN_GUIDANCE })
    expect(planPolicy({ guidance: 'Plan well.' })).toEqual({ guidance: 'Plan well.' })
    expect([false, 'yes', { guidance: '' }, { guidance: 7 }, { guidence: true }, null].map(planPolicy)).toEqual(Array(6).fill(undefined))
  })
})
