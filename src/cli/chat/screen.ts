// The terminal of a chat: input lines, output lines, Ctrl-C. Also works with a pipe.
import { clearScreenDown, createInterface, cursorTo, moveCursor } from 'node:readline'

/** Input and output of a conversation. */
export interface Screen {
  /** Whether a person types at a terminal; otherwise lines come from a pipe. */
  readonly interactive: boolean
  /** Input lines, until the end of input or `close`. Iterate only once. */
  readonly lines: AsyncIterable<string>
  /** Prints above the line that is being typed. */
  print(lines: readonly string[]): void
  /** Shows a row above the line that is being typed, until the next row or the next print. Does nothing with a pipe. */
  live(row: string): void
  /** How many columns a row has. */
  columns(): number
  /** Prompts for the next line. */
  prompt(): void
  /** Ends `lines`. */
  close(): void
}

/** Opens standard input and output. `onInterrupt` is called at Ctrl-C, `onTerminate` when the process is asked to end. */
export function openScreen(options: { prompt: string; onInterrupt: () => void; onTerminate: () => void }): Screen {
  const { stdin: input, stdout: output } = process
  const interactive = input.isTTY === true && output.isTTY === true
  const reader = createInterface({ input, output, terminal: interactive, prompt: interactive ? options.prompt : '' })
  // The iterator is created at once, because lines before the first iteration would be lost.
  const lines = reader[Symbol.asyncIterator]()
  let open = true
  reader.on('close', () => {
    open = false
  })
  // A terminal in raw mode reports Ctrl-C to the reader, not as a signal.
  reader.on('SIGINT', options.onInterrupt)
  process.on('SIGINT', options.onInterrupt)
  process.on('SIGTERM', options.onTerminate)
  process.on('SIGHUP', options.onTerminate)
  output.on('error', options.onTerminate)
  const prompt = () => {
    if (interactive && open) reader.prompt(true)
  }
  let isLive = false
  /** Moves to where the next line goes: clears the live row, if there is one, and the line that is being typed. */
  const rewind = () => {
    moveCursor(output, 0, -reader.getCursorPos().rows - (isLive ? 1 : 0))
    cursorTo(output, 0)
    clearScreenDown(output)
    isLive = false
  }
  return {
    interactive,
    columns: () => output.columns ?? 80,
    live(row) {
      if (!interactive || !open) return
      rewind()
      isLive = row !== ''
      if (isLive) output.write(`${row}\n`)
      prompt()
    },
    lines: { [Symbol.asyncIterator]: () => lines },
    print(texts) {
      if (texts.length === 0) return
      if (interactive) rewind()
      for (const text of texts) output.write(`${text}\n`)
      prompt()
    },
    prompt,
    close: () => reader.close(),
  }
}
