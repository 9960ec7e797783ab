// What the benchmark and the programs of the peers tell each other. A program gets a `Setting` as JSON in BENCH_SETTING, one `Conversation`
// per line on standard input, and prints `{ "ready": true }` and one `Done` per conversation. What happens in a conversation, it appends
// to a file, because several processes may do so: one `Mark` per line. program.mjs has the programs' side.

/** Where a program finds things, and how it should work. */
export interface Setting {
  temporalAddress: string
  namespace: string
  /** A database of the row's own. */
  databaseUrl: string
  /** For files of the program, kept until the benchmark ends. */
  folder: string
  variant: string
  resultBytes: number
  /** Free ports. */
  ports: number[]
  /** The conversation in which the program's predecessor was killed, for peers whose application must know it. */
  resume?: Conversation
}

export interface Conversation {
  id: string
  turns: number
  /** The turn whose tool call lasts until its process is killed. */
  hold?: number
}

export interface Done {
  done: string
  /** The Temporal workflow that had the conversation. */
  workflowId?: string
  /** Bytes stored outside of Temporal and Postgres. */
  stored?: number
}

export interface Mark {
  /** The model was entered; the tool was entered, and its effect happened; everything is stored. */
  what: 'model' | 'effect' | 'settled'
  /** From 1; 0 for `settled`. */
  turn: number
  /** Milliseconds of the machine's monotonic clock, which all its processes share. */
  at: number
  pid: number
}

/** The clock of `Mark.at`. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6
