// What only the provider of a model can read: the blocks of its tools, signed thinking, and metadata. Large blocks leave the answer for the
// side store before it is recorded, and no other provider receives any of this.
import { sha256Hex } from '../../agent/sha256.ts'
import { ModelError } from '../../agent/errors.ts'
import { BLOB_THRESHOLD_BYTES, blobOfJson } from '../../session/blobs.ts'
import type { BlobRef } from '../../session/call-facts.ts'
import { type AssistantBlock, isThinking, type Message } from '../../session/content.ts'
import { type Json, jsonBytes } from '../../session/json.ts'
import { numberText } from '../../session/number-text.ts'
import { blocksIn, isProviderBlock, textOfProviderBlock, withoutBlocks, noteOnProviderBlock } from '../../session/provider-blocks.ts'
import type { LargeValues } from '../large-values.ts'
import { MAX_ANSWER_BYTES, modelName } from './check-response.ts'

/** An answer as it is recorded. */
export interface StoredAnswer {
  content: AssistantBlock[]
  /** Refers to the own blocks of the provider, if they were stored. */
  blob?: BlobRef
}

/** Where blocks are stored. */
export interface AnswerStorage {
  values: Pick<LargeValues, 'keep'>
  sessionId: string
  executionId: string
  signal: AbortSignal
}

/** How long blocks that do not fit into history wait for the store. */
const WAIT_MS = 30_000

/** The answer, with its large blocks stored. @throws ModelError `blocks_not_stored`, the signal's reason. */
export async function storedAnswer(content: AssistantBlock[], storage: AnswerStorage): Promise<StoredAnswer> {
  if (!content.some(isProviderBlock)) return { content }
  const blocks = blocksIn(content)
  const bytes = jsonBytes(blocks)
  if (bytes <= BLOB_THRESHOLD_BYTES) return { content }
  const { values, sessionId, executionId, signal } = storage
  const fits = jsonBytes(content) <= MAX_ANSWER_BYTES
  const blob = blobOfJson(blocks as Json, previewOf(content), sha256Hex)
  const ref = await values.keep(sessionId, blob, { executionId, signal, ...(!fits && { waitMs: WAIT_MS }) })
  signal.throwIfAborted()
  if (ref) return { content: withoutBlocks(content), blob: ref }
  if (fits) return { content }
  throw new ModelError(
    'blocks_not_stored',
    `What the provider's tools returned has ${numberText(bytes)} bytes, which history cannot hold, and the store did not accept it. Check Postgres; pawl asks the model again.`,
    { retryable: true },
  )
}

function previewOf(content: readonly AssistantBlock[]): string {
  return content.flatMap((block) => (isProviderBlock(block) ? [textOfProviderBlock(block)] : [])).join('\n')
}

/** The answer's blocks. Adds the provider's name to each block that only a provider can read and that does not name one. */
export function withProvider(provider: string, content: readonly AssistantBlock[]): AssistantBlock[] {
  return content.map((block) => (isProviderSpecific(block) ? { ...block, provider: modelName(block.provider) ?? provider } : block))
}

/** The messages without the thinking and the metadata of other providers; answers that consist of nothing else are left out. */
export function readableBy(provider: string, messages: readonly Message[]): Message[] {
  const isForeign = (block: AssistantBlock): boolean =>
    isProviderSpecific(block) && block.provider !== undefined && block.provider !== provider
  return messages.flatMap((message): Message[] => {
    if (message.role === 'user' || !message.content.some(isForeign)) return [message]
    const content = message.content.flatMap((block) => {
      if (!isForeign(block)) return [block]
      if (isThinking(block)) return []
      if (isProviderBlock(block)) return noteOnProviderBlock(block)
      const { provider: _, providerMetadata: __, ...rest } = block
      return [rest]
    })
    return content.length > 0 ? [{ ...message, content }] : []
  })
}

function isProviderSpecific(block: AssistantBlock): boolean {
  return isThinking(block) || isProviderBlock(block) || block.providerMetadata !== undefined
}
