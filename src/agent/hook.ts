// The types of a hook's declaration. `define-hook.ts` has the function.
import type { AssistantBlock, StopReason, UserBlock } from '../session/content.ts'
import type { Duration } from '../session/duration.ts'
import type { AppendContextAnswer, DenyAnswer, HookEvent, ModifyAnswer, StopAnswer, SystemMessageAnswer } from '../session/hooks/hooks.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { SpendNote } from '../session/spending/spend-notes.ts'
import type { AgentContext, ContextIn, ContextTypes, ServicesIn, SlicesIn, ToolNeeds } from './tool.ts'

/** The tool call that a hook runs for. */
export interface HookCall {
  /** The tool's name. */
  tool: string
  /** The raw arguments, which match the tool's schema: in `preToolUse` the model's own, in the other events those that the call used. */
  args: JsonObject
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
}

/** The input of a hook, by event. */
export interface HookInputs {
  /** A run begins. `task`: the message that opened the run. */
  agentStart: { task: string | UserBlock[] }
  /** The model is about to be called. */
  turnStart: { turn: number }
  /** The turn's calls have their results, or its answer is final. */
  turnEnd: { turn: number }
  /** The model has requested a call. */
  preToolUse: HookCall
  /** A call has a result: the value that its tool returned, or that a client or a person supplied. */
  postToolUse: HookCall & { result: Json }
  /** A call failed, was denied or was not allowed, or its outcome is unknown (`outcome_unknown`). */
  postToolUseFailure: Omit<HookCall, 'args'> & { args: Json; error: { code: string; message: string } }
  /** The model has given its final answer. `output`: the run's output, if the agent declares an `output`. */
  agentStop: { result: { text: string; content: AssistantBlock[]; stopReason: StopReason; output?: Json } }
}

/** The answers of hooks for runs, turns and the outcomes of calls. */
export type FlowAnswer = StopAnswer | SystemMessageAnswer | AppendContextAnswer

/** The answers that a hook may return, by event. To change nothing, a hook returns nothing. */
export interface HookAnswers {
  /** Stops the run, adds a message to the next model call, or adds text to the transcript. */
  agentStart: FlowAnswer
  /** As `agentStart`. */
  turnStart: FlowAnswer
  /** As `agentStart`. */
  turnEnd: FlowAnswer
  /** Refuses the call, or changes its arguments. */
  preToolUse: DenyAnswer | ModifyAnswer
  /** As `agentStart`. */
  postToolUse: FlowAnswer
  /** As `agentStart`. */
  postToolUseFailure: FlowAnswer
  /** Adds text to the transcript, and the run continues. */
  agentStop: AppendContextAnswer
}

/** The context that a hook receives with its input. */
export interface HookContext<C = Json, S = unknown, L = unknown> extends AgentContext<C, S, L> {
  /** The hook's name. */
  readonly hook: string
  /** Number of the attempt of the step in which it runs, from 1: a hook may run again after a crash. Its answer counts once. */
  readonly attempt: number
  /** Aborts on the hook's timeout and on an interrupt. */
  readonly signal: AbortSignal
  /**
   * Reports a custom event: `name` has 1 to 200 characters, `data` at most 16 KB of JSON. One hook may report at most 100 events, and the
   * hooks of one model call share 128 KB. pawl records the event as `emitted`, once, after the hook's answer or error. If the hook's
   * process dies or its step is interrupted, pawl records none of its events, and the hook runs again.
   * @throws ToolError `invalid_event`, `event_too_large` or `too_many_events`.
   */
  emit(name: string, data?: Json): void
  /**
   * Reports what this hook has spent on its own models or services: US dollars or tokens, from 0 to 1e9, with a `note` of at most 200
   * characters. The amount counts towards the budgets of the run and the session. pawl records it as `spent`, at the same time as custom
   * events: if the hook's process dies or its step is interrupted, pawl records none. At most 20 reports.
   * @throws ToolError `invalid_spend` or `too_many_spends`.
   */
  spend(spent: SpendNote): void
}

/** Events that concern one tool call. */
export type ToolHookEvent = 'preToolUse' | 'postToolUse' | 'postToolUseFailure'

/** Options of `defineHook`. */
export interface HookOptions<E extends HookEvent = HookEvent, T extends ContextTypes = ContextTypes> {
  /** When it runs. */
  on: E
  /**
   * The hook's name in logs and events: a letter, then up to 63 of `[A-Za-z0-9_-]`, unique within an agent. Default: the event, with a
   * number from its second hook on (`preToolUse_2`).
   */
  name?: string
  /** For hooks of calls: a tool's name, a regular expression, or a list of these. Default: every tool. */
  tools?: E extends ToolHookEvent ? string | RegExp | readonly (string | RegExp)[] : never
  /** How long it may take, at most 10 minutes. Default `'30s'`. */
  timeout?: Duration
  /**
   * For `preToolUse` on a tool that is not a `read`: what happens if the hook throws, takes too long or returns an invalid answer. `'ask'`
   * (the default): a person must approve the call; `'skip'`: the call continues without the hook. Every other hook that fails is skipped.
   */
  onError?: E extends 'preToolUse' ? 'ask' | 'skip' : never
  /** The hook: returns an answer, or nothing. */
  run: (
    input: HookInputs[E],
    ctx: HookContext<ContextIn<T>, ServicesIn<T>, SlicesIn<T>>,
    // oxlint-disable-next-line typescript/no-invalid-void-type -- a hook that only watches returns nothing
  ) => HookAnswers[E] | null | undefined | void | Promise<HookAnswers[E] | null | undefined | void>
}

/** A declared hook. Declare it with `defineHook`. */
// oxlint-disable-next-line typescript/no-explicit-any -- a hook with any needs fits where any hook is accepted
export interface Hook<N extends ToolNeeds = any> {
  /** When it runs. */
  readonly on: HookEvent
  /** Its name; absent if the agent names it. */
  readonly name?: string
  /** The tools for whose calls it runs; empty for all tools. */
  readonly tools: readonly (string | RegExp)[]
  /** How many milliseconds it may take. */
  readonly timeoutMs: number
  /** What happens if it fails. */
  readonly onError: 'ask' | 'skip'
  /** The hook. */
  // oxlint-disable-next-line typescript/no-explicit-any -- typed by `HookOptions`
  readonly run: (input: any, ctx: HookContext<any, any, any>) => unknown
  /** For the compiler only: what the hook needs from its agent. */
  readonly types?: { readonly needs: (given: N) => void }
}

/** A hook of an agent, which has a name. */
export type NamedHook = Hook & { readonly name: string }
