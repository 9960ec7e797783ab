// The events of a session. In `seq` order, they *are* the session: everything else is folded from them.
import type { AssistantBlock, StopReason, Usage, UserBlock } from './content.ts'
import type { Budget, BudgetRaise, BudgetScope, BudgetUnit, Cost } from './spending/spend.ts'
import type { HookEvent, HookRun } from './hooks/hooks.ts'
import type { Json, JsonObject } from './json.ts'
import type { MemoryChange } from './built-in-tools/memory.ts'
import type { ModelPrice } from './spending/model-price.ts'
import type { PlanChange } from './built-in-tools/plan.ts'
import type { AskedQuestion, QuestionReply } from './question-facts.ts'
import type { CalledChild } from './agents/agent-call-facts.ts'
import type { CallingSession, CallingCall, QuestionOutcome } from './agents/agent-call-facts.ts'
import type { RuleTerms } from './standing/facts.ts'
import type { RestoredValues } from './recovery/restored.ts'
import type { Approvers, Effect, FailedAttempt, Resolution, EffectReport, BlobRef, RunEffect, ResultContent } from './call-facts.ts'
import type { RecoveryStrategy, AgentFacts } from './agent-facts.ts'

/** A point in a session's past: a checkpoint by its version, or the moment before a message was accepted or a run began. */
export type Target = { checkpoint: number } | { message: string } | { run: number }

/** What a run had done when it failed: calls, with their ids and tools. */
export interface ErrorProgress {
  /** Effects that completed, the newest 5. */
  completed: RunEffect[]
  /** How many more completed. */
  moreCompleted?: number
  /** Calls of the newest turn that failed: the first 10. */
  failed: Pick<RunEffect, 'callId' | 'tool'>[]
  /** Calls of the newest turn that have no result: the first 10. */
  pending: Pick<RunEffect, 'callId' | 'tool'>[]
  /** Calls that may or may not have taken effect. */
  unknown: string[]
}

/** A part of a message that a provider refuses. */
export interface RefusedContent {
  /** The event that added the message. */
  seq: number
  /** `text`: text of a user or a model; `result`: text in a tool's result; `call`: the arguments of a call. */
  kind: 'text' | 'image' | 'document' | 'result' | 'call'
  /** Characters of the text, of an image's or a document's data or URL, or of the arguments' JSON. */
  size: number
  /** Digest of the part. */
  digest: string
}

/** An execution that no worker could replay, and why. */
export interface Unreplayable {
  /** Its run id. */
  executionId: string
  /** What failed in its workflow task. */
  reason: string
}

/** A message that is delivered later. `deadlineMs` counts from its delivery. */
export interface ScheduledContent {
  messageId: string
  content: string | UserBlock[]
  dueAt: number
  metadata?: JsonObject
  blob?: BlobRef
  deadlineMs?: number
  interrupt?: true
  by?: string
  traceparent?: string
}

