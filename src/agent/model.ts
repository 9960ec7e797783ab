// What pawl needs of a model: one call, streaming or not, in the shapes of Anthropic's Messages API.
import type { AssistantBlock, Message, StopReason, Usage } from '../session/content.ts'
import type { ModelDelta } from '../session/deltas.ts'
import type { JsonObject } from '../session/json.ts'
import type { ModelPrice } from '../session/model-price.ts'

/** A tool as the model is told of it. */
export interface ToolDefinition {
  /** The tool's name. */
  name: string
  /** What it does. */
  description: string
  /** JSON Schema (draft 2020-12) of the input; always an object. */
  input_schema: JsonObject
}

/** One model call. The transcript's tool_use ids are pawl's call ids. */
export interface ModelRequest {
  /** The system prompt. */
  system: string
  /** The transcript, oldest message first. */
  messages: Message[]
  /**
   * How many blocks at the end of the last message change from call to call: the agent's sections. A breakpoint of a prompt cache belongs
   * before them. Absent: none.
   */
  volatileBlocks?: number
  /** The tools that the model may call. */
  tools: ToolDefinition[]
  /** `compaction`: the request is to summarise a part of the conversation, which is its only message. Absent: it is a turn of the agent. */
  purpose?: 'compaction'
  /** Upper bound of output tokens, thinking included; absent: the model's own default. A budget counts on it. */
  maxTokens?: number
  /** The session's id. */
  sessionId: string
  /** Number of the run within the session, from 1. */
  run: number
  /** Number of the turn within the run, from 1. */
  turn: number
}

/** What a model call gave. */
export interface ModelResponse {
  /** What the model answered. */
  content: AssistantBlock[]
  /** Why it stopped. */
  stopReason: StopReason
  /** Tokens used, as the provider reports them. */
  usage: Usage
  /** The exact model that answered, where it says so; default: the Model's `name`. */
  model?: string
}

/** What a model call is given besides the request. */
export interface ModelCallContext {
  /** Aborts on interrupt, deadline and worker shutdown. */
  signal: AbortSignal
  /** Which attempt of this call it is, from 1. */
  attempt: number
  /** Tells watchers of a piece of the answer; pieces of a failed attempt are dropped by them. */
  onDelta(delta: ModelDelta): void
}

/**
 * A model. Throw a `ModelError` to say whether a failure may be retried and when;
 * anything else that is thrown counts as retryable.
 */
export interface Model {
  /** Recorded with each answer, and the key of the price table. */
  readonly name: string
  /**
   * Who can read the thinking and the provider's metadata in its answers: they are sent back to models of the same provider only. At most
   * 200 characters. Default: `name`.
   */
  readonly provider?: string
  /**
   * Which account of the provider its calls count against, such as a digest of the API key; never the key itself, because it is stored. Models
   * of the same provider and account wait together when the provider has refused a call (`retry-after`). Default: one for all.
   */
  readonly account?: string
  /**
   * Tokens that it has room for, those of the request and of the answer together: an integer from 1. An agent with `compaction` needs it.
   * Default: not known.
   */
  readonly contextWindow?: number
  /** What its answers cost. Recorded with each answer. Default: pawl's price table, by the model's name. */
  readonly price?: ModelPrice
  /**
   * The output tokens, thinking included, that a call may have whose request does not say. An agent with a budget sets them aside.
   * Default: the requests of such an agent ask for at most 8,192.
   */
  readonly maxTokens?: number
  /** Tokens of a fixed thinking budget, which count towards `maxTokens`: a budget never lowers that below them and 1,024 more. Default 0. */
  readonly thinkingTokens?: number
  /** Makes one model call. Anything that it throws counts as a failed attempt. */
  generate(request: ModelRequest, ctx: ModelCallContext): Promise<ModelResponse>
}
