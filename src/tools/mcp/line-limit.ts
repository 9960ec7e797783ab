// The limit of an answer over stdio. All calls of an identity share the server's output, so an answer that is too large must fail its own
// request only. The SDK would end the connection, and every request in flight with it.
import { AnswerTooLarge } from './errors.ts'

/** The code of the error that takes the place of an answer. It is pawl's own, as `STREAM_ENDED` is. */
export const TOO_LARGE = -32_098

/** How much is kept of each end of a line that is too large: enough for the id, with which servers begin or end an answer. */
const KEPT_BYTES = 200
const LINE_FEED = 10

const FIRST_ID = /^\{(?:"jsonrpc":"2.0",)?"id":(\d+),(?:"jsonrpc":"2.0",)?"(?:result|error)":/
const FIRST_RESULT = /^\{(?:"jsonrpc":"2.0",)?"(?:result|error)":/
const LAST_ID = /,(?:"jsonrpc":"2.0",)?"id":(\d+)(?:,"jsonrpc":"2.0")?\}$/
/** Spaces between tokens, which some servers write. */
const SPACES = /(?<=[{,:])\s+|\s+(?=[},:])|\s+$/g

/** A line that is too large. */
interface LongLine {
  head: string
  tail: Buffer
  /** Whether the error was passed on. */
  isAnswered: boolean
}

/**
 * Passes on what a server writes, line by line. A line of more than `maxBytes` is dropped; if it is an answer, the error `TOO_LARGE` takes
 * its place. The function returns undefined if the connection has to end: it is unknown which request such a line answers, or it does not
 * end within `maxDropped` bytes.
 */
export function limitLines(maxBytes: number, maxDropped = 16 * maxBytes): (chunk: Buffer) => Buffer[] | undefined {
  let pieces: Buffer[] = []
  let bytes = 0
  let long: LongLine | undefined

  /** The error for a long line, once it is known whose; `isOver`: the line has ended. */
  function answer(line: LongLine, isOver: boolean): Buffer[] | undefined {
    if (line.isAnswered) return []
    const isAnswer = FIRST_RESULT.test(line.head)
    const id = FIRST_ID.exec(line.head)?.[1] ?? (isOver && isAnswer ? LAST_ID.exec(tokensOf(line.tail))?.[1] : undefined)
    if (id === undefined) return isOver && isAnswer ? undefined : []
    line.isAnswered = true
    const { message } = new AnswerTooLarge(maxBytes)
    return [Buffer.from(`${JSON.stringify({ jsonrpc: '2.0', id: Number(id), error: { code: TOO_LARGE, message } })}\n`)]
  }

  /** Adds a part of a line, or its end. */
  function add(part: Buffer, isOver: boolean): Buffer[] | undefined {
    bytes += part.length
    if (!long && bytes > maxBytes) {
      long = { head: tokensOf(firstOf([...pieces, part])), tail: Buffer.alloc(0), isAnswered: false }
      pieces = []
    }
    if (!long) {
      pieces.push(part)
      if (!isOver) return []
      const line = Buffer.concat(pieces)
      pieces = []
      bytes = 0
      return [line]
    }
    long.tail = Buffer.concat([long.tail, part.subarray(-KEPT_BYTES)]).subarray(-KEPT_BYTES)
    const answered = bytes > maxDropped ? undefined : answer(long, isOver)
    if (isOver) {
      long = undefined
      bytes = 0
    }
    return answered
  }

  return (chunk) => {
    const passed: Buffer[] = []
    for (let from = 0; from < chunk.length; ) {
      const at = chunk.indexOf(LINE_FEED, from)
      const to = at === -1 ? chunk.length : at + 1
      const more = add(chunk.subarray(from, to), at !== -1)
      if (!more) return undefined
      passed.push(...more)
      from = to
    }
    return passed
  }
}

/** The first bytes of a line. */
function firstOf(pieces: Buffer[]): Buffer {
  let first = Buffer.alloc(0)
  for (const piece of pieces) {
    if (first.length >= KEPT_BYTES) break
    first = Buffer.concat([first, piece.subarray(0, KEPT_BYTES)])
  }
  return first.subarray(0, KEPT_BYTES)
}

const tokensOf = (bytes: Buffer): string => bytes.toString('utf8').replaceAll(SPACES, '')
