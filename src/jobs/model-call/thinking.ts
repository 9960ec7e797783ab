// Which thinking, metadata and blocks of providers' tools are sent back to a model: providers sign or encrypt them, and refuse those that another provider has signed.
import { type AssistantBlock, isThinking, type Message } from '../../session/content.ts'
import { isProviderBlock, noteOnProviderBlock } from '../../session/provider-blocks.ts'
import { modelName } from './check-response.ts'

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
