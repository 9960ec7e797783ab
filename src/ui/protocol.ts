// The parts of AI SDK UI's protocol that pawl uses: chunks of the UI message stream (v1), and UI messages. Declared here, not imported.
import { isObject, type JsonObject } from '../session/json.ts'

/** What pawl reports about an assistant's message, in `metadata.pawl`. */
export interface UiRunState {
  /** Number of the run within the session. */
  run: number
  /** `seq` of the session's last event that the message shows. */
  seq: number
  /** The status of the answer. It is also `running` while a call waits for a person or a client. */
  status: 'running' | 'completed' | 'interrupted' | 'error'
  /** Why the run cannot continue: `code` for programs, `reason` for the user of the page; null if the run is not in error. */
  error: { code: string; reason: string } | null
}

/** Metadata of an assistant's message. */
export interface UiMetadata {
  /** What pawl reports about the answer. */
  pawl: UiRunState
}

/** A chunk that every version of the protocol has. */
export type UiMessageChunk =
  | { type: 'start'; messageId: string; messageMetadata: UiMetadata }
  | { type: 'message-metadata'; messageMetadata: UiMetadata }
  | { type: 'start-step' }
  | { type: 'finish-step' }
  | { type: 'text-start'; id: string }
  | { type: 'text-delta'; id: string; delta: string }
  | { type: 'text-end'; id: string }
  | { type: 'reasoning-start'; id: string }
  | { type: 'reasoning-delta'; id: string; delta: string }
  | { type: 'reasoning-end'; id: string }
  | { type: 'tool-input-start'; toolCallId: string; toolName: string; providerExecuted?: boolean; dynamic?: boolean }
  | { type: 'tool-input-delta'; toolCallId: string; inputTextDelta: string }
  | { type: 'tool-input-available'; toolCallId: string; toolName: string; input: unknown; providerExecuted?: boolean; dynamic?: boolean }
  | { type: 'tool-approval-request'; approvalId: string; toolCallId: string; reason?: string }
  /** `preliminary`: what an agent that answers the call has said so far, as a `UiMessage`. */
  | { type: 'tool-output-available'; toolCallId: string; output: unknown; preliminary?: true }
  | { type: 'tool-output-error'; toolCallId: string; errorText: string }
  | { type: 'tool-output-denied'; toolCallId: string }
  | { type: 'source-url'; sourceId: string; url: string; title?: string }
  | { type: 'source-document'; sourceId: string; mediaType: string; title: string; filename?: string }
  | { type: 'data-question'; id: string; data: UiQuestion }
  | { type: 'error'; errorText: string; code?: string; detail?: string }
  | { type: 'finish'; finishReason?: 'stop' | 'length' | 'content-filter' | 'tool-calls' | 'error' | 'other' }

/** A chunk for clients that support the newest chunks, those of `ai` 7. */
export type UiChunk =
  | UiMessageChunk
  /** Takes back what the current step has shown. */
  | { type: 'reset-step' }
  | { type: 'tool-approval-response'; approvalId: string; approved: boolean; reason?: string }

/** What a client supports. `pieces`: all chunks. `steps`: no chunks that retract something, so it receives only finished answers. */
export type UiShow = 'pieces' | 'steps'

/** A part of a UI message. The AI SDK's types accept it as a part of their `UIMessage`. */
export type UiPart =
  | { type: 'text'; text: string; state?: 'streaming' | 'done' }
  | { type: 'reasoning'; id?: string; text: string; state?: 'streaming' | 'done' }
  | { type: 'file'; mediaType: string; url: string }
  | { type: 'step-start' }
  | { type: 'source-url'; sourceId: string; url: string; title?: string }
  | { type: 'source-document'; sourceId: string; mediaType: string; title: string; filename?: string }
  | { type: 'data-question'; id: string; data: UiQuestion }
  | UiToolPart
  | UiProviderToolPart

