// What a chat's server refused.
import { PawlError } from '../session/errors.ts'

/**
 * The server refused a request of a chat, or ended its stream. `code` is the server's: those of docs/errors.md, such as `not_newest`,
 * `forbidden`, `history_changed`; `unexpected_response` for an answer that is not pawl's.
 */
export class ChatError extends PawlError {
  override readonly name = 'ChatError'
  /** The status of the response. */
  readonly status: number

  /** `status`: the status of the response. */
  constructor(code: string, message: string, status: number) {
    super(code, message)
    this.status = status
  }
}

/** The error that a response says. */
export async function errorOf(response: Response): Promise<ChatError> {
  const text = await response.text().catch(() => '')
  try {
    const { code, detail } = JSON.parse(text) as { code?: unknown; detail?: unknown }
    if (typeof code === 'string' && typeof detail === 'string') return new ChatError(code, detail, response.status)
  } catch {
    // It is none of pawl's.
  }
  const what = `The chat's server answered ${response.status} at ${response.url}`
  return new ChatError('unexpected_response', `${what}: check \`api\`, and what lies between page and server.`, response.status)
}
