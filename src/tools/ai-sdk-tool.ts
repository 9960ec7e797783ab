// The part of an AI SDK tool that pawl uses. Declared here rather than imported, so that pawl works without the AI SDK, and with any release
// whose tools have this form.

/** A tool of AI SDK 6 or 7, as `tool()` or `dynamicTool()` returns it. */
export interface AiSdkTool {
  /** Schema of the input: of zod or of another Standard Schema library, `jsonSchema()`, or a function that returns one of them. */
  readonly inputSchema: unknown
  /** The body; absent if a client answers the call. */
  readonly execute?: ((input: never, options: never) => unknown) | undefined
  /** Called when the arguments are complete. Its type says what they are, even if the tool has no `execute`. */
  readonly onInputAvailable?: ((options: never) => unknown) | undefined
}

/** The members of a tool that pawl reads, unchecked: plain JavaScript may have set them to anything. */
export interface AiSdkToolMembers {
  readonly type?: unknown
  readonly id?: unknown
  readonly description?: unknown
  readonly inputSchema?: unknown
  readonly outputSchema?: unknown
  readonly contextSchema?: unknown
  readonly inputExamples?: readonly { input: unknown }[]
  readonly execute?: (input: unknown, options: AiSdkCallOptions) => unknown
  readonly needsApproval?: boolean | ((input: unknown, options: Omit<AiSdkCallOptions, 'abortSignal'>) => unknown)
  readonly toModelOutput?: (options: { toolCallId: string; input: unknown; output: unknown }) => unknown
}

/** What `execute` receives with its input. */
export interface AiSdkCallOptions {
  /** `<session id>:<call id>`: the AI SDK's ids are unique, and pawl's call ids only within their session. */
  toolCallId: string
  /** Always empty. */
  messages: never[]
  /** Aborts on the tool's timeout and on an interrupt. */
  abortSignal: AbortSignal
  /** The context, where AI SDK 7 has it. */
  context: unknown
  /** The same, where AI SDK 6 has it. */
  experimental_context: unknown
}

/** What the AI SDK calls the input of a tool. */
export type AiSdkInput<T extends AiSdkTool> = [NonNullable<T['execute']>] extends [never]
  ? T extends { onInputAvailable?: ((options: infer O) => unknown) | undefined }
    ? O extends { input: infer I }
      ? I
      : unknown
    : unknown
  : NonNullable<T['execute']> extends (input: infer I, ...rest: never[]) => unknown
    ? I
    : unknown

/** The result of a tool's `execute`: the value that it returns, resolves with, or yields last. */
export type AiSdkResult<T extends AiSdkTool> =
  NonNullable<T['execute']> extends (...all: never[]) => infer R
    ? R extends AsyncIterable<infer O>
      ? O
      : R extends PromiseLike<infer O>
        ? O
        : R
    : unknown

/** A decision of AI SDK 7's `toolApproval` about a call. */
export type AiSdkApprovalStatus =
  | 'not-applicable'
  | 'approved'
  | 'denied'
  | 'user-approval'
  | { type: 'not-applicable' }
  | { type: 'approved' | 'denied' | 'user-approval'; reason?: string }
  | undefined

/** The second argument of a function for one tool in `toolApproval`, after the input. */
export interface AiSdkApprovalOptions {
  /** `<session id>:<call id>`. */
  toolCallId: string
  /** Always empty. */
  messages: never[]
  /** The context, checked by the tool's `contextSchema`. */
  // oxlint-disable-next-line typescript/no-explicit-any -- what the option `context` returns
  toolContext: any
  /** The context. */
  // oxlint-disable-next-line typescript/no-explicit-any -- what the option `context` returns
  runtimeContext: any
}

/** The argument of a `toolApproval` function for all tools. */
export interface AiSdkCallToApprove {
  /** The call. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the input of any of the tools
  toolCall: { type: 'tool-call'; toolCallId: string; toolName: string; input: any; dynamic?: boolean }
  /** The tools, as passed to `fromAiSdk`. */
  // oxlint-disable-next-line typescript/no-explicit-any -- any of the tools
  tools: any
  /** The context of the call's tool, under the tool's name. */
  // oxlint-disable-next-line typescript/no-explicit-any -- what the option `context` returns
  toolsContext: any
  /** Always empty. */
  messages: never[]
  /** The context. */
  // oxlint-disable-next-line typescript/no-explicit-any -- what the option `context` returns
  runtimeContext: any
}
