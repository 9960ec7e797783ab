// Lets arguments begin with a dash, as ids and messages may. Without this, only `--` before them would keep them from being read as options.
import type { Command } from 'commander'

/** Marks a word as an argument while Commander reads the options. */
const MARK = '\u0000'

/** Words with one dash are arguments, except for `-h` and `-V`: pawl has no other short options. */
export function acceptDashedWords(command: Command): void {
  const parse = command.parseOptions.bind(command)
  command.parseOptions = (words) => {
    const { operands, unknown } = parse(words.map((word, index) => (isArgument(command, word, words[index - 1]) ? MARK + word : word)))
    return { operands: operands.map(unmarked), unknown: unknown.map(unmarked) }
  }
}

function isArgument({ options }: Command, word: string, before = ''): boolean {
  if (!/^-[^-]/.test(word) || word === '-h' || word === '-V') return false
  return !options.some((option) => (option.required || option.optional) && option.long === before)
}

const unmarked = (word: string): string => (word.startsWith(MARK) ? word.slice(MARK.length) : word)
