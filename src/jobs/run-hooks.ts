// Runs an agent's hooks at one place, and records their answers.
import { isFor } from '../agent/define-hook.ts'
import type { HookInputs, NamedHook } from '../agent/hook.ts'
import type { AgentContext } from '../agent/tool.ts'
import { withFields } from '../log/logger.ts'
import { defined } from '../session/defined.ts'
import {
  ANSWERS,
  type AnswerKind,
  type HookAnswer,
  type HookEvent,
  type HookOutcome,
  type HookRun,
  ranked,
} from '../session/hooks/hooks.ts'
import { copyOf, type Json, jsonBytes, isObject } from '../session/json.ts'
import { numberText } from '../session/number-text.ts'
import type { SpendNote } from '../session/spending/spend-notes.ts'
import { cutText, TEXT_BYTES } from '../session/protocol/texts.ts'
import { ownContext } from './agent-context.ts'
import { failedAttempt } from './attempt.ts'
import { ABANDON_AFTER_MS, runBody, TimedOut } from './tool-call/body.ts'
import { type EventRoom, eventRoom, reporter } from './custom-events.ts'
import { plainJson } from './json.ts'
import { spendReporter } from './spend-notes.ts'

/** Maximum bytes of JSON of one answer, and of all answers in one activity's result. */
const ANSWER_BYTES = { one: 64_000, all: 256_000 } as const
/** The errors of all hooks share one activity's result. */
const STACK_BYTES = 1_000

/** How much hooks may still add to one activity's result, which must fit into one payload together with the model's answer. */
export interface HookRoom {
  /** Bytes of JSON left for answers. */
  answers: number
  events: EventRoom
}

/** The room left in a result that already has these hooks. */
export function hookRoom(had: readonly HookOutcome[] = []): HookRoom {
  return { answers: ANSWER_BYTES.all - answerBytes(had), events: eventRoom(had.flatMap(({ emitted }) => emitted ?? [])) }
}

function answerBytes(runs: readonly HookRun[]): number {
  return runs.reduce((sum, { answer }) => sum + (answer ? jsonBytes(answer) : 0), 0)
}

export interface HookRunner {
  hooks: readonly NamedHook[]
  ctx: AgentContext
  attempt: number
  room: HookRoom
  /** Aborts when the hooks' step must stop: they are not recorded then. */
  signal: AbortSignal
}

/** A place with the input of its hooks. */
export interface HookInvocation<E extends HookEvent = HookEvent> {
  on: E
  turn: number
  input: HookInputs[E]
  callId?: string
  tool?: string
  /** How many such places share one result. Default 1. */
  among?: number
  /** Whether the hook has already answered and must not run again. */
  hasRun?(hook: string): boolean
  /** What is wrong with an answer whose form is allowed. */
  problemWith?(answer: HookAnswer): Promise<string | undefined>
}

class InvalidAnswer extends Error {
  override readonly name = 'InvalidAnswer'
  readonly code = 'invalid_answer'
}

/** The hooks of an event that apply to a tool's calls. */
export function hooksFor(hooks: readonly NamedHook[], { on, tool, hasRun }: Pick<HookInvocation, 'on' | 'tool' | 'hasRun'>): NamedHook[] {
  return hooks.filter((hook) => hook.on === on && (tool === undefined || isFor(hook, tool)) && !hasRun?.(hook.name))
}

/** Runs the hooks of one place together. @throws the signal's reason. */
export async function runHooks(runner: HookRunner, calling: HookInvocation): Promise<HookOutcome[]> {
  const { room } = runner
  const due = hooksFor(runner.hooks, calling)
  // Places that share the room run at the same time, so each gets a share of what was left when it began.
  const maxBytes = Math.min(ANSWER_BYTES.one, Math.floor(room.answers / (due.length * (calling.among ?? 1))))
  const runs = ranked(await Promise.all(due.map((hook) => runHook(runner, hook, calling, maxBytes))))
  room.answers -= answerBytes(runs)
  return runs
}

