// Reports slow steps: prints nothing for two seconds, then the elapsed time.
import { reportIfSlow } from '../connect/waits.ts'

/** Prints a line; `line` has no line break. `isPassing`: the next line replaces it. */
export type Say = (line: string, isPassing?: boolean) => void

/**
 * Resolves as `work` does. After two seconds, and then every five, prints `what` and the elapsed time; at the end, prints the total. If
 * `what` is a function, it is called for each line.
 */
export async function printIfSlow<T>(say: Say, what: string | (() => string), work: Promise<T>): Promise<T> {
  const begun = Date.now()
  const name = typeof what === 'string' ? () => what : what
  const soFar = (): string => `${name()} (${Math.round((Date.now() - begun) / 1_000)} s)`
  let hasPrinted = false
  const tell = (): void => {
    hasPrinted = true
    say(soFar(), true)
  }
  try {
    const done = await reportIfSlow(tell, name(), work)
    if (hasPrinted) say(`${soFar()}: done`)
    return done
  } catch (error) {
    if (hasPrinted) say(`${soFar()}: failed`)
    throw error
  }
}

const CLEAR_LINE = '\r\u001B[2K'

/** Prints to a stream. On a terminal, the next line overwrites a passing one; elsewhere, each is printed on its own line. */
export function printTo(stream: Pick<NodeJS.WriteStream, 'write' | 'isTTY'>, formatted: (line: string) => string = (line) => line): Say {
  return (line, isPassing = false) => {
    if (stream.isTTY) stream.write(`${CLEAR_LINE}${formatted(line)}${isPassing ? '' : '\n'}`)
    else stream.write(`${formatted(line)}\n`)
  }
}
