// Reads of a session in the moments after its first message.
import { SessionUnavailableError } from '../client/errors.ts'

/** How long to wait for a session that is being opened, and how often to look. By then, its worker has reported what it waits for. */
const OPENING_MS = 10_000
const LOOK_MS = 100

/** What is read, as soon as the session is open. @throws SessionUnavailableError, and whatever else `read` throws. */
export async function whenOpened<T>(read: () => Promise<T>): Promise<T> {
  for (const giveUpAt = performance.now() + OPENING_MS; ; ) {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof SessionUnavailableError && error.isOpening) || performance.now() > giveUpAt) throw error
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }
}
