// The part of an AI SDK language model that pawl uses. Declared here rather than imported, so that pawl works without the AI SDK, and with
// any release that has one of these specifications.

/** A language model of the AI SDK, as its provider packages create it: `openai('gpt-5.5')`, `google('gemini-3.5-flash')`. */
export interface LanguageModel {
  /** `v3` for AI SDK 6, `v4` for AI SDK 7. */
  readonly specificationVersion: 'v3' | 'v4'
  /** Such as `openai.responses`. */
  readonly provider: string
  /** The model's name in the provider's API. */
  readonly modelId: string
  /** The URLs that the provider loads itself, by media type. */
  readonly supportedUrls: SupportedUrls | PromiseLike<SupportedUrls>
  /** Makes one call and streams its answer. */
  doStream(options: LanguageModelCall): PromiseLike<{ stream: PartStream }>
}

/** URL patterns by media type (`image/*`). */
export type SupportedUrls = Record<string, RegExp[]>

/** The stream of an answer; its parts are checked when they arrive. */
export interface PartStream {
  /** A reader of the parts, like that of a web `ReadableStream`. */
  getReader(): {
    read(): Promise<{ done: boolean; value?: unknown }>
    cancel(reason?: unknown): Promise<void>
  }
}

/** Settings of a call that pawl passes on unchanged. */
export interface LanguageModelSettings {
  /** Randomness; the provider defines its range. */
  temperature?: number
  /** Share of the probability mass from which tokens are sampled, 0 to 1. */
  topP?: number
  /** How many of the likeliest tokens are considered. */
  topK?: number
  /** Penalty for tokens that have already occurred. */
  presencePenalty?: number
  /** Penalty for tokens by how often they have already occurred. */
  frequencyPenalty?: number
  /** Strings at which the model stops. */
  stopSequences?: string[]
  /** Makes answers repeatable, if the provider supports it. */
  seed?: number
  /** How much the model thinks. Specification v4 only. */
  reasoning?: 'provider-default' | 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max'
  /** Further headers of the request. */
  headers?: Record<string, string | undefined>
  /** Settings of one provider, by its name: `{ openai: { reasoningEffort: 'low' } }`. */
  providerOptions?: Record<string, Record<string, unknown>>
}

export interface LanguageModelCall extends LanguageModelSettings {
  /** The messages in the form of the model's specification. */
  prompt: object[]
  tools?: object[]
  /** Always `auto`. */
  toolChoice?: object
  /** Maximum output tokens. */
  maxOutputTokens?: number
  /** Aborts the call. */
  abortSignal?: AbortSignal
}
