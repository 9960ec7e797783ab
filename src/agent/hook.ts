// What a user declares a hook with: the types. `define-hook.ts` has the function.
import type { AssistantBlock, StopReason, UserBlock } from '../session/content.ts'
import type { Duration } from '../session/duration.ts'
import type { AppendContextAnswer, DenyAnswer, HookEvent, ModifyAnswer, StopAnswer, SystemMessageAnswer } from '../session/hooks.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { SpendNote } from '../session/spend-notes.ts'
import type { AgentContext, ContextIn, ContextTypes, ServicesIn, SlicesIn, ToolNeeds } from './tool.ts'

/** A call that a hook is asked about. */
export interface HookCall {
  /** The tool's name. */
  tool: string
  /** The raw arguments, which match the tool's schema: in `preToolUse` the model's own, in the others those that the call had. */
  args: JsonObject
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
}

/** What a hook of each event is given. */
export interface HookInputs {
  /** A run begins. `task`: the message that opened it. */
  agentStart: { task: string | UserBlock[] }
  /** The model is about to be called. */
  turnStart: { turn: number }
  /** The turn's calls have their results, or its answer is final. */
  turnEnd: { turn: number }
  /** The model has requested a call. */
  preToolUse: HookCall
  /** A call has a result: the value that its tool returned, or that a client or a person gave. */
  postToolUse: HookCall & { result: Json }
  /** A call failed, was denied or not allowed, or its outcome is unknown (`outcome_unknown`). */
  postToolUseFailure: Omit<HookCall, 'args'> & { args: Json; error: { code: string; message: string } }
  /** The model has given its final answer. `output`: what it gives, if the agent has an `output`. */
  agentStop: { result: { text: string; content: AssistantBlock[]; stopReason: StopReason; output?: Json } }
}

/** What hooks of a run or a turn, and those of outcomes, may answer. */
export type FlowAnswer = StopAnswer | SystemMessageAnswer | AppendContextAnswer

/** What a hook of each event may answer; nothing, if it changes nothing. */
export interface HookAnswers {
  /** Stops the run, adds a message to the next model call, or adds a text to the transcript. */
  agentStart: FlowAnswer
  /** The same. */
  turnStart: FlowAnswer
  /** The same. */
  turnEnd: FlowAnswer
  /** Refuses the call, or changes its arguments. */
  preToolUse: DenyAnswer | ModifyAnswer
  /** As `turnStart`. */
  postToolUse: FlowAnswer
  /** As `turnStart`. */
  postToolUseFailure: FlowAnswer
  /** Adds a text to the transcript, with which the run continues. */
  agentStop: AppendContextAnswer
}

/** What a hook is given besides its input. */
export interface HookContext<C = Json, S = unknown, L = unknown> extends AgentContext<C, S, L> {
  /** The hook's name. */
  readonly hook: string
  /** Attempt of the step in which it runs, from 1: after a crash, a hook may run again. Its answer counts once. */
  readonly attempt: number
  /** Aborts on the hook's timeout and on an interrupt. */
  readonly signal: AbortSignal
  /**
   * Reports a custom event: `name` has 1 to 200 characters, `data` at most 16 KB of JSON. One hook reports at most 100, and the hooks of one
   * model call share 128 KB. It is recorded as `emitted`, once, after the hook's answer or error; a hook whose process dies, or whose step is
   * interrupted, reports none, and runs again.
   * @throws ToolError `invalid_event`, `event_too_large` or `too_many_events`.
   */
  emit(name: string, data?: Json): void
  /**
   * Reports what this hook has spent, on models or services of its own: US dollars or tokens, from 0 to 1e9, with a `note` of at most 200
   * characters. It counts towards the budgets of run and session. It is recorded as `spent`, as custom events are: a hook whose process dies, or whose step is interrupted, reports none.
   * At most 20 reports.
   * @throws ToolError `invalid_spend` or `too_many_spends`.
   */
  spend(spent: SpendNote): void
}

/** Events whose hooks are about one call. */
export type ToolHookEvent = 'preToolUse' | 'postToolUse' | 'postToolUseFailure'

/** Options of `defineHook`. */
export interface HookOptions<E extends HookEvent = HookEvent, T extends ContextTypes = ContextTypes> {
  /** When it runs. */
  on: E
  /**
   * A letter, then up to 63 of `[A-Za-z0-9_-]`, unique within an agent: how logs and events name the hook. Default: the event, with a number
   * from the second one on (`preToolUse_2`).
   */
  name?: string
  /** For hooks of calls: names of tools or regular expressions, one or a list. Default: every tool. */
  tools?: E extends ToolHookEvent ? string | RegExp | readonly (string | RegExp)[] : never
  /** How long it may take, at most 10 minutes. Default `'30s'`. */
  timeout?: Duration
  /**
   * For `preToolUse` on a tool that is not a `read`: what happens if the hook throws, takes too long or answers something else. `'ask'` (the
   * default): a person must approve the call; `'skip'`: the call continues without the hook. Every other hook that fails is skipped.
   */
  onError?: E extends 'preToolUse' ? 'ask' | 'skip' : never
  /** The hook: returns an answer, or nothing. */
  run: (
    input: HookInputs[E],
    ctx: HookContext<ContextIn<T>, ServicesIn<T>, SlicesIn<T>>,
    // oxlint-disable-next-line typescript/no-invalid-void-type -- a hook that only watches returns nothing
  ) => HookAnswers[E] | null | undefined | void | Promise<HookAnswers[E] | null | undefined | void>
}

/** A declared hook. Make it with `defineHook`. */
// oxlint-disable-next-line typescript/no-explicit-any -- a hook with any needs fits where any hook is taken
export interface Hook<N extends ToolNeeds = any> {
  /** When it runs. */
  readonly on: HookEvent
  /** Its name; absent: the agent names it. */
  readonly name?: string
  /** The tools whose calls it is asked about; empty: all. */
  readonly tools: readonly (string | RegExp)[]
  /** Milliseconds that it may take. */
  readonly timeoutMs: number
  /** What happens if it fails. */
  readonly onError: 'ask' | 'skip'
  /** The hook. */
  // oxlint-disable-next-line typescript/no-explicit-any -- typed by `HookOptions`
  readonly run: (input: any, ctx: HookContext<any, any, any>) => unknown
  /** For the compiler alone: what the hook needs of its agent. */
  readonly types?: { readonly needs: (given: N) => void }
}

/** A hook of an agent, which has a name. */
export type NamedHook = Hook & { readonly name: string }