async function runHook(runner: HookRunner, hook: NamedHook, calling: HookInvocation, maxBytes: number): Promise<HookOutcome> {
  const { ctx, attempt, signal: stop, room } = runner
  const { on, turn, callId, tool } = calling
  const ran = { on, hook: hook.name, turn, attempt, ...defined({ callId, tool }) }
  const log = withFields(ctx.log, { hook: hook.name, ...defined({ call: callId, tool }) })
  const { events, emit } = reporter('hook', room.events)
  const { notes, spend } = spendReporter('hook')
  let isOver = false
  // A hook that ignores its signal may keep reporting after its end, which is too late for the record.
  const report = (name: string, data?: Json): void => {
    if (!isOver) emit(name, data)
  }
  const reportCost = (spent: SpendNote): void => {
    if (!isOver) spend(spent)
  }
  const reported = (): Pick<HookOutcome, 'emitted' | 'spent'> => ({
    ...(events.length > 0 && { emitted: [...events] }),
    ...(notes.length > 0 && { spent: [...notes] }),
  })
  try {
    const answer = await runBody({ timeoutMs: hook.timeoutMs, stop, abandonAfterMs: ABANDON_AFTER_MS }, async (signal) =>
      // Copied, because the input is part of the session's cached past.
      hook.run(copyOf(calling.input), {
        ...ownContext(ctx),
        turn,
        log,
        hook: hook.name,
        attempt,
        signal,
        emit: report,
        spend: reportCost,
      }),
    )
    stop.throwIfAborted()
    return { ...ran, ...defined({ answer: await checked(calling, answer, maxBytes) }), ...reported() }
  } catch (error) {
    if (stop.aborted) throw error
    log.debug({ err: error }, 'the hook threw')
    return { ...ran, error: recorded(error, hook), ...reported() }
  } finally {
    isOver = true
  }
}

function recorded(error: unknown, { timeoutMs }: NamedHook): NonNullable<HookRun['error']> {
  const { class: name, code, message, stack } = failedAttempt(1, error, { retryable: false })
  if (error instanceof TimedOut)
    return { class: name, code: 'timeout', message: `It took longer than its timeout of ${numberText(timeoutMs)} ms.` }
  return {
    class: name,
    ...defined({ code, stack: stack && cutText(stack, STACK_BYTES) }),
    message: cutText(message, TEXT_BYTES.reason),
  }
}

/** The answer in its recorded form; undefined if it changes nothing. @throws InvalidAnswer. */
async function checked({ on, problemWith }: HookInvocation, given: unknown, maxBytes: number): Promise<HookAnswer | undefined> {
  if (given === undefined || given === null) return undefined
  const allowed = ANSWERS[on].map((kind) => `{ ${kind}: ${kind === 'modify' ? 'arguments' : 'text'} }`).join(', ')
  const answer = plainJson(given)
  const [[kind, value] = [], ...others] = Object.entries(answer ?? {})
  if (typeof answer !== 'object' || others.length > 0 || !ANSWERS[on].includes(kind as AnswerKind) || !isValid(kind, value)) {
    throw new InvalidAnswer(`A hook on '${on}' must return nothing or one of ${allowed}.`)
  }
  const bytes = jsonBytes(answer)
  if (bytes > maxBytes)
    throw new InvalidAnswer(
      `Its answer has ${numberText(bytes)} bytes of JSON; the remaining limit is ${numberText(maxBytes)}. Shorten it.`,
    )
  const problem = await problemWith?.(answer as unknown as HookAnswer)
  if (problem !== undefined) throw new InvalidAnswer(problem)
  return answer as unknown as HookAnswer
}

function isValid(kind: string | undefined, value: unknown): boolean {
  if (kind === 'modify') return isObject(value)
  return typeof value === 'string' && value.trim() !== ''
}
