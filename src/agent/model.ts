// What pawl needs from a model: one call, streaming or not, in the shapes of Anthropic's Messages API.
import type { AssistantBlock, Message, StopReason, Usage } from '../session/content.ts'
import type { ModelDelta } from '../session/watching/deltas.ts'
import type { JsonObject } from '../session/json.ts'
import type { ModelPrice } from '../session/spending/model-price.ts'

/** A tool as described to the model. */
export interface ToolDefinition {
  /** The tool's name. */
  name: string
  /** What it does. */
  description: string
  /** JSON Schema (draft 2020-12) of the input; always an object. */
  input_schema: JsonObject
}

/** A tool that a provider runs, as declared with `providerTool`. */
export interface ProviderToolDefinition {
  /** The tool's name. */
  name: string
  /** The provider that runs it, such as `anthropic` or `openai`. */
  provider: string
  /** `messages`: `definition` is a tool of Anthropic's Messages API. `ai-sdk`: it is `{ id, args }` of the AI SDK. */
  form: 'messages' | 'ai-sdk'
  /** What the provider is told. */
  definition: JsonObject
}

/** One model call. The transcript's tool_use ids are pawl's call ids. */
export interface ModelRequest {
  /** The system prompt. */
  system: string
  /** The transcript, oldest message first. */
  messages: Message[]
  /**
   * How many blocks at the end of the last message change from call to call, namely the agent's sections. Put a prompt-cache breakpoint
   * before them. Absent if there are none.
   */
  volatileBlocks?: number
  /** The tools that the model may call. */
  tools: ToolDefinition[]
  /** The tools that its provider runs, those for which `Model.runsTool` returns true. Absent if there are none. */
  providerTools?: ProviderToolDefinition[]
  /** `compaction`: the request asks for a summary of part of the conversation, its only message. Absent for a turn of the agent. */
  purpose?: 'compaction'
  /** Upper bound of output tokens, thinking included; absent for the model's own default. Budgets rely on it. */
  maxTokens?: number
  /** The session's id. */
  sessionId: string
  /** Number of the run within the session, from 1. */
  run: number
  /** Number of the turn within the run, from 1. */
  turn: number
}

/** The response to a model call. */
export interface ModelResponse {
  /** What the model answered. */
  content: AssistantBlock[]
  /** Why it stopped. */
  stopReason: StopReason
  /** Tokens used, as the provider reports them. What it does not report counts as 0. */
  usage?: { readonly [K in keyof Usage]?: number | null }
  /** The exact model that answered, if the provider names it. Default: the Model's `name`. */
  model?: string
}

/** The context of a model call, passed with its request. */
export interface ModelCallContext {
  /** Aborts on interrupt, deadline and worker shutdown. */
  signal: AbortSignal
  /** Number of the attempt of this call, from 1. */
  attempt: number
  /** Reports a piece of the answer to watchers. They drop the pieces of a failed attempt. */
  onDelta(delta: ModelDelta): void
}

/**
 * A model. Throw a `ModelError` to say whether and when pawl may retry a failure. Any other error is retried, unless the same unexpected
 * error comes twice in a row.
 */
export interface Model {
  /** The model's name: recorded with each answer, and the key in the price table. */
  readonly name: string
  /**
   * Names the provider that can read the thinking and the metadata in the model's answers: pawl sends them back only to models of the same
   * provider. At most 200 characters. Default: `name`.
   */
  readonly provider?: string
  /**
   * Identifies the provider's account that the calls count against, such as a digest of the API key. Never use the key itself, because pawl
   * stores this value. Models of the same provider and account wait together after the provider refuses a call (`retry-after`). Default:
   * one account for all.
   */
  readonly account?: string
  /**
   * The model's context window: the most tokens of a request and its answer together, an integer from 1. An agent with `compaction` needs
   * it. Default: unknown.
   */
  readonly contextWindow?: number
  /** The price of its answers, recorded with each of them. Default: pawl's price table, by the model's name. */
  readonly price?: ModelPrice
  /**
   * Maximum output tokens, thinking included, of a call whose request has no `maxTokens`. An agent with a budget reserves them.
   * Default: the requests of such an agent ask for at most 8,192.
   */
  readonly maxTokens?: number
  /** Tokens of a fixed thinking budget. They count towards `maxTokens`, which a budget never lowers below them plus 1,024. Default 0. */
  readonly thinkingTokens?: number
  /**
   * Whether its provider runs this tool. The others are not part of its requests. Default: it runs none, so a request never has any.
   */
  runsTool?(tool: ProviderToolDefinition): boolean
  /** Makes one model call. Anything that it throws counts as a failed attempt. */
  generate(request: ModelRequest, ctx: ModelCallContext): Promise<ModelResponse>
}
