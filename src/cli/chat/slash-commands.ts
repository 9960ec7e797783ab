// What a typed line of a chat means: a message, or a command that begins with a slash.

/** A line, understood. */
export type Command =
  | { name: 'send'; text: string }
  | { name: 'nothing' }
  | { name: 'state' | 'interrupt' | 'exit' | 'help' }
  | { name: 'resume'; id: string }
  | { name: 'wrong'; advice: string }

/** The commands, for `/help`. */
export const HELP: readonly string[] = [
  '  /state         how the session stands',
  '  /interrupt     stop the run that is going on (so does Ctrl-C)',
  '  /resume <id>   go on with another session',
  '  /exit          leave; the session stays (so do Ctrl-D, and Ctrl-C while no run is going on)',
  '  //text         a message that begins with a slash',
]

/** Reads a line. */
export function commandOf(line: string): Command {
  const text = line.trim()
  if (text === '') return { name: 'nothing' }
  if (text.startsWith('//')) return { name: 'send', text: text.slice(1) }
  if (!text.startsWith('/')) return { name: 'send', text }
  const [name = '', argument] = text.slice(1).split(/\s+/, 2)
  switch (name) {
    case 'state':
    case 'interrupt':
    case 'exit':
    case 'help':
      return { name }
    case 'resume':
      return argument ? { name, id: argument } : { name: 'wrong', advice: 'say which session: /resume <id>' }
    default:
      return { name: 'wrong', advice: `/${name} is not a command; /help lists them, //${name} sends it as a message` }
  }
}
