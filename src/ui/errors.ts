// The error of a chat whose server refuses a request.
import { PawlError } from '../session/errors.ts'

/**
 * The server refused a request of a chat, or ended its stream, because the run has failed or for another reason. `message` is English text
 * for the user of the page; pages in other languages choose their own by `code`. `code` is the server's, as listed in docs/errors.md, such
 * as `not_newest`, `forbidden` or `history_changed`, or that of the run; `unexpected_response` for a response that is not from pawl, and
 * `server_unreachable` if there was no response.
 */
export class ChatError extends PawlError {
  override readonly name = 'ChatError'
  /** The HTTP status of the response; 200 for a stream that ended with an error, 0 without a response. */
  readonly status: number
  /** What happened, and what to do next, for developers. */
  readonly detail: string

  /** `message`: for users. `status`: the HTTP status of the response, or 0. `detail`: for developers. */
  constructor(code: string, message: string, status: number, detail: string, options?: { cause?: unknown }) {
    super(code, message, options)
    this.status = status
    this.detail = detail
  }
}

const UNEXPECTED = 'Something went wrong. Try again later.'
const UNREACHABLE = 'The server cannot be reached. Check your connection, and try again.'

/** The error of a request without a response. */
export function unreachable(url: string, cause: unknown): ChatError {
  const detail = `There was no response from ${url}: ${String(cause)}. The server or the network is down, or the browser blocks the request (CORS).`
  return new ChatError('server_unreachable', UNREACHABLE, 0, detail, { cause })
}

/** The error that a response reports. */
export async function errorOf(response: Response): Promise<ChatError> {
  const text = await response.text().catch(() => '')
  try {
    const { code, detail, userMessage } = JSON.parse(text) as Record<string, unknown>
    if (typeof code === 'string' && typeof detail === 'string')
      return new ChatError(code, typeof userMessage === 'string' ? userMessage : UNEXPECTED, response.status, detail)
  } catch {
    // The response is not from pawl.
  }
  const what = `The chat server responded with status ${response.status} at ${response.url}, but not with a pawl error`
  const detail = `${what}. Check \`api\`, and any proxy between the page and the server.`
  return new ChatError('unexpected_response', UNEXPECTED, response.status, detail)
}
