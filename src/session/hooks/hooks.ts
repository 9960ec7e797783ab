// Hooks: their events, and what pawl records about one that ran.
import type { CustomEvent } from './custom-events.ts'
import type { JsonObject } from '../json.ts'
import type { SpendNote } from '../spending/spend-notes.ts'

/** Where hooks run. */
export type HookEvent = 'agentStart' | 'turnStart' | 'turnEnd' | 'preToolUse' | 'postToolUse' | 'postToolUseFailure' | 'agentStop'

/** Ends the run, for this reason. */
export interface StopAnswer {
  /** The reason. */
  stop: string
}

/** A message for the next model call only, at the end of the request. */
export interface SystemMessageAnswer {
  /** The message. */
  systemMessage: string
}

/** A text that stays in the model's transcript. */
export interface AppendContextAnswer {
  /** The text. */
  appendContext: string
}

/** Refuses the call; the model is told why. */
export interface DenyAnswer {
  /** The reason, for the model. */
  deny: string
}

/** Executes the call with these arguments instead. */
export interface ModifyAnswer {
  /** The arguments. */
  modify: JsonObject
}

/** What a hook may answer. */
export type HookAnswer = StopAnswer | SystemMessageAnswer | AppendContextAnswer | DenyAnswer | ModifyAnswer

/** A hook that ran. */
export interface HookRun {
  /** Where it ran. */
  on: HookEvent
  /** Its name. */
  hook: string
  /** The turn that it ran for. */
  turn: number
  /** Attempt of the model call in which it ran. */
  attempt: number
  /** The call that it ran for, if it ran for one. */
  callId?: string
  /** That call's tool. */
  tool?: string
  /** Absent: it changes nothing. */
  answer?: HookAnswer
  /** It threw, took too long or answered something else, and was skipped. */
  error?: { class: string; code?: string; message: string; stack?: string }
  /** Another hook's answer at the same place ranks higher, and applies instead. */
  overruled?: true
}

/** A hook that ran, as an activity's result carries it. */
export interface HookOutcome extends HookRun {
  /** What it reported with `ctx.emit`. */
  emitted?: CustomEvent[]
  /** What it reported with `ctx.spend`. */
  spent?: SpendNote[]
}

/** The kinds of answers, the strongest first. */
const RANKS = ['stop', 'deny', 'systemMessage', 'modify', 'appendContext'] as const

export type AnswerKind = (typeof RANKS)[number]

/** The kinds of answers that a hook of each event may give. */
export const ANSWERS: Readonly<Record<HookEvent, readonly AnswerKind[]>> = {
  agentStart: ['stop', 'systemMessage', 'appendContext'],
  turnStart: ['stop', 'systemMessage', 'appendContext'],
  turnEnd: ['stop', 'systemMessage', 'appendContext'],
  preToolUse: ['deny', 'modify'],
  postToolUse: ['stop', 'systemMessage', 'appendContext'],
  postToolUseFailure: ['stop', 'systemMessage', 'appendContext'],
  agentStop: ['appendContext'],
}

/** The names of all events that hooks can be declared for. */
export const HOOK_EVENTS = Object.keys(ANSWERS) as HookEvent[]

/** Marks every answer but the strongest; among equals, the first one declared wins. `runs`: the hooks of one place, in declared order. */
export function ranked<R extends HookRun>(runs: readonly R[]): (R & Pick<HookRun, 'overruled'>)[] {
  const strength = ({ answer }: R): number => (answer ? RANKS.findIndex((kind) => kind in answer) : RANKS.length)
  const strongest = Math.min(...runs.map(strength))
  const used = runs.find((run) => strength(run) === strongest)
  return runs.map((run) => (run.answer && run !== used ? { ...run, overruled: true as const } : run))
}

/** The content of a hook's answer, if it is of this kind and was not overruled. */
export function saidBy(run: HookRun, kind: 'stop' | 'deny' | 'systemMessage' | 'appendContext'): string | undefined
export function saidBy(run: HookRun, kind: 'modify'): JsonObject | undefined
export function saidBy({ answer, overruled }: HookRun, kind: AnswerKind): string | JsonObject | undefined {
  return answer && !overruled ? (answer as Partial<Record<AnswerKind, string | JsonObject>>)[kind] : undefined
}

/** The texts that these hooks add to the transcript of all later model calls, and those for the next model call only. */
export function textsOf(runs: readonly HookRun[]): { contexts: string[]; systemMessages: string[] } {
  return {
    contexts: runs.flatMap((run) => saidBy(run, 'appendContext') ?? []),
    systemMessages: runs.flatMap((run) => saidBy(run, 'systemMessage') ?? []),
  }
}
