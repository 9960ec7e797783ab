// The peers, each with the settings that its documentation advises for this work, and what an application must do to resume after a crash.

/** A peer with one setting: a row of the table. */
export interface Row {
  /** The folder of its program. */
  peer: string
  title: string
  /** What the program is told: see its first lines. */
  variant: string
  /** The packages whose versions the table names. */
  packages: string[]
  /** Where the packages are: in the peer's folder, or at the root, which has those of pawl and of the bare loop. */
  installed: 'root' | 'own'
  settings: string
  /** What an application must write so that a conversation resumes after its process was killed. */
  recovery: string
  /** pawl's tools run in processes of their own, whose death is another case than that of the whole worker. */
  toolProcess?: true
}

const TEMPORAL = ['@temporalio/worker']
const HEARTBEATS = 'heartbeat timeout 1 s, retry from 100 ms, sticky queue timeout 1 s, bundle built ahead'
const SEND_HEARTBEATS = 'nothing, except that each tool must send heartbeats'

const pawl = (variant: string, settings: string): Row => ({
  peer: 'pawl',
  title: `pawl, \`${variant}\` tool`,
  variant,
  packages: ['pawl', ...TEMPORAL],
  installed: 'root',
  settings,
  recovery: variant === 'external' ? 'a `verify` for the tool' : 'nothing, except the effect of each tool',
  toolProcess: true,
})

const langgraph = (durability: string, channel: string, settings: string): Row => ({
  peer: 'langgraph',
  title: `LangGraph, \`${durability}\`${channel === 'delta' ? ', DeltaChannel' : ''}`,
  variant: `${durability} ${channel}`,
  packages: ['@langchain/langgraph', '@langchain/core', '@langchain/langgraph-checkpoint-postgres'],
  installed: 'own',
  settings,
  recovery: 'a list of the threads that are running, and `invoke(null)` for each after a start',
})

const flue = (variant: string, settings: string, recovery: string): Row => ({
  peer: 'flue',
  title: `Flue, ${variant} tool`,
  variant,
  packages: ['@flue/runtime'],
  installed: 'own',
  settings,
  recovery,
})

/** The rows in the order of the table. The first is the floor, which the others are compared with. */
export const ROWS: readonly Row[] = [
  {
    peer: 'temporal',
    title: 'bare Temporal loop',
    variant: '',
    packages: TEMPORAL,
    installed: 'root',
    settings: `two activities whose inputs are references, no transcript; ${HEARTBEATS}`,
    recovery: SEND_HEARTBEATS,
  },
  pawl('read', 'supervised, two executors, tool timeout 10 s; the call rides on the model call'),
  pawl('idempotent', 'supervised, two executors, tool timeout 10 s'),
  pawl('external', 'the same; `verify` asks whether the effect happened'),
  {
    peer: 'ai-sdk',
    title: 'Temporal AI SDK plugin',
    variant: '',
    packages: ['@temporalio/ai-sdk', 'ai', ...TEMPORAL],
    installed: 'own',
    settings: `\`generateText\` in the workflow, the tool an activity; ${HEARTBEATS}`,
    recovery: `${SEND_HEARTBEATS}, and shorter timeouts for model calls (10 minutes by default)`,
  },
  {
    peer: 'dbos',
    title: 'DBOS',
    variant: '',
    packages: ['@dbos-inc/dbos-sdk'],
    installed: 'own',
    settings: 'a step per call; workflows on a queue that is polled every 50 ms',
    recovery: 'nothing, if the new process has the executor id and the application version of the old one',
  },
  {
    peer: 'restate',
    title: 'Restate',
    variant: '',
    packages: ['@restatedev/restate-server', '@restatedev/restate-sdk'],
    installed: 'own',
    settings: '`ctx.run` per call; retries every 50 ms',
    recovery: 'nothing',
  },
  langgraph('async', 'full', 'prebuilt tool node, Postgres checkpointer; the default durability'),
  langgraph('async', 'delta', 'the same, with a `DeltaChannel` (beta) for the messages'),
  langgraph('sync', 'full', 'each step is stored before the next begins'),
  langgraph('sync', 'delta', 'the same, with a `DeltaChannel` (beta) for the messages'),
  {
    peer: 'mastra',
    title: 'Mastra durable agent',
    variant: '',
    packages: ['@mastra/core', '@mastra/pg'],
    installed: 'own',
    settings: '`createDurableAgent` (beta) with Postgres storage and `recovery: { durableAgents: "auto" }`',
    recovery: '`recoverAllDurableAgents()` after a start, in one process only',
  },
  {
    peer: 'workflow',
    title: 'Workflow SDK',
    variant: '',
    packages: ['workflow', '@workflow/world-postgres'],
    installed: 'own',
    settings: 'Postgres world, server built by Nitro; a step per call, with the messages as its argument',
    recovery: '`world.start()` when the server starts',
  },
  flue(
    'ordinary',
    'SQLite in a file: its Postgres adapter for version 2 does not install here',
    'nothing; the model is told that the outcome is unknown',
  ),
  flue('durable', 'the same; the tool is `durable`, and has one `step.do`', 'nothing, except `step.do` in the tool'),
]
