// Parses a line of a chat: a message, or a command that begins with a slash.

export type Command =
  | { name: 'send'; text: string; interrupt?: true }
  | { name: 'nothing' }
  | { name: 'state' | 'interrupt' | 'exit' | 'help' }
  | { name: 'resume'; id: string }
  /** Without a call, the command concerns the only one that is waiting. `rest`: new arguments, a reason, or the answer. */
  | { name: 'approve' | 'deny' | 'answer'; callId?: string; rest: string }
  | { name: 'wrong'; advice: string }

export const HELP: readonly string[] = [
  '  /state         show the state of the session',
  '  /interrupt     stop the current run (also Ctrl-C); with text, also send a message: /interrupt <text>',
  '  /approve       approve the waiting call; /approve [call] [arguments as JSON] names it or changes its arguments',
  '  /deny          deny the waiting call: /deny [call] [reason]',
  '  /answer        answer the call of a client tool: /answer [call] <JSON or text>',
  '  /resume <id>   continue another session, of any agent',
  '  /exit          leave; the session stays open (also Ctrl-D, and Ctrl-C without a run)',
  '  //text         send a message that begins with a slash',
]

const CALL_ID = /^t_\d+_\d+_\d+(#\d+)?$/

export function commandOf(line: string): Command {
  const text = line.trim()
  if (text === '') return { name: 'nothing' }
  if (text.startsWith('//')) return { name: 'send', text: text.slice(1) }
  if (!text.startsWith('/')) return { name: 'send', text }
  const [name = '', argument] = text.slice(1).split(/\s+/, 2)
  const rest = text.slice(1 + name.length).trim()
  switch (name) {
    case 'interrupt':
      return rest === '' ? { name } : { name: 'send', text: rest, interrupt: true }
    case 'state':
    case 'exit':
    case 'help':
      return { name }
    case 'approve':
    case 'deny':
    case 'answer':
      return argument !== undefined && CALL_ID.test(argument)
        ? { name, callId: argument, rest: rest.slice(argument.length).trim() }
        : { name, rest }
    case 'resume':
      return argument ? { name, id: argument } : { name: 'wrong', advice: 'name a session: /resume <id>' }
    default:
      return { name: 'wrong', advice: `/${name} is not a command; /help lists the commands, //${name} sends it as a message` }
  }
}
