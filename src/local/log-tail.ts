// The end of a server's log, for the message of an error at start.
import { open } from 'node:fs/promises'

/** The last lines of a log, at most about 2,000 characters. */
export async function logTail(path: string): Promise<string> {
  const file = await open(path, 'r').catch(() => undefined)
  if (!file) return 'it is empty'
  try {
    const { size } = await file.stat()
    const length = Math.min(size, 2_000)
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length)
    return buffer.toString('utf8').trim() || 'it is empty'
  } finally {
    await file.close()
  }
}
