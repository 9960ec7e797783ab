// The files of `pawl send --file`.
import { open } from 'node:fs/promises'
import { basename } from 'node:path'
import { InvalidMessageError } from '../client/errors.ts'
import type { UserBlock } from '../session/content.ts'
import { blockOfFile } from '../session/file-block.ts'
import { numberText } from '../session/number-text.ts'

/** No larger file fits into a message, so it is not even read. */
const MAX_FILE_BYTES = 15_000_000

/** The block for a file. @throws InvalidMessageError `invalid_file`, `message_too_large`. */
export async function blockOfPath(path: string): Promise<UserBlock> {
  const file = await open(path).catch((cause: unknown) => {
    throw new InvalidMessageError('invalid_file', `The file ${path} cannot be opened: ${(cause as Error).message}.`, { cause })
  })
  try {
    const facts = await file.stat()
    if (!facts.isFile()) throw new InvalidMessageError('invalid_file', `${path} is not a file.`)
    if (facts.size > MAX_FILE_BYTES) {
      throw new InvalidMessageError(
        'message_too_large',
        `The file ${path} has ${numberText(facts.size)} bytes, and a message holds at most ${numberText(MAX_FILE_BYTES)}. Upload it to the model's provider and send its id, or send its URL.`,
      )
    }
    const block = blockOfFile({ data: (await file.readFile()).toString('base64'), title: basename(path) })
    if (!block) throw new InvalidMessageError('invalid_file', `The file ${path} is neither a PDF, an image nor text. Convert it first.`)
    return block
  } finally {
    await file.close()
  }
}
