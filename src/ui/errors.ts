// The error of a chat whose server refuses a request.
import { PawlError } from '../session/errors.ts'

/**
 * The server refused a request of a chat, or ended its stream. `code` is the server's, as listed in docs/errors.md, such as `not_newest`,
 * `forbidden` or `history_changed`; `unexpected_response` for a response that is not from pawl.
 */
export class ChatError extends PawlError {
  override readonly name = 'ChatError'
  /** The HTTP status of the response. */
  readonly status: number

  /** `status`: the HTTP status of the response. */
  constructor(code: string, message: string, status: number) {
    super(code, message)
    this.status = status
  }
}

/** The error that a response reports. */
export async function errorOf(response: Response): Promise<ChatError> {
  const text = await response.text().catch(() => '')
  try {
    const { code, detail } = JSON.parse(text) as { code?: unknown; detail?: unknown }
    if (typeof code === 'string' && typeof detail === 'string') return new ChatError(code, detail, response.status)
  } catch {
    // Not a response from pawl.
  }
  const what = `The chat server responded with status ${response.status} at ${response.url}, but not with a pawl error`
  return new ChatError('unexpected_response', `${what}. Check \`api\`, and any proxy between the page and the server.`, response.status)
}
