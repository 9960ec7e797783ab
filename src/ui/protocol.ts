// The parts of AI SDK UI's protocol that pawl speaks: chunks of the UI message stream (v1), and UI messages. Described, not imported.
/** What pawl says of an assistant's message, as `metadata.pawl`. */
export interface UiStanding {
  /** Number of the run within the session. */
  run: number
  /** The last event of the session that the message shows. */
  seq: number
  /** How the answer stands: `running` also while a call waits for a person or a client. */
  status: 'running' | 'completed' | 'interrupted' | 'error'
  /** Why the run cannot continue; null: it is not in an error. */
  error: { code: string; reason: string } | null
}

/** Metadata of an assistant's message. */
export interface UiMetadata {
  /** How the answer stands. */
  pawl: UiStanding
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
  | { type: 'tool-input-start'; toolCallId: string; toolName: string; providerExecuted?: boolean }
  | { type: 'tool-input-delta'; toolCallId: string; inputTextDelta: string }
  | { type: 'tool-input-available'; toolCallId: string; toolName: string; input: unknown; providerExecuted?: boolean }
  | { type: 'tool-approval-request'; approvalId: string; toolCallId: string; reason?: string }
  | { type: 'tool-output-available'; toolCallId: string; output: unknown }
  | { type: 'tool-output-error'; toolCallId: string; errorText: string }
  | { type: 'tool-output-denied'; toolCallId: string }
  | { type: 'error'; errorText: string; code?: string }
  | { type: 'finish'; finishReason?: 'stop' | 'length' | 'content-filter' | 'tool-calls' | 'error' | 'other' }

/** A chunk for clients that know the newest ones, those of `ai` 7. */
export type UiChunk =
  | UiMessageChunk
  /** Takes back what the current step has shown. */
  | { type: 'reset-step' }
  | { type: 'tool-approval-response'; approvalId: string; approved: boolean; reason?: string }

/** What a client knows of the protocol: `pieces`, all chunks; `steps`, none that take something back, so it is shown finished answers only. */
export type UiShow = 'pieces' | 'steps'

/** A part of a UI message. */
export type UiPart = { type: string } & Record<string, unknown>

/** A UI message: what `useChat` has in `messages`. */
export interface UiMessage {
  /** Of a user's message, its `messageId`; of an assistant's, that of its first answer. */
  id: string
  /** Who says it. */
  role: 'user' | 'assistant'
  /** Of a user's message, its metadata; of an assistant's, how it stands. */
  metadata?: unknown
  /** What it says: texts, reasoning, files, steps, and calls of tools. */
  parts: UiPart[]
}

/** The id of an approval: it names the call and, by their digest, the arguments that are approved. */
export function approvalIdOf(callId: string, digest: string): string {
  return `${callId}:${digest}`
}

/** The call and the digest; undefined: it is not such an id. */
export function approvalOf(approvalId: unknown): { callId: string; digest: string } | undefined {
  const match = typeof approvalId === 'string' ? /^(t_\d+_\d+_\d+(?:#\d+)?):(.+)$/.exec(approvalId) : null
  return match ? { callId: match[1] ?? '', digest: match[2] ?? '' } : undefined
}

/** The metadata of pawl in a UI message; undefined: it has none. */
export function standingIn(metadata: unknown): Partial<UiStanding> | undefined {
  const pawl = isRecord(metadata) ? metadata.pawl : undefined
  return isRecord(pawl) ? pawl : undefined
}

/** Whether the value is an object with members. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