/** An event without its position in the session. */
export type EventBody =
  | {
      type: 'session_started'
      sessionId: string
      agent: string
      context: Json
      tags: string[]
      executionId: string
      coreVersion: number
      /**
       * The session existed before, but its events can no longer be read, so numbers continue from this run. `keysOf`: for a fork, the
       * session whose id is part of its session-wide keys.
       */
      after?: { run: number; checkpoint: number; origin: Watermark; keysOf?: string }
      /** The execution that no worker could replay; none of its events are known. */
      unreplayable?: Unreplayable
      /** The session answers a call of another one. */
      caller?: CallingSession
    }
  /**
   * A session whose workflow had closed resumes in a new chain of executions. `resetOf`: the execution that an operator reset;
   * `unreplayable`: the one that no worker could replay.
   */
  | { type: 'session_resumed'; executionId: string; fromEpoch: string; coreVersion: number; resetOf?: string; unreplayable?: Unreplayable }
  /**
   * `blob`: refers to the whole content; `content` then holds only its beginning. `deadlineMs`: milliseconds from this event, for the run
   * that takes the message. `receivedAt`: if an earlier execution had received the message, the time from which its deadline counts, in
   * milliseconds since 1970. `traceparent`: the caller's span, as defined by W3C Trace Context. `call`: the message is the question of
   * the session that called this one's agent. `dueAt`: the message had been scheduled for this time, in milliseconds since 1970, and it is
   * now due. `answers`: the message is what a session that worked in the background for this call has answered.
   */
  | {
      type: 'message_received'
      messageId: string
      content: string | UserBlock[]
      metadata?: JsonObject
      blob?: BlobRef
      deadlineMs?: number
      receivedAt?: number
      by?: string
      traceparent?: string
      call?: CallingCall
      dueAt?: number
      answers?: { session: string; callId: string }
    }
  /**
   * The session keeps the message until `dueAt`, in milliseconds since 1970; then a `message_received` with the same id follows. `interrupt`:
   * it interrupts the run that is in progress then. The other members are as in `message_received`.
   */
  | ({ type: 'message_scheduled' } & ScheduledContent)
  /** The messages are not delivered. Their ids stay accepted. */
  | { type: 'messages_unscheduled'; messageIds: string[]; by?: string; reason?: string }
  | { type: 'message_rejected'; messageId?: string; code: string; reason: string }
  /** `intent`: the run that first accepted the message; absent: this one. A restart or a regeneration keeps it and the default keys. */
  | { type: 'run_started'; run: number; messageId: string; intent?: number }
  /** `takes`: ids of the received messages that the model sees from this turn on, in order. */
  | { type: 'turn_started'; run: number; turn: number; takes: string[] }
  /** A worker that makes a model call declares the agent for the first time, or declares it differently. */
  | ({ type: 'agent_declared' } & AgentFacts)
  /** `purpose`: the call was not the turn's own; it was to summarise the conversation. */
  | { type: 'model_attempt_failed'; run: number; turn: number; error: FailedAttempt; purpose?: 'compaction' }
  | {
      type: 'model_completed'
      run: number
      turn: number
      attempt: number
      model: string
      /** The provider that the Model names; absent: it names none. */
      provider?: string
      /** As the model sent it, with the model's tool_use ids. */
      content: AssistantBlock[]
      /** Refers to the own blocks of the provider, in order, if they are large; they are then absent from `content`. */
      blob?: BlobRef
      stopReason: StopReason
      usage: Usage
      /** The price that the Model declares; absent: the price table applies. Under a budget, a known price is always recorded. */
      price?: ModelPrice
      /** The cost that pawl counts for the call because its provider reported no usage, or an invalid one. */
      spent?: Cost
      calls: Resolution[]
      /** Metadata of the message that opened the run, in the run's first answer. The run's tools see it from here on. */
      metadata?: JsonObject
      /** Digest of the system prompt and the sections that were rendered for the call. The texts are not stored. */
      promptDigest?: string
      /** What pawl tells the model if the agent has an `output` and this final answer does not contain it. */
      outputProblem?: string
    }
  /**
   * From here on, the model sees a summary in place of the messages up to the event `upToSeq`; the messages stay in the session. A long
   * part takes several of these events, and each summary includes the one before it. `usage` and `model` are those of the call that wrote
   * the summary, if pawl made one.
   */
  | {
      type: 'compacted'
      run: number
      turn: number
      /** Attempt of the call that wrote the summary. */
      attempt: number
      /** The last event of the summarised part; 0 if nothing is summarised. */
      upToSeq: number
      /** Summary of everything up to `upToSeq`. */
      summary: string
      /** Number of messages that the model saw before and that the summary replaces. */
      messages: number
      /** Tokens of the request that was too large, measured or estimated. */
      tokens: number
      /** Size of the model's context window, in tokens. */
      window: number
      /** Whether the provider had refused the request. */
      forced?: true
      /** Earlier calls' results that the model still sees are shortened to this many bytes. */
      resultBytes?: number
      model?: string
      provider?: string
      usage?: Usage
      price?: ModelPrice
      /** As in `model_completed`. */
      spent?: Cost
    }
  /**
   * A provider has refused requests with this content, and accepted the first one without it. From here on, the model sees a note in its
   * place; the content stays in the session. `reason`: what the provider said.
   */
  | { type: 'content_replaced'; run: number; turn: number; content: RefusedContent[]; reason: string }
  /** The conversation could not be summarised, and stays as it was. */
  | {
      type: 'compaction_failed'
      run: number
      turn: number
      code: string
      reason: string
      tokens: number
      window: number
      forced?: true
    }
  /**
   * A hook ran. If it ran before a model call, it is recorded with that call's result, whether an answer or a failure. `args`: the model's
   * own arguments, if the hook changed them.
   */
  | ({ type: 'hook_answered'; run: number; args?: Json } & HookRun)
  /** The hooks that were due when the run ended after this turn have run. `error`: why they could not run and were given up. */
  | { type: 'hooks_ended'; run: number; turn: number; error?: { code: string; message: string } }
  /** The call is about to be dispatched (or to be answered without being run). */
  | {
      type: 'tool_issued'
      run: number
      turn: number
      callId: string
      index: number
      tool: string
      effect: Effect
      key?: string
      /** The raw arguments, as the model sent them unless a hook has changed them. */
      input: Json
      inputDigest: string
      /** Another build's resolution, which replaces the one in `model_completed`, because the call is issued again. */
      resolution?: Resolution
      /** Attempts before the call was issued again. */
      attempts?: number
    }
  | { type: 'tool_attempt_failed'; run: number; turn: number; callId: string; tool: string; error: FailedAttempt }
  | {
      type: 'tool_completed'
      run: number
      turn: number
      callId: string
      tool: string
      attempt: number
      /** What `execute` returned; absent for a replay. */
      value?: Json
      /** What the model sees, if not `value` itself. */
      content?: ResultContent
      /** The effect's id in the outside world, such as a refund's id. */
      effectId?: string
      /** Value and content as the JSON text of `{ value, content }`, if they are too large for history. */
      blob?: BlobRef
      /** The call whose completed effect this one requested again: nothing was executed. */
      replayOf?: string
      startedAt?: number
      worker?: string
    }
  /** An error result for the model: the effect did not happen, or it is safe to report a failure. */
  | { type: 'tool_failed'; run: number; turn: number; callId: string; tool: string; attempt: number; code: string; message: string }
  /**
   * It is unknown whether the effect happened. `again`: an earlier unknown call with the same intent; this one was not executed.
   * `ask`: the session waits for a person. `aliveForMs`: for this long after the event, the body may still be running.
   */
  | {
      type: 'tool_unknown'
      run: number
      turn: number
      callId: string
      tool: string
      attempt: number
      message: string
      again?: string
      ask?: true
      aliveForMs?: number
    }
  /** An unknown outcome was resolved by `verify`, by a person, or by a late result from the worker. */
  | {
      type: 'tool_resolved'
      run: number
      turn: number
      callId: string
      tool: string
      by: 'verify' | 'person' | 'worker'
      /** Whether it happened. A person who does not know either can have it executed again (`retry`) or skip it (`skip`). */
      happened: boolean
      decision?: 'retry' | 'skip'
      value?: Json
      content?: ResultContent
      blob?: BlobRef
      effectId?: string
      /** The person, and the reason. */
      decidedBy?: string
      note?: string
    }
  /** The last progress that an attempt reported; the next attempt receives it. */
  | { type: 'tool_progress'; run: number; turn: number; callId: string; tool: string; attempt: number; value: Json }
  | { type: 'milestone_reached'; run: number; turn: number; callId: string; tool: string; name: string }
  /**
   * A custom event, which an attempt of a call or a hook reported with `ctx.emit`. `hook` and `on`: the hook's name and where it ran;
   * `callId` and `tool` are then absent unless the hook ran for a call.
   */
  | {
      type: 'emitted'
      run: number
      turn: number
      callId?: string
      tool?: string
      on?: HookEvent
      hook?: string
      attempt: number
      name: string
      data?: Json
    }
  /**
   * Something was spent besides an answer: a tool or a hook reported it with `ctx.spend`, or a model call was stopped before its answer was
   * complete. `callId`, `tool`, `on` and `hook` are as in `emitted`; without any of them, the turn's model call spent it. `child`: the
   * session that answered the call spent it; `total`: all that it has spent so far.
   */
  | {
      type: 'spent'
      run: number
      turn: number
      callId?: string
      tool?: string
      on?: HookEvent
      hook?: string
      attempt: number
      tokens?: number
      usd?: number
      note?: string
      /** The amounts are assumed to be the most that can have been spent. */
      assumed?: true
      child?: { session: string; total: { tokens: number; usd: number } }
    }
  /** Four fifths of a limit are spent. `run`: the run that is in progress; `budget`: for `shared`, the id of the budget that sessions share. */
  | { type: 'budget_warning'; scope: BudgetScope | 'shared'; unit: BudgetUnit; budget?: string; run?: number; limit: number; spent: number }
  /** Limits are higher from here on. `run`: only for that run. */
  | { type: 'budget_raised'; scope: BudgetScope; run?: number; maxUsd?: number; maxTotalTokens?: number; by?: string; reason?: string }
  /** The session's plan has a new version. */
  | { type: 'plan_changed'; run: number; turn: number; callId: string; tool: string; version: number; change: PlanChange }
  /** The session's memory has a new version. */
  | { type: 'memory_changed'; run: number; turn: number; callId: string; tool: string; version: number; change: MemoryChange }
  /** A person must approve exactly these arguments (`digest`: the call's `inputDigest`). */
  | {
      type: 'approval_requested'
      run: number
      turn: number
      callId: string
      tool: string
      digest: string
      reason?: string
      /** Who may decide. Absent: anyone. */
      approvers?: Approvers
      expiresAt: number
      onExpiry: 'deny' | 'error'
    }
  /** Somebody without the role of the call's approvers has tried to decide about it; it still waits. `roles`: those of that person. */
  | {
      type: 'approval_refused'
      run: number
      turn: number
      callId: string
      tool: string
      digest: string
      /** Whether the person wanted to approve it. */
      approved: boolean
      approvers: Approvers
      by?: string
      roles?: string[]
    }
  | {
      type: 'approval_decided'
      run: number
      turn: number
      callId: string
      tool: string
      /** Digest of the arguments that were decided on. */
      digest: string
      approved: boolean
      by?: string
      note?: string
      /** The reason for a denial, shown to the model. */
      reason?: string
      /** No decision arrived in time. */
      expired?: true
      /** The rule that approved it; nobody was asked, or the request was still open. `by` is the person who gave the rule. */
      rule?: string
      /** Approved with these arguments instead of the model's, and their resolution. */
      input?: Json
      resolution?: Resolution
    }
  /**
   * A person wants later calls to be approved without being asked. `members`: of the contexts of the sessions to which the rule applies;
   * absent: it applies to this session only. `tenant`: the tag that names the tenant; null: there is none.
   */
  | ({
      type: 'approval_rule_given'
      run: number
      turn: number
      callId: string
      rule: string
      members?: JsonObject
      tenant?: string | null
      by?: string
      note?: string
    } & RuleTerms)
  /** A rule of this session no longer applies. */
  | { type: 'approval_rule_revoked'; rule: string; by?: string; reason?: string }
  /**
   * A client must answer the call. `asks`: it is not a client tool's; an attempt of it has ended with a question to the user. `child`: a
   * session of another agent answers it.
   */
  | {
      type: 'answer_requested'
      run: number
      turn: number
      callId: string
      tool: string
      expiresAt?: number
      asks?: AskedQuestion
      child?: CalledChild
    }
  /** The model sleeps until then, in milliseconds since 1970, or until a message arrives. The `tool_completed` that follows says which. */
  | { type: 'sleep_started'; run: number; turn: number; callId: string; tool: string; expiresAt: number }
  /** The answer of a client tool is in the `tool_completed` that follows. `reply`: the answer to a question; the call continues with it. */
  | { type: 'answer_received'; run: number; turn: number; callId: string; tool: string; by?: string; reply?: QuestionReply }
  /** A client asked for a checkpoint while a turn was open: it is made when the turn has closed. */
  | { type: 'checkpoint_requested'; reason: string; by?: string }
  /**
   * A point between turns, for rollbacks and forks. `reasons`: what asked for it. `lastMessageId`: the last message of the transcript at
   * that point.
   */
  | { type: 'checkpoint_made'; version: number; run?: number; turn?: number; reasons: string[]; by?: string; lastMessageId?: string }
  /**
   * The session went back to event `toSeq`, except for what only grows. Messages that no turn had taken are archived too
   * if they arrived by `upToSeq`. `keepsRun`: only the current turn is abandoned; its run continues.
   */
  | {
      type: 'rolled_back'
      toSeq: number
      upToSeq: number
      target?: Target
      keepsRun?: true
      lastMessageId?: string
      by?: string
      reason?: string
      /** Effects that are not undone: the newest 100 at most. */
      effects: EffectReport[]
      moreEffects?: number
      /** The effects were undone outside of pawl: their keys and unknown outcomes no longer count. */
      keys?: 'forgotten'
      /** Calls that the session's state still knew, and whose effects are among the older ones that `effects` has no room for. */
      alsoForgotten?: string[]
      /** Short hashes of the ids of archived messages. Messages with these ids can be sent again. */
      removed?: string[]
      /** Messages that are back in the inbox, to be answered again. The first one opened the run of this intent. */
      again?: { messages: { messageId: string; seq: number }[]; intent: number }
      restored?: RestoredValues
    }
  /** The events before this one are another session's; the fork continues from there independently. */
  | {
      type: 'forked'
      sessionId: string
      executionId: string
      coreVersion: number
      from: { sessionId: string; seq: number }
      target?: Target
      /** Whether effects that the other session completed count as completed here. */
      keys: 'carried' | 'forgotten'
      tags?: string[]
      by?: string
    }
  /** `outputCall`: the call whose value is the run's output. */
  | { type: 'run_completed'; run: number; turns: number; stopReason: StopReason; usage: Usage; outputCall?: string }
  | { type: 'run_interrupted'; run: number; reason?: string; by?: string }
  /**
   * The run cannot continue, and its open calls stay as they are. `options`: the possible strategies. `strategy`: the best of them; pawl
   * carries it out by itself at `nextAttemptAt` (milliseconds since 1970), if that is set.
   */
  | {
      type: 'error_entered'
      run?: number
      turn?: number
      code: string
      reason: string
      strategy: RecoveryStrategy | 'automatic'
      options?: RecoveryStrategy[]
      nextAttemptAt?: number
      /** Attempts of the step that failed. */
      attempts?: number
      progress?: ErrorProgress
      /** Digest of the unexpected failure that may resolve itself, but not if it is repeated. */
      unexpected?: string
      /** For `budget_exhausted`: limits that would allow the next model call. */
      raise?: BudgetRaise[]
    }
  /**
   * `automatic`: pawl follows the agent's policy. `toSeq`: what the run said and did after this event leaves the transcript. `selective`
   * goes back to `turn`, whose answer is `toSeq`. A call in `redo` continues as `as`: a new generation, or the call itself if it has no
   * result yet. The only result of a call in `skip` is that it was skipped. `force`: completed effects may happen again.
   */
  | {
      type: 'recovery_started'
      run?: number
      strategy: RecoveryStrategy | 'automatic'
      automatic?: true
      toSeq?: number
      turn?: number
      keep?: string[]
      skip?: string[]
      redo?: { callId: string; as: string }[]
      force?: true
      by?: string
      reason?: string
      restored?: RestoredValues
    }
  /** A requested recovery is not possible; nothing changed. `message`: why. */
  | { type: 'recovery_refused'; run?: number; strategy?: string; code: string; message: string; by?: string; reason?: string }
  | { type: 'recovery_ended'; run?: number; strategy: RecoveryStrategy | 'automatic' }
  /**
   * The step in progress finishes, and no other one begins until the session is unpaused. `code`: why pawl paused it by itself; `raise`: the
   * limits with which it could continue.
   */
  | { type: 'session_paused'; by?: string; reason?: string; code?: 'budget_assumed'; raise?: BudgetRaise[] }
  | { type: 'session_unpaused'; by?: string; reason?: string }
  /**
   * An update that an earlier execution had accepted, and that was not stored when it ended, has been carried out in this one. `id`: the
   * update's; `code`: it was refused here.
   */
  | { type: 'request_passed_on'; id: string; name: string; code?: string; reason?: string }
  /**
   * The session that called this one's agent was told how its question ended, and what was spent so far. `delivered`: false if that session
   * no longer exists.
   */
  | { type: 'caller_told'; as: QuestionOutcome['as']; run?: number; tokens: number; usd: number; delivered?: false }
  /**
   * A child may spend more for its caller's question: `budget`. With `callId`, the child is the session that answers this call; without, it
   * is this session.
   */
  | { type: 'allowance_raised'; run?: number; turn?: number; callId?: string; tool?: string; budget: Budget }
  | { type: 'session_closed'; reason: 'idle' | 'requested'; by?: string }

/** One fact about a session. `at` is milliseconds since 1970 by the workflow's clock; `v` is the encoding's version. */
export type SessionEvent = { v: 1; seq: number; at: number } & EventBody

/** The name of an event. */
export type EventType = SessionEvent['type']

/** The event of one type. */
export type EventOf<T extends EventType> = Extract<SessionEvent, { type: T }>

/** An event as processes exchange it: its JSON text, and the rolling digest of all of the session's events up to it. */
export interface LogEntry {
  seq: number
  /** Digest of the previous entry; empty for the first one. */
  prev: string
  digest: string
  /** `JSON.stringify(event)`; the digest is over exactly this text. */
  json: string
}

/** The last event known to be durable in Temporal history. */
export interface Watermark {
  /** Number of the event within the session, from 1. */
  seq: number
  /** Rolling digest of all events up to it. */
  digest: string
  /** The event's own `at`, which the digest omits. It distinguishes an accepted task's events from those of a rejected one. */
  at?: number
}

/** Status of a session. */
export type SessionStatus = 'idle' | 'running' | 'waiting' | 'error' | 'closed'