/** A question that a tool asks the user. The page sends the answer to the call, with the digest. */
export interface UiQuestion {
  /** The call whose tool asks. */
  callId: string
  /** The id of its part in the message. */
  toolCallId: string
  /** Digest of the question. */
  digest: string
  /** Who asks: the name of the MCP server. */
  from: string
  /** The question. */
  message: string
  /** JSON Schema of the answer's content; absent for a question with a `url`. */
  schema?: JsonObject
  /** Where the user answers. */
  url?: string
  /** How the user answered; absent: not yet. */
  answered?: 'accept' | 'decline' | 'cancel'
}

/** A call of a tool. `providerExecuted`: a worker executes it, not the page. */
export type UiToolPart = { type: `tool-${string}`; toolCallId: string; providerExecuted?: boolean } & (
  | { state: 'input-streaming'; input?: unknown; output?: never; errorText?: never; approval?: never }
  | { state: 'input-available'; input: unknown; output?: never; errorText?: never; approval?: never }
  | {
      state: 'approval-requested'
      input: unknown
      output?: never
      errorText?: never
      approval: UiApproval & { approved?: never; reason?: never }
    }
  | { state: 'approval-responded'; input: unknown; output?: never; errorText?: never; approval: UiApproval & { approved: boolean } }
  | {
      state: 'output-available'
      input: unknown
      output: unknown
      /** `output` is what an agent that answers the call has said so far, as a `UiMessage`. */
      preliminary?: boolean
      errorText?: never
      approval?: UiApproval & { approved: true }
    }
  | { state: 'output-error'; input: unknown; output?: never; errorText: string; approval?: UiApproval & { approved: true } }
  | { state: 'output-denied'; input: unknown; output?: never; errorText?: never; approval: UiApproval & { approved: false } }
)

/** A call of a tool that the model's provider runs. */
export type UiProviderToolPart = { type: 'dynamic-tool'; toolName: string; toolCallId: string; providerExecuted?: boolean } & (
  | { state: 'input-streaming'; input: unknown; output?: never; errorText?: never }
  | { state: 'input-available'; input: unknown; output?: never; errorText?: never }
  | { state: 'output-available'; input: unknown; output: unknown; errorText?: never }
  | { state: 'output-error'; input: unknown; output?: never; errorText: string }
)

/** An approval of a call. */
export type UiApproval = {
  /** Its id, for `addToolApprovalResponse`. */
  id: string
  /** Why it is needed. */
  requestReason?: string
  /** Why it was granted or denied. */
  reason?: string
}

/** A part of which only the type is known, such as one under construction or one from a page. */
export type LoosePart = { type: string } & Record<string, unknown>

/** The members of a page's message that pawl reads to follow a chat. */
export interface FollowedMessage {
  /** Its id. */
  id: string
  /** Its content. */
  parts: readonly object[]
}

/** A UI message: what `useChat` has in `messages`. */
export interface UiMessage {
  /** For a user's message, its `messageId`; for an assistant's, the id of its first answer. */
  id: string
  /** Its author. */
  role: 'user' | 'assistant'
  /** For a user's message, its metadata; for an assistant's, `UiMetadata`. */
  metadata?: unknown
  /** The content: text, reasoning, files, steps and tool calls. */
  parts: UiPart[]
}

/** The id of an approval. It names the call and the digest of the arguments to approve. */
export function approvalIdOf(callId: string, digest: string): string {
  return `${callId}:${digest}`
}

/** The call and the digest in an approval id; undefined if the value is not an approval id. */
export function approvalOf(approvalId: unknown): { callId: string; digest: string } | undefined {
  const match = typeof approvalId === 'string' ? /^(t_\d+_\d+_\d+(?:#\d+)?):(.+)$/.exec(approvalId) : null
  return match ? { callId: match[1] ?? '', digest: match[2] ?? '' } : undefined
}

/** The pawl metadata of a UI message; undefined if it has none. */
export function standingIn(metadata: unknown): Partial<UiRunState> | undefined {
  const pawl = isObject(metadata) ? metadata.pawl : undefined
  return isObject(pawl) ? pawl : undefined
}
