// What standing approvals are made of.
import type { Approvers, Effect } from '../call-facts.ts'
import type { Json, JsonObject } from '../json.ts'

/** What a value in the arguments must be. Several members must all hold. */
export interface InputBound {
  /** A number of at most this. */
  max?: number
  /** A number of at least this. */
  min?: number
  /** Exactly this value. */
  equals?: Json
  /** Exactly one of these values. */
  oneOf?: Json[]
}

/**
 * Which calls of the tool a rule approves: all (`tool`), those with the same arguments (`input`), or those whose arguments are within
 * bounds, by JSON pointer: `{ '/cents': { max: 10_000 } }`. A value that is missing, or that is not a number where a number is due, matches
 * nothing.
 */
export type RuleMatching = 'tool' | 'input' | { [pointer: string]: InputBound }

/** What a rule says. */
export interface RuleTerms {
  tool: string
  effect: Effect
  /** Digest of the tool's input schema: a rule does not apply to a tool that has changed. */
  schemaDigest: string
  matching: RuleMatching
  /** For `input`: the digest of tool and arguments. */
  inputDigest?: string
  /** Under which approvers it was given. It satisfies no others. */
  approvers?: Approvers
  /** Until when it applies, in milliseconds since 1970. */
  until?: number
  /** How many calls it approves. */
  uses?: number
}

/** A rule of one session, in its state. */
export interface SessionRule extends RuleTerms {
  /** Its id. */
  rule: string
  /** The event that gave it. */
  seq: number
  /** How many calls it has approved. */
  used: number
  /** Who gave it; shortened. */
  by?: string
}

/** A rule for the sessions of an agent and a tenant whose contexts have these members, as the side store has it. */
export interface RuleForContext extends RuleTerms {
  /** Its id. */
  rule: string
  agent: string
  tenant: string | null
  members: JsonObject
  /** Who gave it. */
  by?: string
}

/** What a person wants to be remembered of an approval, as a client sends it. */
export interface RememberRequest {
  /**
   * Which sessions the rule applies to: this one; those of the same agent and tenant with the same context; or those whose contexts have the
   * same values in these members.
   */
  for: 'session' | 'context' | { context: string[] }
  matching: RuleMatching
  /** Until when, in milliseconds since 1970. Default: no end. */
  until?: number
  /** How many calls it approves, from 1. Default: any number. */
  uses?: number
}
