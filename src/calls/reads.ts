// What an executor reads and stores through its orchestrator: events, large values, and keys of what was pruned.
import type { BlobRef } from '../session/call-facts.ts'
import { defined } from '../session/defined.ts'
import type { JsonObject } from '../session/json.ts'
import type { RuleTerms } from '../session/standing/facts.ts'
import type { Watermark } from '../session/events.ts'
import type { SharedWarning } from '../session/spending/spend.ts'
import type { EventsInput } from './activities.ts'

/** The events to read: their session and chain, the last one, and the execution that can be queried for them. */
export interface ReadTarget {
  sessionId: string
  /** The first execution of the chain that wrote them. */
  epoch: string
  executionId: string
  watermark: Watermark
  /** Events before this point cannot be read; absent: all events can. */
  origin?: Watermark
  /** The events apply only if the store does not have another past for the session. */
  isNew?: true
}

/** The events that an activity may read. */
export function readTarget(
  { sessionId, executionId }: Pick<ReadTarget, 'sessionId' | 'executionId'>,
  { epoch, watermark, origin }: EventsInput,
): ReadTarget {
  return { sessionId, epoch, executionId, watermark, ...defined({ origin }) }
}

/** The side store's large values, as an executor accesses them. */
export interface ValueStore {
  /** Stores a value. Returns true if it is stored, or if its session was erased. */
  put(sessionId: string, ref: BlobRef, json: Uint8Array, from: ValueSource): Promise<boolean>
  /** The stored JSON texts, by sha256. @throws ArchiveUnavailable. */
  get(sessionId: string, refs: readonly BlobRef[]): Promise<Map<string, string>>
  /** A piece of a stored JSON text, from a byte of its UTF-8 on: a character for each byte. Undefined if it is missing. @throws ArchiveUnavailable. */
  piece(sessionId: string, sha256: string, from: number): Promise<string | undefined>
}

/** Bytes of a piece. The orchestrator holds one at a time, however large the value is. */
export const PIECE_BYTES = 500_000

/** The origin of a value, and how long it may wait for the store. */
export interface ValueSource {
  /** The execution whose call made it. */
  executionId: string
  /** Milliseconds; absent: one short try. */
  waitMs?: number
}

/** Finds the call that used a key in a part of the session that was pruned. Undefined if there is none. @throws ArchiveUnavailable. */
export type EarlierKeys = (sessionId: string, key: string) => Promise<{ callId: string; outcome: 'completed' | 'unknown' } | undefined>

/** A standing approval for a context, as the side store has it. */
export interface ContextRule extends RuleTerms {
  rule: string
  members: JsonObject
  used: number
  by?: string
}

/**
 * The standing approvals of an agent's tool that may apply to sessions of the tenant, the oldest first. None if the store does not answer:
 * a person is then asked.
 */
export type ContextRules = (of: { agent: string; tool: string; tenant: string | null }) => Promise<ContextRule[]>

/** What a model call may cost, for the budgets that sessions of the agent or with these tags share. */
export interface ShareRequest {
  agent: string
  tags: readonly string[]
  usd: number
}

/** `token`: names what was taken; `refused`: why nothing was. */
export type ShareAnswer = ({ token: string; refused?: undefined } | { refused: string; isUnknown?: true }) & { warnings?: SharedWarning[] }

/** What was taken for a job's model call before it asked. */
export interface PrepaidShare {
  token: string
  usd: number
}

/** Whether sessions of the agent, or with one of the tags, share a budget. */
export type SharesBudget = (agent: string, tags: readonly string[]) => boolean

/** When a model call may be made that waits at the rate gate of its account. */
export interface GateSlot {
  /** Milliseconds until it may be made, or must ask again; 0 means now. */
  afterMs: number
  /** Milliseconds until its slot, unless the gate is opened earlier. */
  slotMs: number
}
