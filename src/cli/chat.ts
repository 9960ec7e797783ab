// `pawl chat <agent>`: a conversation in the terminal.
import { Command, Option } from 'commander'
import type { ConnectOptions } from '../client/types.ts'
import type { Json } from '../session/json.ts'
import { converse } from './conversation.ts'
import { dataOption, jsonOf } from './options.ts'
import { findRunning } from './running.ts'

interface ChatOptions {
  resume?: string
  session?: string
  context?: Json
  data: string
  taskQueue?: string
  schema?: string
}

/** The command. */
export function chatCommand(): Command {
  return new Command('chat')
    .description('talk to an agent; lines from a pipe are sent one after another, each after the answer to the one before')
    .argument('<agent>', "the agent's name")
    .addOption(new Option('--resume <id>', 'go on with a session; shows the conversation so far').conflicts(['session', 'context']))
    .option('--session <id>', 'id of the session (default: a new one)')
    .option('--context <json>', 'whom the session is for, as the agent declares it', jsonOf)
    .addOption(dataOption())
    .option('--task-queue <name>', "Temporal task queue (default: that of the running `pawl dev`, else 'pawl')")
    .option('--schema <name>', "Postgres schema (default: 'pawl')")
    .action(chat)
}

async function chat(agent: string, options: ChatOptions): Promise<void> {
  // Loaded when it is needed: `pawl --help` need not wait for it.
  const { Pawl } = await import('../client/index.ts')
  const pawl = await Pawl.connect(await connectOptions(options))
  try {
    const { resume, session, context } = options
    const end = await converse(pawl, {
      agent,
      ...(context !== undefined && { context }),
      ...(session !== undefined && { sessionId: session }),
      ...(resume !== undefined && { resume }),
    })
    if (end !== 'ok') process.exitCode = end === 'left' ? 130 : 1
  } finally {
    await pawl.close()
  }
}

/** Where the stack is: what the environment says, else what a `pawl dev` with this data folder noted. */
async function connectOptions(options: ChatOptions): Promise<ConnectOptions> {
  const { TEMPORAL_ADDRESS, TEMPORAL_PROFILE, DATABASE_URL } = process.env
  const found = await findRunning(options.data)
  const running = (TEMPORAL_ADDRESS || TEMPORAL_PROFILE) && TEMPORAL_ADDRESS !== found?.temporalAddress ? null : found
  const taskQueue = options.taskQueue ?? running?.taskQueue
  return {
    ...(running && { temporal: { address: running.temporalAddress, namespace: running.namespace } }),
    ...(running?.databaseUrl && !DATABASE_URL && { postgres: running.databaseUrl }),
    ...(taskQueue !== undefined && { taskQueue }),
    ...(options.schema !== undefined && { schema: options.schema }),
  }
}
