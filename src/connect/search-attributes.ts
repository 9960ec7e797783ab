// The search attributes by which Temporal's own lists find sessions. They are optional: a namespace without them works, too.
import { type Connection, isGrpcServiceError } from '@temporalio/client'
import { defineSearchAttributeKey, type SearchAttributePair, SearchAttributeType } from '@temporalio/common'
import type { temporal } from '@temporalio/proto'

/** The agent's name. */
const AGENT = defineSearchAttributeKey('PawlAgent', SearchAttributeType.KEYWORD)
/** The session's tags. */
const TAGS = defineSearchAttributeKey('PawlTags', SearchAttributeType.KEYWORD_LIST)

/** `IndexedValueType` of Temporal's protocol: KEYWORD and KEYWORD_LIST. */
const TYPES: Record<string, temporal.api.enums.v1.IndexedValueType> = { [AGENT.name]: 2, [TAGS.name]: 7 }

/** Whether the attribute is one of pawl's. */
export function isSearchAttribute(name: string): boolean {
  return name in TYPES
}

/** The server refuses a value above 2,048 bytes. Tags beyond this are left out. */
const MAX_TAGS_BYTES = 1_900
/** Postgres and MySQL index this many characters. */
const MAX_TAG_LENGTH = 255
/** How long pawl treats a namespace as lacking the attributes after it has refused them. */
const FORGET_AFTER_MS = 60_000
/** gRPC's status code for an invalid request. */
const INVALID_ARGUMENT = 3

/** Adds the attributes that the namespace does not have. Returns their names. Needs the rights of an operator. */
export async function registerSearchAttributes({ operatorService }: Connection, namespace: string): Promise<string[]> {
  const { customAttributes } = await operatorService.listSearchAttributes({ namespace })
  const missing = Object.entries(TYPES).filter(([name]) => !(name in customAttributes))
  if (missing.length > 0) await operatorService.addSearchAttributes({ namespace, searchAttributes: Object.fromEntries(missing) })
  return missing.map(([name]) => name)
}

/** The attributes of a session, as far as they are known when it starts. */
export function searchAttributesOf({ agent, tags = [] }: { agent?: string; tags?: readonly string[] }): SearchAttributePair[] {
  const shown = tagsThatFit(tags)
  return [
    ...(agent === undefined ? [] : [{ key: AGENT, value: agent }]),
    ...(shown.length === 0 ? [] : [{ key: TAGS, value: shown }]),
  ] as SearchAttributePair[]
}

function tagsThatFit(tags: readonly string[]): string[] {
  const fit: string[] = []
  let bytes = 2
  for (const tag of tags) {
    bytes += Buffer.byteLength(JSON.stringify(tag)) + 1
    if (bytes > MAX_TAGS_BYTES) break
    if (tag !== '' && tag.length <= MAX_TAG_LENGTH) fit.push(tag)
  }
  return fit
}

/** Starts something with search attributes, if the namespace has them. */
export type StartIndexed = <T>(
  attributes: SearchAttributePair[],
  start: (typed: { typedSearchAttributes?: SearchAttributePair[] }) => Promise<T>,
) => Promise<T>

/**
 * The server refuses a start with attributes that its namespace lacks. pawl then retries it without them, and omits them from every other
 * start for a minute. Asking for the attributes first would need rights that a client may not have.
 */
export function startIndexed(now: () => number = Date.now): StartIndexed {
  let missingUntil = 0
  return async (attributes, start) => {
    if (attributes.length === 0 || now() < missingUntil) return start({})
    try {
      return await start({ typedSearchAttributes: attributes })
    } catch (refusal) {
      if (!isInvalid(refusal)) throw refusal
      const started = await start({})
      missingUntil = now() + FORGET_AFTER_MS
      return started
    }
  }
}

/** Always starts without attributes. */
export const startPlain: StartIndexed = (_, start) => start({})

function isInvalid(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) if (isGrpcServiceError(at)) return at.code === INVALID_ARGUMENT
  return false
}
