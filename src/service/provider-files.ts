// Files at a model's provider. All tenants share the provider's account, so an id names a file of any of them.
import type { MediaBlock } from '../session/content.ts'
import type { Json } from '../session/json.ts'
import { isBlocks } from '../session/transcript/results.ts'
import type { Access } from './access.ts'
import { ServiceError } from './errors.ts'

/** Google's ids are addresses below this host, which Google reads with the account's key. */
const GOOGLE = 'generativelanguage.googleapis.com'

/** Refuses the content of a message that names a file at the provider. `at`: the content's place in the request. @throws ServiceError `forbidden`. */
export function requireOwnFiles({ tenant }: Access, content: unknown, at: string): void {
  if (tenant === undefined || !Array.isArray(content) || !content.some(namesFile)) return
  const detail = 'a caller of one tenant cannot send the id of a file at the provider: send its data, or let your backend send the id'
  throw new ServiceError('forbidden', 403, `${at}: ${detail}.`, { parts: [{ at, detail }] })
}

/** The same for a call's result, whose blocks a model sees as files. @throws ServiceError `forbidden`. */
export function requireOwnFilesInResult(access: Access, result: unknown, at: string): void {
  if (isBlocks((result ?? null) as Json)) requireOwnFiles(access, result, at)
}

function namesFile(block: unknown): boolean {
  const { source } = (block ?? {}) as Partial<MediaBlock>
  if (source?.type === 'file') return true
  return source?.type === 'url' && URL.canParse(source.url) && new URL(source.url).hostname === GOOGLE
}
