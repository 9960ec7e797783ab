// The terminal of a chat: lines in, lines out, Ctrl-C. Works with a pipe as well.
import { clearLine, createInterface, cursorTo } from 'node:readline'

/** Where a conversation is typed and shown. */
export interface Screen {
  /** A person at a terminal; else lines come from a pipe. */
  readonly interactive: boolean
  /** Typed lines, until the end of input or `close`. To be iterated once. */
  readonly lines: AsyncIterable<string>
  /** Prints above what is being typed. */
  print(lines: readonly string[]): void
  /** Asks for the next line. */
  prompt(): void
  /** Ends `lines`. */
  close(): void
}

/** Opens standard input and output. `onInterrupt` is called at Ctrl-C, `onTerminate` when the process is asked to end. */
export function openScreen(options: { prompt: string; onInterrupt: () => void; onTerminate: () => void }): Screen {
  const { stdin: input, stdout: output } = process
  const interactive = input.isTTY === true && output.isTTY === true
  const reader = createInterface({ input, output, terminal: interactive, prompt: interactive ? options.prompt : '' })
  // Lines that come before somebody iterates would be lost: the iterator is made at once.
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
  return {
    interactive,
    lines: { [Symbol.asyncIterator]: () => lines },
    print(texts) {
      if (texts.length === 0) return
      if (interactive) {
        cursorTo(output, 0)
        clearLine(output, 0)
      }
      for (const text of texts) output.write(`${text}\n`)
      prompt()
    },
    prompt,
    close: () => reader.close(),
  }
}
